package paddock

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// withGitUser is a spec's environment with who the user is to git, for what it leaves open.
func withGitUser(spec Spec) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), gitWait)
	defer cancel()
	env := map[string]string{}
	if dir := hostpath.Real(spec.Workspace.Source); dir != "" {
		env = hostpath.GitUser(ctx, dir)
	}
	maps.Copy(env, spec.Env)
	return env
}

// gitWait bounds the reading of one file of git's configuration.
const gitWait = 5 * time.Second

// compareGit compares the commands' copies of git's configuration with the host's
// files, and keeps what can be taken over.
func (s *Sandbox) compareGit() {
	if s.before == nil { // commands could write nothing of the host's
		return
	}
	var kept []hostpath.GitKept
	for _, file := range slices.Sorted(maps.Keys(s.death.Copies)) {
		copied := s.death.Copies[file]
		if copied.Err != nil {
			s.changes.Git = append(s.changes.Git, GitChange{File: file, Unread: noCopy(copied.Err)})
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), gitWait)
		text, err := hostpath.Read(ctx, "/", file[1:], maxParsedConfig)
		cancel()
		if err == nil && bytes.Equal(text, copied.Text) {
			continue
		}
		change := GitChange{File: file}
		var found hostpath.GitAdded
		if err == nil {
			found, err = hostpath.CompareGit(text, copied.Text)
		}
		if err != nil {
			change.Unread = err.Error()
		}
		change.Added, change.Other = printed(found.Settings), found.Other
		if len(change.Added)+len(change.Other)+len(change.Unread) > 0 { // else it says the same in other words
			s.changes.Git = append(s.changes.Git, change)
		}
		if len(found.Settings) > 0 {
			kept = append(kept, hostpath.GitKept{Workspace: s.before.Workspace(), File: file, Settings: found.Settings})
		}
	}
	if len(kept) == 0 {
		return
	}
	if err := hostpath.KeepGit(s.state, s.ID(), kept); err != nil {
		for i := range s.changes.Git {
			s.changes.Git[i].Unread = "it cannot be kept: " + err.Error()
		}
	}
}

// noCopy says in words what stands in the place of a copy.
func noCopy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it was removed"
	case errors.Is(err, syscall.ELOOP):
		return "it is a symbolic link"
	case errors.Is(err, hostpath.ErrNotRegular), errors.Is(err, hostpath.ErrTooLarge):
		return "it is " + hostpath.Reason(err)
	}
	return "cannot read it: " + hostpath.Reason(err)
}

func printed(settings []hostpath.GitSetting) []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.String())
	}
	return all
}

// GitAccepted is what [AcceptGit] has made of one file of git's configuration.
type GitAccepted struct {
	File string
	// Added are the settings that it has now, and Left those that it did not take,
	// since it has others of these keys meanwhile.
	Added, Left []string
}

// AcceptGit has the host's configuration of git take over what commands of sandboxes
// over a directory have added to their copies of it: remotes with https and ssh URLs,
// what branches follow, the user's name and address. It takes nothing else over, and
// changes no value that is there.
func AcceptGit(dir string, opts Options) ([]GitAccepted, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	way, err := hostpath.Locate(state, dir)
	if err != nil {
		return nil, &Error{Message: "cannot use " + dir + ": " + hostpath.Reason(err), Hint: hostpath.Hint(err)}
	}
	if !way.IsDir() {
		return nil, &Error{Message: "cannot use " + dir + ": it is not a directory"}
	}
	found, err := hostpath.AcceptGit(state, way.Path)
	var all []GitAccepted
	for _, f := range found {
		all = append(all, GitAccepted{File: f.File, Added: printed(f.Settings), Left: printed(f.Left)})
	}
	if locked := (*hostpath.LockedError)(nil); errors.As(err, &locked) {
		err = &Error{Message: err.Error(), Hint: "where no git runs, remove " + locked.Lock}
	}
	return all, err
}

// LinkWorktree returns the spec with a mount of the repository of which its workspace
// is a linked worktree, where the default walls are asked for: at the path by which git
// in the workspace looks for it, read-only where the workspace is. Commands can add
// objects and move references there; configuration, hooks and other worktrees are
// protected. Where the workspace is none the spec is returned as it is, and so is one
// that Open refuses. A ".git" file that leads elsewhere is a *policy.FieldError.
func LinkWorktree(ctx context.Context, spec Spec, opts Options) (Spec, error) {
	be, resolved, err := opts.prepare(spec)
	w := resolved.Workspace
	if err != nil || be.Name() != policy.BackendLinux || resolved.Level != policy.LevelFull || w.Mode == policy.ModeCopy || w.Source == "" ||
		slices.Contains(w.Unprotected, ".git") || slices.Contains(w.Unprotected, "*") {
		return spec, nil // Open says so
	}
	_, seen, err := opts.stateDir()
	dir := hostpath.Real(w.Source)
	if err != nil || dir == "" {
		return spec, nil // likewise
	}
	var shown []string
	for _, m := range resolved.Mounts {
		if at := hostpath.Real(m.Source); at != "" {
			shown = append(shown, at)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, gitWait)
	defer cancel()
	tree, err := seen.LinkedWorktree(ctx, dir, shown)
	if err != nil || tree == nil {
		return spec, err
	}
	mode := "rw"
	if w.Access == "ro" {
		mode = "ro"
	}
	spec.Mounts = append(slices.Clone(spec.Mounts), Mount{Source: tree.Common, Target: tree.Target, Mode: mode})
	return spec, nil
}
