package paddock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// WrittenPath is a directory, or a file that was mounted by itself, that commands of sandboxes could
// ever change. Links in it are not followed any more, and no program in it is executed outside of a
// sandbox.
type WrittenPath = hostpath.Listed

// Written returns what commands of sandboxes could ever change, sorted by path: the list of the state
// directory, of the default one, and for users other than root what root's sandboxes could change.
func Written(opts Options) ([]WrittenPath, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	all, err := hostpath.Listing(state)
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of what sandboxes could write: %w", err)
	}
	return all, nil
}

// Forgettable is what there is to know before an entry of [Written] is forgotten.
type Forgettable struct {
	// Entries are those of the path: several if a directory was replaced by another.
	Entries []WrittenPath
	// In is what is at the path, empty if nothing is.
	In obeyed.Inspection
	// Again names, for people, what would put the entry on the list again: stopped sandboxes and
	// layers over it.
	Again []string

	path string
}

// FindWritten looks at what is on the list by a path, and at what it holds. It changes nothing. The
// error of a path that is not on the list names the entries above and below it.
func FindWritten(ctx context.Context, path string, opts Options) (*Forgettable, error) {
	abs, err := hostpath.Abs(path)
	if err != nil {
		return nil, &Error{Message: "cannot use " + text.Escape(path) + ": " + hostpath.Reason(err)}
	}
	all, err := Written(opts)
	if err != nil {
		return nil, err
	}
	at := abs
	if !slices.ContainsFunc(all, func(one WrittenPath) bool { return one.Path == abs }) {
		if at, err = opts.led(abs); err != nil {
			return nil, err
		}
	}
	f, plain := &Forgettable{path: at}, hostpath.Real(at) == at
	for _, one := range all {
		if one.Path == at || plain && one.Is(at) {
			f.Entries = append(f.Entries, one)
		}
	}
	if len(f.Entries) == 0 {
		return nil, notWritten(at, all)
	}
	if slices.ContainsFunc(f.Entries, func(e WrittenPath) bool { return e.Lent }) {
		return nil, &Error{Message: "cannot forget " + text.Escape(at) + ": root's sandboxes could change it, and only root can forget that",
			Hint: "as root: " + hostpath.Unlist(f.Entries[0].Path)}
	}
	if f.Again, err = f.users(ctx, opts); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(at); err == nil {
		f.In = obeyed.Inspect(ctx, at)
	}
	return f, ctx.Err()
}

// led returns the path to which links lead. It fails if commands of a sandbox could have made one: they
// would choose what is forgotten.
func (o Options) led(path string) (string, error) {
	state, _, err := o.stateDir()
	if err != nil {
		return "", err
	}
	way, err := hostpath.LocateOwn(state, path)
	if err != nil {
		e := &Error{Message: "cannot forget " + text.Escape(path) + ": " + text.Escape(hostpath.Reason(err))}
		if link := (*hostpath.LinkError)(nil); errors.As(err, &link) {
			e.Hint = link.Hint()
		}
		return "", e
	}
	return way.Path, nil
}

// notWritten returns the error of a path that is not on the list.
func notWritten(path string, all []WrittenPath) error {
	e := &Error{Message: "cannot forget " + text.Escape(path) + ": no sandbox could write it, or it is forgotten already", Hint: "paddock written lists what sandboxes could write"}
	for _, one := range all {
		if _, in := hostpath.Within(path, one.Path); in {
			e.Message = "cannot forget " + text.Escape(path) + " alone: it lies in " + text.Escape(one.Path) + ", which sandboxes could write"
			e.Hint = "forget that: " + hostpath.Unlist(one.Path)
			return e
		}
	}
	below := 0
	for _, one := range all {
		if _, in := hostpath.Within(one.Path, path); in {
			if below++; below == 1 {
				e.Hint = "forget that: " + hostpath.Unlist(one.Path)
			}
		}
	}
	if below > 0 {
		e.Message = "cannot forget " + text.Escape(path) + ": it is not on the list itself, but what lies in it is, by " + text.Count(below, "path")
	}
	return e
}

