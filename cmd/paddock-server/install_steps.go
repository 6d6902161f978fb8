package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// step is an edit of an installation, or one that is taken back.
type step struct {
	*install.Change
	undo bool
}

func (s step) print() {
	if !s.undo {
		fmt.Fprintln(os.Stderr, "paddock: note: this belongs into "+s.Path)
		fmt.Print(s.Text)
	}
}

// do takes the step, and reports whether that changed anything.
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

// before are the servers that a project has of its own.
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

// madeUp is the form of names that nobody can know.
var madeUp = regexp.MustCompile(`^` + ownName + `_[a-z2-7]{10}$`)

// nameLocal names a project's own server: by a name that no other file can have, or as
// it is named already where that gives nothing to rules that a client has for the name.
func (f *installFlags) nameLocal(target *install.Target, s *install.Server, dir string) error {
	if f.name != "" && s.Approved {
		return &policy.FieldError{Field: "--name", Value: f.name, Reason: "clients approve by the name of a server, so an approved one has a name that nobody can know", Hint: "leave --name out, or the approval, with --ask"}
	}
	s.Name = f.nameOr(ownName + "_" + strings.ToLower(rand.Text()[:10]))
	before, err := f.before(target, *s, dir)
	if err != nil {
		return err
	}
	for _, old := range before {
		same := !s.Approved && old.Command == s.Command && slices.Equal(old.Args, s.Args)
		switch {
		case f.name == "" && (same || s.Approved && madeUp.MatchString(old.Name)):
			s.Name = old.Name
			return nil
		case f.name == old.Name:
			return nil
		}
	}
	if madeUp.MatchString(f.name) {
		return &policy.FieldError{Field: "--name", Value: f.name, Reason: "names of this form are made up: one that somebody knows could be approved later", Hint: "choose another, or leave it out"}
	}
	return nil
}
