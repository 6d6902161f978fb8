package op

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Keeps reports whether a sandbox of the spec can outlive a server: its backend needs no process
// beside it, and it publishes no port, which the server would listen on.
func (e *Env) Keeps(spec policy.Spec) bool {
	opts, err := e.OptionsFor(spec)
	return err == nil && opts.Keeps() && len(spec.Network.Publish) == 0
}

// CreateKept opens a sandbox that outlives the server, with the checks of Open. The principal's
// calls find it by its name, also those of other servers. Without a workspace it gets an empty one,
// which is removed with it.
func (e *Env) CreateKept(ctx context.Context, spec policy.Spec, what paddock.Lasting) (*registry.Sandbox, error) {
	what.Served = true
	if what.Most = registry.MaxPrincipalSandboxes - e.Sandboxes.Own(e.PrincipalName()); what.Most <= 0 {
		return nil, registry.ErrManySandboxes
	}
	what.Scratch = spec.Workspace.Source == ""
	s, err := e.Create(ctx, spec, what)
	if failed := (*paddock.Error)(nil); errors.As(err, &failed) {
		switch failed.Code {
		case wire.CodeExists:
			return nil, registry.ErrSandboxExists(what.Name)
		case wire.CodeBusy:
			return nil, registry.ErrManySandboxes
		}
	}
	if err != nil {
		return nil, err
	}
	k, err := paddock.Find(ctx, s.ID(), e.Options)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return e.newKept(s, k), nil
}

func (e *Env) newKept(s *paddock.Sandbox, k paddock.Listed) *registry.Sandbox {
	return &registry.Sandbox{Sandbox: s, Name: k.Name, Principal: e.PrincipalName(), Since: k.Started, Lasting: true, Kept: true, Temporary: k.Scratch}
}

// FindKept returns the record of the principal's sandbox of this name or id that outlives servers.
// The error of an unknown one is that of [registry.ErrNoSandbox].
func (e *Env) FindKept(ctx context.Context, name string) (paddock.Listed, error) {
	if e.Sandboxes == nil {
		return paddock.Listed{}, registry.ErrNoSandboxes
	}
	for _, at := range []string{paddock.ServedName(e.PrincipalName(), name), name} {
		k, err := paddock.Find(ctx, at, e.Options)
		switch {
		case err == nil && e.mine(k):
			return k, nil
		case err != nil && !errors.Is(err, paddock.ErrNotFound):
			return paddock.Listed{}, err
		}
	}
	return paddock.Listed{}, registry.ErrNoSandbox(name)
}

// mine reports whether the sandbox is one that a server made for the principal.
func (e *Env) mine(k paddock.Listed) bool { return k.Served && k.Principal == e.PrincipalName() }

// ListKept returns the principal's sandboxes that outlive servers, whether they run or not.
func (e *Env) ListKept(ctx context.Context) ([]paddock.Listed, error) {
	all, err := paddock.ListLasting(ctx, e.Options)
	return slices.DeleteFunc(all, func(k paddock.Listed) bool { return !e.mine(k) }), err
}

// DeleteKept ends a sandbox that outlives servers, and removes it, after the operator was informed
// about what its commands have left.
func (e *Env) DeleteKept(ctx context.Context, k paddock.Listed) (paddock.Listed, error) {
	k, err := paddock.Remove(ctx, k.ID, true, e.Options)
	e.informOperator(k)
	return k, err
}

// informOperator tells the operator what the commands of an ended sandbox have left. The process that
// has ended it wrote the audit record.
func (e *Env) informOperator(k paddock.Listed) {
	if k.End == nil || k.End.Changes.Empty() || e.Planted == nil {
		return
	}
	e.Planted(newPlanted(k.End.Changes))
}

