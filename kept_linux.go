package paddock

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/keep/order"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/backend/state/kept"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// actTime is how long one process waits for another that acts on the same sandbox.
const actTime = 60 * time.Second

// How long the keeper of a sandbox may take for its end: one that was stopped by a signal is killed
// after stoppedTime, one that does not answer after endTime, if that is asked for.
const (
	stoppedTime = 10 * time.Second
	endTime     = 3 * time.Minute
)

// found is a sandbox of [Create], with its record.
type found struct {
	root string
	id   string
	*kept.Record
}

// find finds a sandbox by its name or id.
func (o Options) find(verb, name string) (*found, error) {
	root, _, err := o.stateDir()
	if err != nil {
		return nil, err
	}
	id, err := kept.Find(root, name)
	var r *kept.Record
	if err == nil {
		r, err = kept.Read(root, id)
	}
	if err != nil {
		return nil, keptError(verb, strconv.Quote(text.Prefix(name, 64)), root, err)
	}
	return &found{root, id, r}, nil
}

// act finds a sandbox and takes its lock. The record is read after that.
func (o Options) act(ctx context.Context, verb, name string) (*found, *kept.Entry, error) {
	f, err := o.find(verb, name)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	entry, err := kept.Act(ctx, f.root, f.id)
	if err == nil {
		var now *kept.Record
		if now, err = kept.Read(f.root, f.id); err == nil {
			f.Record = now
		} else {
			entry.Close()
		}
	}
	if errors.Is(err, kept.ErrUnknown) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil, removedMeanwhile(verb, f.Called())
	}
	if err != nil {
		return nil, nil, keptError(verb, name, f.root, err)
	}
	return f, entry, nil
}

// removedMeanwhile is the error of a sandbox that was there when it was looked for.
func removedMeanwhile(verb, name string) error {
	return &Error{Message: "cannot " + verb + " sandbox " + name + ": it was removed meanwhile", Code: wire.CodeNotFound}
}

// state returns the state of the sandbox, as far as it can be seen without its lock. gone says
// that its record has it running, but no process of it is alive.
func (f *found) state(ctx context.Context) (now string, gone bool) {
	if f.Status != kept.Running {
		return StateStopped, false
	}
	if f.Boot != kept.Boot() {
		return StateStopped, true
	}
	if f.Agent.Works() {
		if state.Paused(f.root, f.id) {
			return StatePaused, false
		}
		return StateRunning, false
	}
	if conn, err := state.DialKeeper(ctx, state.Path(f.root, f.id)); err == nil {
		_ = conn.Close()
		return StateEnding, false
	}
	return StateStopped, true
}

// settle brings the record of a sandbox up to date whose keeper or host has ended without doing
// so, and removes what is left of it. This process holds the entry.
func (f *found) settle(ctx context.Context, entry *kept.Entry) error {
	if _, gone := f.state(ctx); !gone {
		return nil
	}
	why := "its keeper was killed"
	if f.Boot != kept.Boot() {
		why = "the host was restarted"
	}
	proved := linux.EndAbandoned(f.root, f.id)
	if !proved {
		if state.Exists(state.Path(f.root, f.id)) {
			return nil // another process is ending it
		}
		// Somebody has removed its directory.
		proved = f.Boot != kept.Boot() || f.kill() && f.Spec.Level != policy.LevelLandlock
	}
	f.Status, f.End = kept.Stopped, &kept.End{At: time.Now().UTC(), Reason: why, Proved: proved}
	return entry.Write(*f.Record)
}

// Pause stops every command of a running sandbox of [Create], until [Resume], and returns how:
// "freezer" or, without a control group, "SIGSTOP". Timeouts and lifetimes keep running. If it is
// paused already, how is empty.
func Pause(ctx context.Context, name string, opts Options) (how string, err error) {
	err = opts.whileRunning(ctx, "pause", name, func(f *found, r *state.Record) error {
		if state.Paused(f.root, f.id) {
			return nil
		}
		err := state.MarkPaused(f.root, f.id, true)
		if err == nil {
			if how, err = linux.Pause(ctx, r); err != nil {
				err = errors.Join(err, state.MarkPaused(f.root, f.id, false))
			}
		}
		return err
	})
	return how, err
}

