package obeyed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/policy"
)

// Worktree is the repository of which a workspace is a linked worktree.
type Worktree struct {
	Common string // its own directory, free of symbolic links
	Target string // where git in the workspace, at [policy.WorkspacePath], looks for it
}

// LinkedWorktree finds the repository of a linked worktree, so that it can be mounted. It
// returns nil if the workspace, which is free of symbolic links, is not a linked worktree,
// or if the mounts, the workspace and shown, show the repository already. A ".git" file
// that leads elsewhere is an error. It is also an error if the user may not mean the
// repository: because it does not lead back, because it belongs to another user, or because
// commands of a sandbox could have written the file or made a link on either way.
func LinkedWorktree(ctx context.Context, seen *hostpath.Seen, workspace string, shown []string) (*Worktree, error) {
	list := seen.Written()
	at := filepath.Join(workspace, ".git")
	text, err := hostpath.Read(ctx, "/", at[1:], gitconfig.MaxPathFile)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // a directory, nothing, or what Protect refuses
	}
	to, err := gitPath(text, "gitdir: ")
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // git refuses it
	}
	way, err := hostpath.Follow(gitconfig.Absolute(to, workspace))
	if err != nil || !way.IsDir() {
		return nil, nil //nolint:nilerr,nilnil // git refuses it
	}
	for _, dir := range append(shown, workspace) {
		if hostpath.Under(way.Path, dir) {
			return nil, nil //nolint:nilnil // git finds it, or the operator has mounted it
		}
	}
	common := filepath.Dir(filepath.Dir(way.Path))
	// Somebody who planted the file would want this mount, so only some errors suggest it.
	mount := "if you know that it belongs there mount it: `mounts.rw` " + policy.ShellWord(common)
	refuse := func(why, hint string) error {
		return hostpath.Refuse("workspace.source", workspace, ".git leads to "+way.Path+", "+why, hint+", or go without git: `workspace.unprotected` .git")
	}
	read := func(name string) string {
		text, err := hostpath.Read(ctx, "/", filepath.Join(way.Path, name)[1:], gitconfig.MaxPathFile)
		if err != nil {
			return ""
		}
		path, _ := gitPath(text, "")
		return path
	}
	if shared := read("commondir"); filepath.Base(filepath.Dir(way.Path)) != "worktrees" || shared == "" || filepath.Clean(gitconfig.Absolute(shared, way.Path)) != common {
		return nil, refuse("which is not visible inside, so that git would not work", "name a directory that holds both with -w")
	}
	back, err := hostpath.Follow(gitconfig.Absolute(read("gitdir"), way.Path))
	if err != nil || back.Path != at {
		return nil, refuse("whose gitdir does not lead back here", "repair it with git worktree repair; "+mount)
	}
	for _, w := range []*hostpath.Way{way, back} {
		if err := list.Judge(w, nil); err != nil {
			return nil, refuse(err.Error(), mount)
		}
	}
	shared, err := hostpath.Follow(common)
	if err != nil {
		return nil, refuse(hostpath.Reason(err), mount)
	}
	if shared.UID != back.UID || os.Geteuid() != 0 && int(shared.UID) != os.Geteuid() {
		return nil, refuse(fmt.Sprintf("and %s belongs to uid %d", common, shared.UID), mount)
	}
	// Commands in the repository can forge the way back, and commands around the worktree
	// a way there. So no commands may have been able to write the worktree's own file.
	if d, ok := list.Keeps(back.Dirs, back.Path); !ok {
		return nil, refuse("and commands of a sandbox could have written that: "+hostpath.WasWritable(d.Path), "look at "+at+"; "+mount)
	}
	tree := &Worktree{Common: common, Target: filepath.Dir(filepath.Dir(filepath.Clean(to)))}
	if !filepath.IsAbs(to) {
		tree.Target = filepath.Dir(filepath.Dir(filepath.Join(policy.WorkspacePath, to)))
	}
	return tree, nil
}

// guardWorktree protects the files that lead from a repository to its linked worktrees. If
// the workspace is one of them, git inside would write its path inside into "gitdir", which
// differs from the path outside, and a later start mounts the path in that file. It also
// protects the worktrees of a repository that is a separate mount, no matter which setting
// has mounted it.
func (p *protector) guardWorktree() error {
	if p.opened(".git") {
		return nil
	}
	own := map[string]string{} // the worktree that is the workspace, by its repository
	for i := range p.mounts {
		m := &p.mounts[i]
		if m.Field != "workspace.source" {
			continue
		}
		dir, common, err := gitDirs(p.ctx, m.Source)
		if err != nil || dir == "" || dir == common || !p.below(dir) || filepath.Dir(dir) != filepath.Join(common, "worktrees") {
			break // LinkedWorktree has refused invalid ones
		}
		own[common] = filepath.Base(dir)
		link := filepath.Join(dir, "gitdir")
		if info, err := p.seen.lstat(link); err == nil && info.Mode().IsRegular() {
			p.guards[link] = true
			p.out.Guards = append(p.out.Guards, backend.Guard{File: link, Why: "it leads to the worktree", Copy: true, Text: policy.WorkspacePath + "/.git\n"})
		}
	}
	for i := range p.mounts {
		m := &p.mounts[i]
		top := filepath.Join(m.Source, "worktrees")
		if m.Field == "workspace.source" || own[m.Source] == "" && !p.isGitDir(m.Source) {
			continue
		}
		if info, err := p.seen.lstat(top); err == nil && info.IsDir() {
			p.out.Guards = append(p.out.Guards, backend.Guard{File: top, Except: own[m.Source], Why: "it leads to the other worktrees"})
		}
	}
	return nil
}

// gitDirs returns the repository's own directory for a worktree, and the one that it shares
// with other worktrees, free of symbolic links. Both are "" if git finds none. It reads files
// that commands could have made.
func gitDirs(ctx context.Context, root string) (dir, common string, err error) {
	at := filepath.Join(root, ".git")
	text, err := hostpath.Read(ctx, "/", at[1:], gitconfig.MaxPathFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case errors.Is(err, hostpath.ErrNotRegular):
		return hostpath.Real(at), hostpath.Real(at), nil
	case err != nil:
		return "", "", err
	}
	to, err := gitPath(text, "gitdir: ")
	if err != nil {
		return "", "", err
	}
	if dir = hostpath.Real(gitconfig.Absolute(to, root)); dir == "" {
		return "", "", nil // git refuses it
	}
	text, err = hostpath.Read(ctx, "/", filepath.Join(dir, "commondir")[1:], gitconfig.MaxPathFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, dir, nil
	case err != nil:
		return "", "", err
	}
	if to, err = gitPath(text, ""); err != nil {
		return "", "", err
	}
	return dir, hostpath.Real(gitconfig.Absolute(to, dir)), nil
}

// gitPath returns the path that is the content of one of git's files, after a prefix.
func gitPath(text []byte, prefix string) (string, error) {
	path, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if !ok || path == "" || strings.ContainsAny(path, "\x00\r\n") {
		return "", errors.New("not a path that git accepts")
	}
	return path, nil
}