// EndAllKept ends the principal's sandboxes that outlive servers. An overlay's changes stay for the
// operator; the others are removed.
func (e *Env) EndAllKept(ctx context.Context) error {
	all, err := e.ListKept(ctx)
	errs := []error{err}
	for _, k := range all {
		end := paddock.Stop
		if k.Spec.Workspace.Mode != policy.ModeOverlay {
			end = func(ctx context.Context, id string, opts paddock.Options) (paddock.Listed, error) {
				return paddock.Remove(ctx, id, true, opts)
			}
		}
		ended, err := end(ctx, k.ID, e.Options)
		if errors.Is(err, paddock.ErrNotFound) { // its time was up meanwhile
			continue
		}
		e.informOperator(ended)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// attachAttempts is how often a sandbox is looked for that others end and make meanwhile.
const attachAttempts = 4

// findNamed returns the principal's open sandbox of this name or id. It attaches to one that
// outlives servers at its first use.
func (e *Env) findNamed(ctx context.Context, name string) (*registry.Sandbox, error) {
	var ended *registry.Sandbox
	for range attachAttempts {
		h, err := e.Sandboxes.Find(ctx, e.PrincipalName(), name)
		switch {
		case err == nil && !h.Ended():
			return h, nil
		case err == nil && !h.Kept:
			return nil, h.GoneError()
		case err == nil:
			ended = h
			e.dropKept(h)
		case !errors.Is(err, paddock.ErrNotFound):
			return nil, err
		}
		k, err := e.FindKept(ctx, name)
		switch {
		case errors.Is(err, paddock.ErrNotFound) && ended != nil:
			return nil, ended.GoneError()
		case err != nil:
			return nil, err
		case k.State != paddock.StateRunning:
			return nil, unusable(k)
		}
		p, mine, err := e.Sandboxes.Claim(e.PrincipalName(), k.Name)
		if err != nil {
			return nil, err
		}
		if mine {
			e.Sandboxes.Settle(p, func() (*registry.Sandbox, error) { return e.attachKept(ctx, k) })
		}
		select {
		case <-p.Ready:
		case <-ctx.Done():
			return nil, &paddock.Error{Message: "cannot wait for sandbox " + k.Name + ": " + ctx.Err().Error()}
		}
		if p.Err != nil && (mine || !registry.Cancelled(p.Err)) {
			return nil, p.Err
		}
	}
	return nil, &paddock.Error{Message: "cannot use sandbox " + strconv.Quote(name) + ": it is ended and made again all the time", Code: wire.CodeBusy, Hint: "try again"}
}

// attachTime bounds what OpenSandboxes waits for agents.
const attachTime = 2 * time.Second

// OpenSandboxes returns the principal's open sandboxes. It attaches to all that outlive servers and
// run, at the same time, and leaves out those that cannot be used.
func (e *Env) OpenSandboxes(ctx context.Context) []*registry.Sandbox {
	kept, _ := e.ListKept(ctx) // those that are open already are known without it
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	var wait sync.WaitGroup
	for _, k := range kept {
		if k.State == paddock.StateRunning {
			wait.Go(func() { _, _ = e.findNamed(ctx, k.ID) })
		}
	}
	wait.Wait()
	return slices.DeleteFunc(e.Sandboxes.Of(e.PrincipalName()), func(h *registry.Sandbox) bool { return h.Kept && h.Ended() })
}

// AdoptJobs is OpenSandboxes, and finds the commands in those that outlive servers which other
// servers have started.
func (e *Env) AdoptJobs(ctx context.Context) []*registry.Sandbox {
	all := e.OpenSandboxes(ctx)
	for _, h := range all {
		if h.Kept {
			_ = h.AdoptJobs(ctx, e.Outputs) // of one that has just ended there are none
		}
	}
	return all
}

// dropKept forgets a sandbox that outlives servers, and has ended.
func (e *Env) dropKept(h *registry.Sandbox) {
	p, err := e.Sandboxes.At(e.PrincipalName(), h.ID())
	if err == nil && p.Sandbox == h && e.Sandboxes.Take(p) {
		e.Sessions.LeaveAll(h)
		_ = h.Close() // it only detaches
	}
}

// unusable returns the error of using a sandbox that does not run, by its record.
func unusable(k paddock.Listed) error {
	err := &paddock.Error{Message: "cannot use sandbox " + k.Name + ": it is " + k.State, Code: wire.CodeGone, Hint: "sandbox_delete removes it, and sandbox_create makes another"}
	switch k.State {
	case paddock.StatePaused, paddock.StateEnding:
		err.Code, err.Hint = wire.CodeBusy, "try again later"
	default:
		if k.End != nil {
			err.Message += ": " + text.Escape(k.End.Reason)
		}
	}
	return err
}

// attachKept attaches to a running sandbox that outlives servers, if all that it was made with is
// allowed at this time. The operator's time limit of its shells begins again.
func (e *Env) attachKept(ctx context.Context, k paddock.Listed) (_ *registry.Sandbox, err error) {
	if err := e.stillAllows(k, k.Spec.Network); err != nil {
		return nil, err
	}
	opts, err := e.OptionsFor(k.Spec)
	if err != nil {
		return nil, err
	}
	s, err := paddock.Attach(ctx, k.ID, opts)
	if errors.Is(err, paddock.ErrClosed) {
		k.State = paddock.StateStopped
		return nil, unusable(k)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if e.Ceiling != nil && policy.ByName(k.Spec.Network.Mode) { // its rules can have changed
		now, err := s.Network(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.stillAllows(k, now.Network); err != nil {
			return nil, err
		}
	}
	h := e.newKept(s, k)
	shells, err := wire.Call(ctx, s.Client(), wire.ListShells, wire.ListShellsRequest{})
	if err != nil {
		return nil, registry.Refusal("list the shells", err)
	}
	for _, one := range shells.Shells {
		if one.State == registry.Running {
			h.EndShellAfter(one.ShellID, e.BoundTime(registry.TimeLimit{}))
		}
	}
	return h, nil
}

// stillAllows returns an error if the ceiling does not allow the sandbox of a record any more, with
// the network that it has now, or if the operator's rules for commands are others.
func (e *Env) stillAllows(k paddock.Listed, network policy.Network) error {
	if e.Ceiling == nil {
		return nil
	}
	scratch := ""
	if k.Scratch {
		scratch = k.Spec.Workspace.Source
	}
	spec := k.Spec
	spec.Network = network
	// The repository of a worktree is mounted although the ceiling does not have it.
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), func(m policy.Mount) bool { return e.Repository != "" && m.Source == e.Repository })
	bounded, err := e.AllowWorkspace(scratch).Ceiling.Apply(spec)
	var why string
	switch {
	case err != nil:
		why = "what it was made with is not allowed any more: " + err.Error()
	case !reflect.DeepEqual(plainSpec(spec), plainSpec(bounded)):
		why = "the operator's limits or redaction rules have changed since it was made"
	case !reflect.DeepEqual(plainJSON(spec.Commands), plainJSON(e.DefaultSpec().Commands)):
		why = "the operator's rules for commands have changed since it was made"
	default:
		return nil
	}
	if e.Call != nil {
		e.Call.refuse()
	}
	return &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{Field: "sandbox", Value: k.Name, Reason: why,
		Hint: "sandbox_delete removes it, and sandbox_create makes another"}}
}

// plainSpec returns what a ceiling can change in a spec, in a form that can be compared.
func plainSpec(s policy.Spec) string {
	rules := make([]policy.Redaction, 0, len(s.Redaction))
	for _, r := range s.Redaction {
		rules = append(rules, r.Complete())
	}
	return plainJSON(struct {
		Limits policy.Limits
		Rules  []policy.Redaction
	}{s.Limits, rules})
}

func plainJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // nothing else is equal to it
	}
	return string(text)
}

// newID returns the id for a sandbox that the call makes.
func (e *Env) newID() string {
	if e.Call != nil {
		if id := e.Call.nextID(); id != "" {
			return id
		}
	}
	return backend.NewID()
}