// Resume makes the commands of a paused sandbox continue. It does nothing if they are not paused.
func Resume(ctx context.Context, name string, opts Options) error {
	return opts.whileRunning(ctx, "resume", name, func(f *found, r *state.Record) error {
		if !state.Paused(f.root, f.id) {
			return nil
		}
		return errors.Join(linux.Resume(ctx, r), state.MarkPaused(f.root, f.id, false))
	})
}

// whileRunning calls do with the record of a sandbox that runs, while nobody else acts on it.
func (o Options) whileRunning(ctx context.Context, verb, name string, do func(*found, *state.Record) error) error {
	f, entry, err := o.act(ctx, verb, name)
	if err != nil {
		return err
	}
	defer entry.Close()
	if err := f.settle(ctx, entry); err != nil {
		return keptError(verb, name, f.root, err)
	}
	now, _ := f.state(ctx)
	r, err := state.Read(state.Path(f.root, f.id))
	if now != StateRunning && now != StatePaused || err != nil {
		return f.notRunning(verb)
	}
	if err := do(f, r); err != nil {
		return keptError(verb, f.Called(), f.root, err)
	}
	return nil
}

// notRunning returns the error of a sandbox that does not run.
func (f *found) notRunning(verb string) error {
	why := ""
	if f.End != nil {
		why = ": " + text.Escape(f.End.Reason)
	}
	hint := "start it again: paddock start " + f.Called()
	if f.Spec.Workspace.Mode == policy.ModeOverlay {
		hint += "; paddock diff " + f.Called() + " shows what changed in it, and paddock commit lands that"
	}
	return &Error{Message: "cannot " + verb + " sandbox " + f.Called() + ": it is stopped" + why, Code: wire.CodeGone, Hint: hint}
}

// attachGone returns the error of attaching to a sandbox that is known and does not run, or nil.
func (o Options) attachGone(ctx context.Context, name string) error {
	f, err := o.find("attach to", name)
	if err != nil {
		return nil //nolint:nilerr // it is another kind of sandbox
	}
	if now, gone := f.state(ctx); gone {
		if again, entry, err := o.act(ctx, "attach to", f.id); err == nil {
			_ = again.settle(ctx, entry)
			entry.Close()
			f = again
		}
	} else if now != StateStopped {
		return nil
	}
	return f.notRunning("attach to")
}

// newListed returns the record for callers.
func newListed(r *kept.Record, now string) Listed {
	k := Listed{ID: r.ID, Name: r.Name, Labels: r.Labels, Principal: r.Principal, Served: r.Served, Scratch: r.Scratch, State: now, Spec: Spec(r.Spec), Variables: r.Secret, Backend: r.Spec.Backend, Created: r.Created, Started: r.Started,
		Idle: r.Idle, Life: r.Life, Remove: r.Then == kept.ThenRemove}
	if r.End != nil {
		k.End = &ListedEnd{At: r.End.At, Reason: r.End.Reason, Proved: r.End.Proved, Left: r.End.Left, Error: strings.TrimSpace(r.End.Error + "\n" + r.End.Log)}
		_ = json.Unmarshal(r.End.Changes, &k.End.Changes) // none: nothing was left, or a later start says what
	}
	return k
}

// Find returns what is known of a sandbox of [Create], by its name or id. If it is unknown,
// errors.Is(err, [ErrNotFound]) is true.
func Find(ctx context.Context, name string, opts Options) (Listed, error) {
	f, err := opts.find("find", name)
	if err != nil {
		return Listed{}, err
	}
	now, gone := f.state(ctx)
	if gone {
		if again, entry, err := opts.act(ctx, "find", f.id); err == nil {
			_ = again.settle(ctx, entry)
			entry.Close()
			f = again
			now, _ = f.state(ctx)
		}
	}
	return newListed(f.Record, now), nil
}

// sweepKept removes what is left of a [Create] that was killed.
func sweepKept(ctx context.Context, root string) {
	kept.Sweep(root, func(id string) error { return layers.Erase(ctx, root, id) })
}

