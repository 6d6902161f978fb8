package paddock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// gitWait is how long reading one file of git's configuration may take.
const gitWait = 5 * time.Second

// compareGit compares the commands' copies of git's configuration with the host's
// files, and stores the additions that the user can accept.
func (s *Sandbox) compareGit() {
	var kept []gitconfig.Kept
	files, added := slices.Collect(maps.Keys(s.death.Copies)), 0
	slices.SortFunc(files, func(a, b string) int { // nested repositories last: they lose if there are too many settings
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	for _, file := range files {
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
		var found gitconfig.Added
		if err == nil {
			found, err = gitconfig.Compare(text, copied.Text)
		}
		if added += len(found.Settings); added > gitconfig.MaxAdded && len(found.Settings) > 0 {
			added -= len(found.Settings)
			found.Settings, err = nil, fmt.Errorf("more than %d settings were added, in all repositories", gitconfig.MaxAdded)
		}
		if err != nil {
			change.Unread = err.Error()
		}
		change.Added, change.Other = printed(found.Settings), found.Other
		if len(change.Added)+len(change.Other)+len(change.Unread) > 0 { // otherwise it differs only in form
			s.changes.Git = append(s.changes.Git, change)
		}
		if len(found.Settings) > 0 {
			kept = append(kept, gitconfig.Kept{Workspace: s.before.Workspace(), File: file, Settings: found.Settings})
		}
	}
	if len(kept) == 0 {
		return
	}
	if err := gitconfig.Keep(s.state, s.ID(), kept); err != nil {
		for i := range s.changes.Git {
			if c := &s.changes.Git[i]; len(c.Added) > 0 {
				c.Added, c.Unread = nil, "cannot keep it: "+err.Error()
			}
		}
	}
}

// noCopy says why a copy was not read.
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

// printed returns settings as printable lines.
func printed(settings []gitconfig.Setting) []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.String())
	}
	return all
}

// GitAccept says what [AcceptGit] takes over.
type GitAccept struct {
	// Dir chooses the sandboxes whose workspace is or holds this directory, and the
	// file of a repository here. "" chooses everything.
	Dir string
	// Sandbox chooses one sandbox by its id. "" chooses all.
	Sandbox string
	// Drop only deletes the stored additions.
	Drop bool
	// Agree is asked before the first write, with all that would be added. nil: nothing
	// is written.
	Agree func(offered []GitAccepted) (bool, error)
}

// GitAccepted is what one file of git's configuration can take over, or has taken over.
type GitAccepted struct {
	File string
	// Sandboxes are those whose commands added it, the newest first.
	Sandboxes []string
	// Added are the settings that it can take over, or has now.
	Added []string
	// Left are those that it does not take over, each with the reason.
	Left []GitLeft
	// Err says why the file took nothing over; its additions then stay stored.
	Err error
}

// GitLeft is a setting that a file does not take over.
type GitLeft struct{ Setting, Why string }

// GitAcceptance is the result of [AcceptGit].
type GitAcceptance struct {
	Files []GitAccepted
	// Agreed says that the files have the settings now. Otherwise they can take them over.
	Agreed bool
	// Forgotten names the sandboxes whose additions could not be read, with the reasons.
	Forgotten []string
}

// AcceptGit takes additions of commands to their copies of git's configuration over into
// the host's configuration: remotes with https and ssh URLs, the upstreams of branches, and
// the user's name and address. If several sandboxes set a key, the newest one counts. It
// takes nothing else over, and changes no existing value. It then deletes the stored
// additions that it has taken over or can never take over.
func AcceptGit(what GitAccept, opts Options) (GitAcceptance, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return GitAcceptance{}, err
	}
	from := gitconfig.Choice{Sandbox: what.Sandbox, Drop: what.Drop}
	if what.Agree != nil {
		from.Agree = func(offered []gitconfig.Accepted) (bool, error) { return what.Agree(accepted(offered)) }
	}
	if what.Dir != "" {
		way, err := hostpath.Locate(state, what.Dir)
		if err != nil {
			return GitAcceptance{}, &Error{Message: "cannot use " + what.Dir + ": " + hostpath.Reason(err), Hint: hostpath.Hint(err)}
		}
		if !way.IsDir() {
			return GitAcceptance{}, &Error{Message: "cannot use " + what.Dir + ": it is not a directory"}
		}
		from.Dir = way.Path
	}
	found, err := gitconfig.Accept(state, from)
	if e := (*gitconfig.TooManyError)(nil); errors.As(err, &e) {
		err = &Error{Message: "cannot accept all of it at once: " + err.Error(), Hint: "take over what one sandbox added: paddock git accept " + e.Sandboxes[0] + ", or forget it all: `drop`"}
	}
	return GitAcceptance{accepted(found.Files), found.Agreed, found.Forgotten}, err
}

// accepted returns the files as the types of this package.
func accepted(files []gitconfig.Accepted) (all []GitAccepted) {
	for _, f := range files {
		one := GitAccepted{File: f.File, Sandboxes: f.Sandboxes, Added: printed(f.Settings), Err: f.Err}
		for _, l := range f.Left {
			one.Left = append(one.Left, GitLeft{l.Setting.String(), l.Why})
		}
		if locked := (*gitconfig.LockedError)(nil); errors.As(f.Err, &locked) {
			one.Err = &Error{Message: f.Err.Error(), Hint: "where no git runs, remove " + policy.ShellWord(locked.Lock)}
		}
		all = append(all, one)
	}
	return all
}

// LinkWorktree returns the spec with a mount of the repository of which its workspace is a
// linked worktree, for the default walls. The mount is at the path at which git in the
// workspace looks for the repository, and read-only if the workspace is. Commands can add
// objects and move references there, unless the workspace is read-only or an overlay; configuration, hooks and other worktrees are protected.
// If the workspace is not a linked worktree, or Open would refuse the spec, the spec is
// returned unchanged. A ".git" file that leads elsewhere is a *policy.FieldError.
func LinkWorktree(ctx context.Context, spec Spec, opts Options) (Spec, error) {
	be, resolved, err := opts.prepare(spec)
	w := resolved.Workspace
	if err != nil || be.Name() != policy.BackendLinux || resolved.Level != policy.LevelFull || w.Mode == policy.ModeCopy || w.Source == "" ||
		slices.Contains(w.Unprotected, ".git") || slices.Contains(w.Unprotected, "*") {
		return spec, nil // Open reports the error
	}
	_, seen, err := opts.stateDir()
	dir := hostpath.Real(w.Source)
	if err != nil || dir == "" {
		return spec, nil // Open reports the error
	}
	var shown []string
	for _, m := range resolved.Mounts {
		if at := hostpath.Real(m.Source); at != "" {
			shown = append(shown, at)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, gitWait)
	defer cancel()
	tree, err := obeyed.LinkedWorktree(ctx, seen, dir, shown)
	if err != nil || tree == nil {
		return spec, err
	}
	mode := "rw"
	if w.Access == "ro" || w.Mode == policy.ModeOverlay { // of an overlay's changes nothing reaches the host
		mode = "ro"
	}
	spec.Mounts = append(slices.Clone(spec.Mounts), Mount{Source: tree.Common, Target: tree.Target, Mode: mode})
	return spec, nil
}
