package exec

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// workingDir checks a directory that is written from the workspace, and
// returns its path from there. It is looked up beneath a handle of the
// workspace, name by name, so that neither ".." nor a link leads out of it. A
// refusal is what the executor answers.
func workingDir(workspace, written string) (rel, refusal string) {
	const invalid = "Failed to validate working directory"
	written = strings.TrimPrefix(written, "/")
	if written == "" || written == "." {
		return ".", ""
	}
	root, err := os.OpenRoot(workspace)
	if err != nil || strings.ContainsRune(written, 0) {
		return "", invalid
	}
	defer root.Close()
	info, err := root.Stat(written)
	switch {
	case err == nil && !info.IsDir():
		return "", "Execution failed: the working directory is not a directory: /" + written
	case err == nil:
		return path.Clean(written), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "Working directory does not exist: /" + written
	case escapes(err):
		return "", "Working directory outside workspace is not allowed"
	}
	return "", invalid
}

// escapes says whether a path was refused because it leads out of its root.
// Package os has no name for that error; what is an errno is another one.
func escapes(err error) bool {
	e := (*fs.PathError)(nil)
	return errors.As(err, &e) && strings.Contains(e.Err.Error(), "escapes")
}