// Forget takes the entries off the lists. It fails if a sandbox runs that can change them, or if one
// could since [FindWritten] looked.
func (f *Forgettable) Forget(ctx context.Context, opts Options) error {
	state, _, err := opts.stateDir()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, forgetWait)
	defer cancel()
	err = hostpath.Forget(ctx, state, f.Entries, func() error {
		if _, err := f.users(ctx, opts); err != nil {
			return err
		}
		now, err := hostpath.Listing(state)
		if err != nil {
			return err
		}
		for _, one := range now {
			if slices.ContainsFunc(f.Entries, func(e WrittenPath) bool {
				return e.Path == one.Path && e.Ino == one.Ino && len(e.Writers) == len(one.Writers) && slices.Equal(e.Writers, one.Writers)
			}) || !slices.ContainsFunc(f.Entries, func(e WrittenPath) bool { return e.Path == one.Path }) {
				continue
			}
			return &Error{Message: "cannot forget " + text.Escape(one.Path) + ": another sandbox could write it meanwhile", Hint: "look again: " + hostpath.Unlist(one.Path)}
		}
		return nil
	})
	if e := (*Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Message: "cannot forget " + text.Escape(f.path) + ": " + err.Error(), Hint: "try again"}
}

// forgetWait is how long [Forgettable.Forget] waits for starts to end.
const forgetWait = time.Minute

// users returns what would write to the entries again. The error says which sandbox runs that can
// write to them now, or which commit is at work.
func (f *Forgettable) users(ctx context.Context, opts Options) (again []string, err error) {
	own, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	states := []string{own}
	writers := map[string]bool{}
	for _, e := range f.Entries {
		for _, w := range e.Writers {
			writers[w.ID] = true
			if !slices.Contains(states, w.State) {
				states = append(states, w.State)
			}
		}
	}
	for _, state := range states {
		if d := hostpath.Barrier(state); state != own && int(d.UID) != os.Geteuid() && (d.Path == state || hostpath.Real(state) == "") {
			continue // somebody else has made it since, or what it lay in: what was there is gone
		}
		if state != own {
			if state, _, err = (Options{StateDir: state}).findState(); err != nil {
				return nil, fmt.Errorf("cannot tell whether a sandbox runs that can write it: %w", err)
			}
		}
		found, err := run.List(state, false)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot list the sandboxes: %w", err)
		}
		for _, r := range found {
			spec, serr := readSpec(ctx, state, r.ID)
			if writers[r.ID] || serr == nil && f.shown(spec, true) {
				return nil, &Error{Message: "cannot forget " + text.Escape(f.path) + ": sandbox " + r.ID + " runs, and can write it", Hint: "end it first: paddock stop " + r.ID + ", or the command that started it"}
			}
		}
		kept, err := layers.List(state)
		if err != nil {
			return nil, fmt.Errorf("cannot list the layers: %w", err)
		}
		for _, l := range kept {
			switch {
			case !f.is(l.Source):
			case l.InUse:
				return nil, &Error{Message: "cannot forget " + text.Escape(f.path) + ": the layer of " + l.ID + " over it is in use", Hint: "wait until paddock layers shows it as kept, or end what uses it"}
			default:
				again = append(again, "a commit of the layer of "+l.ID)
			}
		}
	}
	lasting, err := ListLasting(ctx, opts)
	for _, k := range lasting {
		if k.State == StateStopped && f.shown(k.Spec, false) {
			again = append(again, "the next start of the stopped sandbox "+k.Called())
		}
	}
	return again, err
}

// is reports whether a path is that of one of the entries.
func (f *Forgettable) is(path string) bool {
	return slices.ContainsFunc(f.Entries, func(e WrittenPath) bool { return e.Path == path || e.Path == hostpath.Real(path) })
}

// shown reports whether a sandbox with a spec can write one of the entries. In one that runs an overlay
// writes nothing.
func (f *Forgettable) shown(spec Spec, runs bool) bool {
	if w := spec.Workspace; w.Access != "ro" && (w.Mode == policy.ModeBind || w.Mode == "" || !runs && w.Mode == policy.ModeOverlay) && f.is(w.Source) {
		return true
	}
	return slices.ContainsFunc(spec.Mounts, func(m Mount) bool { return m.Mode == "rw" && f.is(m.Source) })
}
