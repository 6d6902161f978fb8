package paddock

import (
	"context"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// Changes are the files that programs of the host execute or obey (policy.Inventory) and
// that commands have made or changed, in directories of the host that they could write.
// Paths are relative to the workspace, or absolute if they lie in a mount. Changes that other
// programs have made there in the meantime are included.
type Changes struct {
	// Sandbox is the id of the sandbox, and Workspace its directory on the host.
	Sandbox, Workspace string
	// Principal is that of [Lasting], if the sandbox is one of [Create] and somebody ended it.
	Principal string `json:",omitempty"`
	// Planted are files that programs of the host obey without being asked. Check them
	// before you use the directory.
	Planted []Change
	// Programs are files that the host runs when a person asks for it: Makefiles,
	// scripts of packages, configuration that runs tests.
	Programs []Change
	// Sockets are those that a program outside has begun to listen at since the start, so that
	// commands could connect to it.
	Sockets []string `json:",omitempty"`
	// Discarded is how many paths commands had changed in a workspace of mode "overlay" whose layer
	// ended with the sandbox. It is 0 where that could not be counted, which Unseen says then.
	Discarded int `json:",omitempty"`
	// Unseen lists what could not be compared, and why. Empty: everything was compared.
	Unseen []string
	// Git is how commands have changed their copies of git's configuration.
	Git []GitChange
}

// GitChange is how commands have changed their copy of one file of git's configuration.
// The host's file has not changed.
type GitChange struct {
	File string // on the host
	// Added are new settings ("remote.origin.url=https://…") that [AcceptGit] takes
	// over, and Other the keys of all other changes, which it never takes over.
	Added, Other []string
	// Unread says why the copy was not read, or why the additions were not stored. It
	// is empty if there was no problem.
	Unread string
}

// Change is one path.
type Change struct {
	Path string
	Made bool // it did not exist before
	// Tool is the program that obeys it, and Why says when.
	Tool, Why string
}

// Empty reports whether there is nothing to report.
func (c Changes) Empty() bool {
	return len(c.Planted)+len(c.Programs)+len(c.Sockets)+c.Discarded+len(c.Unseen)+len(c.Git) == 0
}

// unreportedTime is how long a start may compare for owners that were killed.
const unreportedTime = 10 * time.Second

// before records everything on the host that commands of a sandbox can write, while the
// backend starts. wait returns the result, or nil if they can write nothing.
func before(ctx context.Context, req backend.Request, p obeyed.Protection) (wait func() *obeyed.Snapshot) {
	none := func() *obeyed.Snapshot { return nil }
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		return none // the backend reports the error
	}
	w := obeyed.Watch{Workspace: mounts[0].Source}
	for _, m := range mounts {
		if m.Writable && !m.Copied && m.Stored == nil {
			w.Roots = append(w.Roots, m.Source)
		}
	}
	if len(w.Roots) == 0 {
		return none
	}
	w.Homes, w.Relative = p.Homes, p.Relative
	if w.Homes == nil { // nothing was protected
		w.Homes = hostpath.Homes()
	}
	w.Search, w.Also = hostpath.ShellDirs(w.Workspace), p.Watch
	return p.Take(ctx, w)
}

// newChanges returns the result of a comparison as Changes.
func newChanges(id, workspace string, found obeyed.Changes) Changes {
	c := Changes{Sandbox: id, Workspace: workspace, Unseen: found.Unseen}
	shown := func(at string) string {
		if rel, in := hostpath.Within(at, workspace); in && rel != "" {
			return rel
		}
		return at
	}
	for _, at := range found.Sockets {
		c.Sockets = append(c.Sockets, shown(at))
	}
	for _, f := range found.List {
		one := Change{Path: shown(f.Path), Made: f.Made, Tool: f.By.Tool, Why: f.By.Why}
		if f.By.Class == policy.WhenNamed {
			c.Programs = append(c.Programs, one)
		} else {
			c.Planted = append(c.Planted, one)
		}
	}
	return c
}

// TellUnreported compares the directories of sandboxes whose owners were killed before they
// could report the changes of their commands. It calls tell for each sandbox with changes,
// and reports each only once. [Open] does this if [Options].Unreported is set.
func TellUnreported(ctx context.Context, opts Options, tell func(Changes)) error {
	dir, _, err := opts.stateDir()
	if err != nil {
		return err
	}
	return tellUnreported(ctx, run.TakeUnreported(dir, true), tell)
}

func tellUnreported(ctx context.Context, list []run.Unreported, tell func(Changes)) error {
	began := time.Now()
	looked := map[string]*obeyed.Snapshot{}
	for _, u := range list {
		if time.Since(began) > unreportedTime || ctx.Err() != nil {
			u.Release()
			continue
		}
		c := Changes{Sandbox: u.Name()}
		text, err := u.Text()
		before, decoded := (*obeyed.Snapshot)(nil), err
		if err == nil {
			before, decoded = obeyed.Decode(text)
		}
		if decoded != nil {
			c.Unseen = []string{"its owner was killed, and what was there before its commands cannot be read: " + decoded.Error()}
		} else {
			c = newChanges(u.Name(), before.Workspace(), before.CompareWith(ctx, looked))
		}
		if ctx.Err() != nil {
			u.Release()
			continue
		}
		if !c.Empty() {
			tell(c)
		}
		u.Forget()
	}
	return ctx.Err()
}