// ListLasting returns the sandboxes of [Create], the oldest first, whether they run or not.
func ListLasting(ctx context.Context, opts Options) ([]Listed, error) {
	root, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	sweepKept(ctx, root)
	records, damaged := kept.List(root)
	all := make([]Listed, len(records), len(records)+len(damaged))
	state.Each(len(records), func(i int) {
		r := records[i]
		now, gone := (&found{root, r.ID, r}).state(ctx)
		if !gone {
			all[i] = newListed(r, now)
		} else if k, err := Find(ctx, r.ID, opts); err == nil {
			all[i] = k
		}
	})
	all = slices.DeleteFunc(all, func(k Listed) bool { return k.ID == "" }) // it was removed meanwhile
	for id, err := range damaged {
		all = append(all, Listed{ID: id, State: StateDamaged, Damage: text.Escape(err.Error())})
	}
	return all, nil
}

// Stop ends a running sandbox of [Create] with everything in it, and keeps its record. It
// returns how it ended; for one that does not run, how it ended before.
//
// A keeper that was stopped by a signal is killed after a while, which ends the sandbox, too.
func Stop(ctx context.Context, name string, opts Options) (Listed, error) {
	return opts.stop(ctx, name, false)
}

// stop is Stop; force also kills a keeper that does not answer.
func (o Options) stop(ctx context.Context, name string, force bool) (Listed, error) {
	f, err := o.find("stop", name)
	if err != nil {
		return Listed{}, err
	}
	if err := f.askForEnd(ctx, force); err != nil {
		return Listed{}, err
	}
	id, called := f.id, f.Name
	f, entry, err := o.act(ctx, "stop", id)
	if errors.Is(err, ErrNotFound) { // it was removed meanwhile
		return Listed{ID: id, Name: called, State: StateStopped, End: &ListedEnd{At: time.Now().UTC(), Reason: "it was removed meanwhile", Proved: true}}, nil
	}
	if err != nil {
		return Listed{}, err
	}
	defer entry.Close()
	if err := f.settle(ctx, entry); err != nil {
		return Listed{}, keptError("stop", name, f.root, err)
	}
	now, _ := f.state(ctx)
	if now != StateStopped {
		return Listed{}, &Error{Message: "cannot stop sandbox " + name + ": its keeper did not end it", Hint: "try again; paddock rm `force` " + f.Called() + " ends it in any case"}
	}
	return newListed(f.Record, now), nil
}

