//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// step is an edit of an installation, to make or to undo.
type step struct {
	*install.Change
	undo bool
}

// do does the step, and reports whether that changed anything.
func (s step) do() (changed bool, err error) {
	if !s.undo {
		changed, err = s.Do()
		switch {
		case err != nil:
		case changed:
			fmt.Printf("wrote %s into %s\n", s.What, s.Path)
		default:
			fmt.Printf("%s has %s already\n", s.Path, s.What)
		}
		return changed, err
	}
	if changed, err = s.Undo(); changed {
		fmt.Printf("took %s out of %s\n", s.What, s.Path)
	}
	if unsafe := (*install.UnsafeError)(nil); errors.As(err, &unsafe) {
		err = &paddock.Error{Message: err.Error(), Hint: s.What + " is still there: mend that, if need be, and run this again, or take it out by hand"}
	}
	return changed, err
}

// steps returns the edits that set the client up, in order. Those that take permissions
// away come first: if one fails, the client has fewer than were asked for.
func (f *installFlags) steps(target *install.Target, server install.Server, dir string) ([]step, error) {
	var steps []step
	if f.exclusive {
		own := target.Exclusive()
		if own == nil {
			return nil, &policy.FieldError{Field: "--exclusive", Reason: f.client + " has no file for that", Hint: target.Own}
		}
		steps = append(steps, step{own, false})
	}
	follow, err := follower()
	if err != nil {
		return nil, err
	}
	before, err := f.before(target, server, dir)
	if err != nil {
		return nil, err
	}
	force := f.force
	for _, old := range before {
		if old.Name == server.Name && old.Target == target {
			force = true // it is edited where it is
			continue
		}
		approval, err := old.Target.Approval(old.Name)
		if err != nil {
			return nil, err
		}
		if approval != nil && old.Name != server.Name {
			steps = append(steps, step{approval, true})
		}
		steps = append(steps, step{old.Target.Server(old.Server, false), true})
	}
	approval, err := target.Approval(server.Name)
	if err != nil {
		return nil, err
	}
	if approval != nil && !server.Approved {
		steps = append(steps, step{approval, true})
	}
	steps = append(steps, step{target.Server(server, force), false})
	if approval != nil && server.Approved {
		steps = append(steps, step{approval, false})
	}
	for _, s := range steps {
		s.Follow = follow
	}
	return steps, nil
}

// before returns the servers in a project's own configuration.
func (f *installFlags) before(target *install.Target, server install.Server, dir string) ([]install.Found, error) {
	if target.Scope != install.Local {
		return nil, nil
	}
	follow, err := follower()
	if err != nil {
		return nil, err
	}
	servers, err := target.Servers(follow)
	if err != nil {
		return nil, f.notWritten(target.Server(server, false), server, err)
	}
	return slices.DeleteFunc(servers, func(s install.Found) bool { return !isFor(s.Server, dir) }), nil
}

// follower returns a function that resolves the links of a configuration, and refuses
// those that commands of a sandbox could have made.
func follower() (func(string) (string, error), error) {
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return func(path string) (string, error) {
		way, err := hostpath.LocateOwn(state, path)
		if err != nil {
			return "", err
		}
		return way.Path, nil
	}, nil
}

// notWritten returns the error about an edit that failed, with what to do by hand.
func (f *installFlags) notWritten(c *install.Change, server install.Server, err error) error {
	unsafe, link := (*install.UnsafeError)(nil), (*hostpath.LinkError)(nil)
	switch {
	case errors.As(err, &link):
		fmt.Print(c.Text)
		return &paddock.Error{
			Message: text.Escape("cannot edit " + c.Path + ": " + err.Error()),
			Hint:    text.Escape("remove the link, if you did not make it, or add by hand what was printed, to " + link.Leads),
		}
	case errors.Is(err, install.ErrOther):
		return &paddock.Error{
			Message: "cannot add the server " + server.Name + " to " + c.Path + ": " + err.Error(),
			Hint:    "replace it with --force, or choose another name with --name",
		}
	case errors.Is(err, install.ErrChanged):
		return &paddock.Error{Message: err.Error(), Hint: "run this again"}
	case errors.As(err, &unsafe):
		fmt.Print(c.Text)
		return &paddock.Error{Message: err.Error(), Hint: "add by hand what was printed"}
	}
	return err
}

// installRecord holds the files in which an installation has turned a client's own tools
// off in words that could be the user's.
type installRecord map[string]bool

const (
	installRecordName = "installed.json" // in the directory of state
	maxInstallRecord  = 1 << 20          // bytes
	installTime       = time.Minute      // the longest wait for another installation
)

// withInstallRecord installs or uninstalls while no other process of this user's does, and
// keeps the changed record, also if do fails.
func withInstallRecord(do func(installRecord) error) error {
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return err
	}
	record, err := ownfile.New(filepath.Join(state, installRecordName), maxInstallRecord, func(text []byte) (on installRecord, err error) {
		if len(text) > 0 {
			err = json.Unmarshal(text, &on)
		}
		return on, err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	var failed error
	err = record.Update(ctx, func(old installRecord) ([]byte, error) {
		now := installRecord{}
		for path := range old {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				now[path] = true
			}
		}
		if failed = do(now); maps.Equal(now, old) {
			return nil, nil
		}
		return json.Marshal(now)
	})
	if err == nil || failed != nil {
		return failed
	}
	return &paddock.Error{
		Message: fmt.Sprintf("cannot keep what was installed in %s: %v", record.Path(), err),
		Hint:    "mend that, or remove the file: then uninstall leaves it to you to turn a client's own tools on again",
	}
}
