package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// gitDirs finds a directory's own directory of git's, and the one that it has in common
// with other worktrees, free of symbolic links. Both are "" where git finds none.
// What it reads commands could have made.
func gitDirs(ctx context.Context, root string) (dir, common string, err error) {
	at := filepath.Join(root, ".git")
	text, err := Read(ctx, "/", at[1:], maxGitFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case errors.Is(err, ErrNotRegular):
		return Real(at), Real(at), nil
	case err != nil:
		return "", "", err
	}
	to, err := gitPath(text, "gitdir: ")
	if err != nil {
		return "", "", err
	}
	if dir = Real(absolute(to, root)); dir == "" {
		return "", "", nil // git refuses it
	}
	text, err = Read(ctx, "/", filepath.Join(dir, "commondir")[1:], maxGitFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, dir, nil
	case err != nil:
		return "", "", err
	}
	if to, err = gitPath(text, ""); err != nil {
		return "", "", err
	}
	return dir, Real(absolute(to, dir)), nil
}

// gitPath is the path that is the content of a file of git's, behind a prefix.
func gitPath(text []byte, prefix string) (string, error) {
	path, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if !ok || path == "" || strings.ContainsAny(path, "\x00\r\n") {
		return "", errors.New("no path in it that git takes")
	}
	return path, nil
}