// askForEnd asks the keeper to end the sandbox, and returns once that is done. It does nothing
// if there is no keeper. A keeper that was stopped by a signal is killed, with force also one that
// does not answer.
func (f *found) askForEnd(ctx context.Context, force bool) error {
	if f.Status != kept.Running || f.Boot != kept.Boot() {
		return nil
	}
	conn, err := state.DialKeeper(ctx, state.Path(f.root, f.id))
	if err != nil {
		if force {
			_ = f.kill()
		}
		return nil // nobody listens: the caller looks what is left
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var answer []byte
	answered := make(chan error, 1)
	go func() {
		var err error
		answer, err = keep.AskForEnd(asking, conn)
		answered <- err
	}()
	err = f.awaitEnd(answered, force)
	if err != nil && ctx.Err() != nil {
		return &Error{Message: "cannot wait for the end of sandbox " + f.Called() + ": " + ctx.Err().Error()}
	}
	if silent := (*Error)(nil); errors.As(err, &silent) {
		return silent
	}
	var told struct{ Error string }
	if err == nil && json.Unmarshal(answer, &told) == nil && told.Error != "" {
		return &Error{Message: "cannot end sandbox " + f.Called() + ": " + text.Escape(told.Error)}
	}
	return nil
}

// errKilled says that the keeper was killed.
var errKilled = errors.New("the keeper was killed")

// awaitEnd waits for the answer of a keeper, and kills it if it has to.
func (f *found) awaitEnd(answered <-chan error, force bool) error {
	const pause = time.Second
	began, stopped := time.Now(), time.Time{}
	for {
		select {
		case err := <-answered:
			return err
		case <-time.After(pause):
		}
		if !f.Keeper.IsStopped() {
			stopped = time.Time{}
		} else if stopped.IsZero() {
			stopped = time.Now()
		}
		late := time.Since(began) > endTime
		if late && !force {
			return &Error{Message: "cannot stop sandbox " + f.Called() + ": its keeper has not answered for " + endTime.String(), Code: wire.CodeBusy,
				Hint: "try again; or paddock rm `force` " + f.Called() + " ends both"}
		}
		if late || !stopped.IsZero() && time.Since(stopped) > stoppedTime {
			_ = f.kill()
			return errKilled
		}
	}
}

// kill kills the keeper and the agent, whose end is that of everything inside, and reports whether
// both have ended.
func (f *found) kill() bool { return f.Keeper.End() && f.Agent.End() }

// Remove removes the record of a stopped sandbox of [Create], and frees its name. With force it
// ends one that runs first: only then the result has an End.
func Remove(ctx context.Context, name string, force bool, opts Options) (Listed, error) {
	k, err := Find(ctx, name, opts)
	if err != nil && force && state.IsID(name) {
		return opts.removeDamaged(ctx, name, err)
	}
	if err != nil {
		return Listed{}, err
	}
	if k.State != StateStopped {
		if !force {
			return k, &Error{Message: "cannot remove sandbox " + k.Called() + ": it runs", Code: wire.CodeBusy, Hint: "end it first: paddock stop " + k.Called() + "; or paddock rm `force` " + k.Called() + " does both"}
		}
		if k, err = opts.stop(ctx, k.ID, true); err != nil {
			return k, err
		}
		if k.End != nil && k.End.Reason == reasons[order.AskedFor] {
			k.End.Reason = "" // it ended for this
		}
	} else {
		k.End = nil
	}
	f, entry, err := opts.act(ctx, "remove", k.ID)
	if errors.Is(err, ErrNotFound) {
		return k, removedMeanwhile("remove", k.Called())
	}
	if err != nil {
		return k, err
	}
	if now, _ := f.state(ctx); now != StateStopped {
		entry.Close()
		return k, &Error{Message: "cannot remove sandbox " + f.Called() + ": another process has started it meanwhile", Code: wire.CodeBusy}
	}
	if force {
		counting, cancel := context.WithTimeout(ctx, countTime)
		k.Discarded, _ = unlanded(counting, f.root, f.id) // what cannot be read is removed, too
		cancel()
	} else {
		n, err := unlanded(ctx, f.root, f.id)
		if err = layerError(f.Called(), err); err == nil && n > 0 {
			err = &explained{&Error{Message: "cannot remove sandbox " + f.Called() + ": it has changes that have not landed: " + strconv.Itoa(n), Code: wire.CodeBusy,
				Hint: "paddock diff " + f.Called() + " shows them, paddock rm `force` " + f.Called() + " discards them"}, ErrUnlanded}
		}
		if err != nil {
			entry.Close()
			return k, err
		}
	}
	err = removeLayer(ctx, f.root, f.id)
	if err != nil && force && !layers.IsInUse(err) { // its record is damaged
		err = layers.Erase(ctx, f.root, f.id)
	}
	if err != nil {
		entry.Close()
		return k, layerError(f.Called(), err)
	}
	if err := entry.Remove(f.Key()); err != nil {
		return k, keptError("remove", f.Called(), f.root, err)
	}
	return k, nil
}

// removeDamaged ends and removes a sandbox of [Create] whose record cannot be read, or is gone,
// which unknown says.
func (o Options) removeDamaged(ctx context.Context, id string, unknown error) (Listed, error) {
	root, _, err := o.stateDir()
	if err != nil {
		return Listed{}, err
	}
	dir := state.Path(root, id)
	if !state.Exists(kept.Dir(root, id)) && !state.Exists(filepath.Join(dir, state.LegacyName)) {
		return Listed{}, unknown // nor is what runs there, if anything, one of Create
	}
	entry, err := kept.Act(ctx, root, id) // else it is being made
	if err == nil {
		entry.Close() // for its keeper
	} else if !errors.Is(err, kept.ErrUnknown) {
		return Listed{}, keptError("remove", id, root, err)
	}
	if r, err := state.Read(dir); err == nil {
		_ = state.EndProcess(r.PID, r.Start) // then its keeper ends, too
	}
	for end := time.Now().Add(endTime); state.Exists(dir) && !linux.EndAbandoned(root, id); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			return Listed{}, &Error{Message: "cannot remove sandbox " + id + ": its keeper has not ended", Code: wire.CodeBusy}
		}
	}
	if err := layers.Erase(ctx, root, id); err != nil {
		return Listed{}, layerError(id, err)
	}
	entry, err = kept.Act(ctx, root, id)
	if err == nil {
		err = entry.Remove("")
	}
	if err != nil && !errors.Is(err, kept.ErrUnknown) {
		return Listed{}, keptError("remove", id, root, err)
	}
	return Listed{ID: id, State: StateStopped}, nil
}

// unlanded returns how many changes the layer of a sandbox has that does not run: 0 if it has no
// layer, or none any more.
func unlanded(ctx context.Context, root, id string) (int, error) {
	l, err := layers.Open(ctx, root, id)
	if layers.IsUnknown(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer l.Close()
	changes, err := l.Changes(ctx)
	return len(changes), err
}

// removeLayer removes the layer of a sandbox that does not run, if it has one.
func removeLayer(ctx context.Context, root, id string) error {
	l, err := layers.Open(ctx, root, id)
	if layers.IsUnknown(err) {
		return layers.Erase(ctx, root, id) // a removal that was killed may have left its directory
	}
	if err != nil {
		return err
	}
	return l.Remove(ctx)
}

// Start starts a stopped sandbox of [Create] again, with the spec that it was created with.
// Variables of the environment are not kept, since they may be secret: env has those that it was
// created with, and may have others. The result is attached, as that of Create.
func Start(ctx context.Context, name string, env map[string]string, opts Options) (*Sandbox, error) {
	f, entry, err := opts.act(ctx, "start", name)
	if err != nil {
		return nil, err
	}
	s, err := f.start(ctx, entry, env, opts)
	if layers.IsUnknown(err) {
		err = &Error{Message: "cannot start sandbox " + f.Called() + ": its layer was removed, with what had changed", Hint: "remove it: paddock rm " + f.Called()}
	}
	if err != nil {
		entry.Close()
		return nil, err
	}
	return s, nil
}

func (f *found) start(ctx context.Context, entry *kept.Entry, env map[string]string, opts Options) (*Sandbox, error) {
	if err := f.settle(ctx, entry); err != nil {
		return nil, keptError("start", f.Called(), f.root, err)
	}
	if now, gone := f.state(ctx); now == StateEnding || gone {
		return nil, &Error{Message: "cannot start sandbox " + f.Called() + ": another process is ending it", Code: wire.CodeBusy, Hint: "try again"}
	} else if now != StateStopped {
		return nil, &Error{Message: "cannot start sandbox " + f.Called() + ": it runs", Code: wire.CodeExists, Hint: "paddock exec " + f.Called() + " -- CMD runs a command in it"}
	}
	if _, err := os.Stat(f.Spec.Workspace.Source); errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Message: "cannot start sandbox " + f.Called() + ": its workspace " + f.Spec.Workspace.Source + " is gone",
			Hint: "make the directory again; or paddock rm " + f.Called() + " removes the sandbox"}
	}
	spec := Spec(f.Spec)
	spec.Env = env
	var missing []string
	for _, name := range f.Secret {
		if _, ok := env[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, &Error{Message: "cannot start sandbox " + f.Called() + ": it was created with variables whose values are not kept: " + strings.Join(missing, ", "),
			Hint: "give them again, with `env` or `env_pass`"}
	}
	if opts.Unreported != nil { // what an earlier run of the same id has left, which this one replaces
		if err := tellUnreported(ctx, run.TakeUnreported(f.root, false), opts.Unreported); err != nil {
			return nil, err
		}
	}
	opts.ID, opts.Layer.Reopen = f.id, true
	if f.Scratch {
		opts.scratch = kept.Scratch(f.root, f.id)
	}
	l, err := opts.lasting(spec)
	if err != nil {
		return nil, err
	}
	return l.start(ctx, spec, opts, entry, *f.Record)
}
