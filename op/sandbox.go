package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/wire"
)

// Open opens a sandbox for the operation. Operations have no other way to open one: Open
// applies the principal's ceiling, checks the privilege for a backend without walls, and
// adds the sandbox to the audit record. Under a ceiling no symbolic link in a path of the
// spec is followed.
func (e *Env) Open(ctx context.Context, spec policy.Spec) (*paddock.Sandbox, error) {
	spec, opts, err := e.admit(ctx, spec)
	if err != nil {
		return nil, err
	}
	if e.Call != nil && e.backendOf(spec) == policy.BackendHost {
		if err := e.Call.demand(privilege.UnsandboxedExec); err != nil {
			return nil, err
		}
	}
	opts.Planted, opts.Unreported = e.reportPlanted, e.ReportLeftovers
	if e.Call != nil {
		opts.ID = e.Call.nextID()
	}
	sandbox, err := paddock.Open(ctx, spec, opts)
	if err == nil && e.Call != nil {
		e.Call.opened(sandbox.ID())
	}
	return sandbox, err
}

// Create opens a sandbox that outlives this process, with the checks of Open.
func (e *Env) Create(ctx context.Context, spec policy.Spec, what paddock.Lasting) (*paddock.Sandbox, error) {
	id := e.newID()
	own := e
	if what.Scratch {
		dir, err := paddock.ScratchWorkspace(id, e.Options)
		if err != nil {
			return nil, err
		}
		spec.Workspace.Source, own = dir, e.AllowWorkspace(dir)
	}
	what.Principal = e.PrincipalName()
	return own.lasting(ctx, spec, func(spec policy.Spec, opts paddock.Options) (*paddock.Sandbox, error) {
		opts.ID = id
		return paddock.Create(ctx, spec, opts, what)
	})
}

// Start starts a stopped sandbox of Create again, with the checks of Open.
func (e *Env) Start(ctx context.Context, name string, env map[string]string) (*paddock.Sandbox, error) {
	if e.Ceiling != nil {
		if e.Call != nil {
			e.Call.refuse()
		}
		return nil, &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{Field: "sandbox", Value: name, Reason: "under a ceiling no stopped sandbox is started", Hint: "use sandbox_create"}}
	}
	k, err := paddock.Find(ctx, name, e.Options)
	if err != nil {
		return nil, err
	}
	own := *e
	own.Options.Dir = "/" // the spec's paths are absolute, and the current directory may be gone
	return own.lasting(ctx, k.Spec, func(_ policy.Spec, opts paddock.Options) (*paddock.Sandbox, error) {
		return paddock.Start(ctx, k.ID, env, opts)
	})
}

func (e *Env) lasting(ctx context.Context, spec policy.Spec, do func(policy.Spec, paddock.Options) (*paddock.Sandbox, error)) (*paddock.Sandbox, error) {
	spec, opts, err := e.admit(ctx, spec)
	if err != nil {
		return nil, err
	}
	opts.Unreported = e.ReportLeftovers
	sandbox, err := do(spec, opts)
	if err == nil {
		e.RecordSandbox(sandbox.ID())
	}
	return sandbox, err
}

// EndKept ends a sandbox of Create, in the process that its keeper has become.
func (e *Env) EndKept(args []string) error {
	opts := e.Options
	opts.Planted = e.reportPlanted
	return paddock.EndKept(args, opts, ChangesNote)
}

// Plan returns what Open would do, and the spec with its defaults.
func (e *Env) Plan(ctx context.Context, spec policy.Spec) (*confine.Plan, policy.Spec, error) {
	spec, opts, err := e.admit(ctx, spec)
	if err != nil {
		return nil, policy.Spec{}, err
	}
	return paddock.Plan(ctx, spec, opts)
}

// admit applies the checks that Open and Plan have in common.
func (e *Env) admit(ctx context.Context, spec policy.Spec) (policy.Spec, paddock.Options, error) {
	spec, err := e.UnderCeiling(spec)
	if err != nil {
		return policy.Spec{}, paddock.Options{}, err
	}
	if err := e.privileged(ctx, spec); err != nil {
		return policy.Spec{}, paddock.Options{}, err
	}
	opts, err := e.OptionsFor(spec)
	// Operations without that field, on files, cannot name a workspace, and run no commands.
	if names := func(f Field) bool { return f.JSON == "workspace" }; err == nil && (e.Call == nil || slices.ContainsFunc(e.Call.op.Fields(), names)) {
		err = CheckImpliedWorkspace(spec, opts.Dir)
	}
	if err == nil {
		spec, err = e.linkWorktree(ctx, spec, opts)
	}
	return spec, opts, err
}

// CheckImpliedWorkspace refuses to use the current directory as the workspace by default, if it
// is or holds a home directory, belongs to the system, holds everybody's files, or can be changed by
// others (see [hostpath.Unasked]).
func CheckImpliedWorkspace(spec policy.Spec, dir string) error {
	if spec.Workspace.Source != "" || spec.Backend == policy.BackendWrapper {
		return nil
	}
	dir, err := hostpath.Abs(dir)
	why := hostpath.Unasked(dir)
	if err != nil || why == "" { // resolving the spec reports a missing current directory, with all else that is wrong
		return nil //nolint:nilerr // see above
	}
	hint := "go to a project's directory, or name one"
	if dir != "/" { // it can never be a workspace
		hint += "; if you mean this one, name it: `workspace.source` " + policy.ShellWord(dir)
	}
	if others := hostpath.Shared(dir); others != "" && strings.HasSuffix(why, others) {
		why += ", who could choose what commands find there"
	} else {
		why += ": commands could read and change all of it"
	}
	return &policy.FieldError{Field: "workspace", Value: dir, Reason: "the current directory " + why, Hint: hint}
}

// linkWorktree mounts the repository of a linked worktree if the ceiling allows it or if it
// is the operator's own. It decides anew at each start.
func (e *Env) linkWorktree(ctx context.Context, spec policy.Spec, opts paddock.Options) (policy.Spec, error) {
	linked, err := paddock.LinkWorktree(ctx, spec, opts)
	if err != nil || e.Ceiling == nil || len(linked.Mounts) == len(spec.Mounts) {
		return linked, err
	}
	m := linked.Mounts[len(spec.Mounts)]
	if e.Ceiling.Holds(m) || m.Source == e.Repository {
		return linked, nil
	}
	if e.Call != nil {
		e.Call.refuse()
	}
	return spec, &policy.CeilingError{Rule: "ceiling.mounts", FieldError: policy.FieldError{Field: "workspace.source", Value: spec.Workspace.Source,
		Reason: "it is a linked worktree of the repository in " + m.Source + ", which the ceiling does not allow", Hint: "name another directory; the operator can allow it with `mounts.rw` " + policy.ShellWord(m.Source) + ", or as one of the mounts of the ceiling"}}
}

// UnderCeiling applies the ceiling to a spec.
func (e *Env) UnderCeiling(spec policy.Spec) (policy.Spec, error) {
	if e.Ceiling == nil {
		return spec, nil
	}
	spec, err := e.Ceiling.Apply(spec)
	if err != nil && e.Call != nil {
		e.Call.refuse()
	}
	return spec, err
}

// MayOpen refuses rules of the network, and ports of the host, that the ceiling does not contain.
func (e *Env) MayOpen(rules []policy.NetworkRule, hostPorts []policy.Port) error {
	err := errors.Join(e.Ceiling.Opens(rules), e.Ceiling.ReachesHost(hostPorts))
	if err != nil && e.Call != nil {
		e.Call.refuse()
	}
	return err
}

// MayPublish refuses a port, in the form of [policy.ParsePublish], that the ceiling does not allow
// to be published.
func (e *Env) MayPublish(text string) error {
	err := e.Ceiling.Publishes(text)
	if err != nil && e.Call != nil {
		e.Call.refuse()
	}
	return err
}

// MayRead refuses, under a ceiling, a file of the host that an input names: it would be read
// with this process's rights, and error messages would reveal its content.
func (e *Env) MayRead(field, file string) error {
	if e.Ceiling == nil || file == "" {
		return nil
	}
	if e.Call != nil {
		e.Call.refuse()
	}
	return &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{
		Field: field, Value: file, Reason: "under a ceiling callers cannot name files of the host",
		Hint: "leave it out, and ask for what it says in the other fields",
	}}
}

// InSandbox is the field of operations that work in a sandbox.
type InSandbox struct {
	Sandbox string `json:"sandbox,omitempty" flag:"sandbox" arg:"NAME" leads:"true" complete:"sandbox" help:"which sandbox (default: the one over the workspace)" cli:"a running sandbox, by name or id" max:"64"`
}

// Need refuses a call of its own that names no sandbox, for operations on what ends with one.
func (in InSandbox) Need(e *Env) error {
	if in.Sandbox != "" || e.Sandboxes != nil {
		return nil
	}
	return Unnamed("sandbox")
}

// Unnamed returns the error of a field that has to name a sandbox, and is empty.
func Unnamed(field string) *policy.FieldError {
	return &policy.FieldError{Field: field, Reason: "no sandbox is named", Hint: "paddock list shows those that run, with `all` every one"}
}

// InNamed is the field of operations that need a sandbox that is named.
type InNamed struct {
	Sandbox string `json:"sandbox" arg:"NAME" complete:"sandbox" help:"which sandbox, by name or id" max:"64"`
}

// With runs do in the sandbox.
func (in InNamed) With(ctx context.Context, env *Env, do func(context.Context, *registry.Sandbox) error) error {
	if in.Sandbox == "" {
		return Unnamed("sandbox")
	}
	return env.WithSandbox(ctx, InSandbox(in), do)
}

// WithSandbox runs do in the sandbox that where names. A server keeps its sandboxes. A
// single call attaches to the running sandbox that is named; without a name it opens one
// with the default spec, or over the current directory, which ends with the call.
func (e *Env) WithSandbox(ctx context.Context, where InSandbox, do func(context.Context, *registry.Sandbox) error) error {
	switch {
	case e.Sandboxes != nil:
		h, err := e.FindSandbox(ctx, where.Sandbox)
		if err != nil {
			return err
		}
		if h.Kept && h.Paused() {
			return &paddock.Error{Message: "cannot use sandbox " + h.Called() + ": it is paused", Code: wire.CodeBusy, Hint: "try again later"}
		}
		if err := e.Enter(ctx, h); err != nil {
			return err
		}
		e.introduce(h)
		return h.Explain(do(ctx, h))
	case where.Sandbox != "":
		return e.withAttached(ctx, where.Sandbox, do)
	}
	return e.withOwn(ctx, do)
}

// withAttached runs do in a sandbox of another process of the same user. It is refused under
// a ceiling, since the sandbox's spec need not be below it.
func (e *Env) withAttached(ctx context.Context, id string, do func(context.Context, *registry.Sandbox) error) error {
	if e.Ceiling != nil {
		if e.Call != nil {
			e.Call.refuse()
		}
		return &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{
			Field: "sandbox", Value: id, Reason: "under a ceiling no sandbox is attached to that somebody else has opened",
			Hint: "leave it out",
		}}
	}
	s, err := paddock.Attach(ctx, id, e.Options)
	if err != nil {
		return err
	}
	if s.Paused() {
		return errors.Join(&paddock.Error{Message: "cannot use sandbox " + id + ": it is paused", Code: wire.CodeBusy, Hint: "paddock resume " + id}, s.Close())
	}
	h := &registry.Sandbox{Sandbox: s, Name: id, Principal: e.PrincipalName(), Since: time.Now()}
	if err := e.Enter(ctx, h); err != nil {
		return errors.Join(err, s.Close())
	}
	err = do(ctx, h)
	if h.EndedBy(err) {
		err = e.endedError(ctx, id)
	}
	return errors.Join(err, s.Close())
}

// endWait is how long it may take until it is known why a sandbox has ended.
const endWait = 10 * time.Second

// endedError returns the error of a sandbox that has ended while it was used, with the reason,
// once its keeper has written that down.
func (e *Env) endedError(ctx context.Context, name string) error {
	told := &paddock.Error{Message: "sandbox " + text.Escape(name) + " has ended", Code: wire.CodeGone, Hint: "paddock list --all shows those that there are"}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for {
		k, err := paddock.Find(ctx, name, e.Options)
		if err != nil { // it is removed, or none of Create
			return told
		}
		told.Hint = "paddock start " + policy.ShellWord(name) + " starts it again"
		if k.State == paddock.StateStopped {
			if k.End != nil {
				told.Message += ": " + text.Escape(k.End.Reason)
			}
			return told
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return told
		}
	}
}

// withOwn runs do in a sandbox that ends with the call.
func (e *Env) withOwn(ctx context.Context, do func(context.Context, *registry.Sandbox) error) (err error) {
	s, err := e.Open(ctx, e.DefaultSpec())
	if err != nil {
		return err
	}
	h := &registry.Sandbox{Sandbox: s, Principal: e.PrincipalName(), Since: time.Now()}
	defer func() {
		err = errors.Join(err, s.Close())
		e.note(ChangesNote(s.Changes()))
	}()
	e.introduce(h)
	return do(ctx, h)
}

// Enter checks the privilege that a sandbox's backend needs before it is used again, since
// the privilege may have been revoked, and adds the sandbox to the call's record.
func (e *Env) Enter(ctx context.Context, h *registry.Sandbox) error {
	if e.Call == nil {
		return nil
	}
	if h.Spec().Backend == policy.BackendHost {
		if err := e.privileged(ctx, h.Spec()); err != nil {
			return err
		}
		if err := e.Call.demand(privilege.UnsandboxedExec); err != nil {
			return err
		}
	}
	e.RecordSandbox(h.ID())
	return nil
}

// RecordSandbox adds a sandbox to the audit record of this call.
func (e *Env) RecordSandbox(id string) {
	if e.Call != nil {
		e.Call.opened(id)
	}
}

// DefaultSpec returns a copy of the default sandbox's spec. A caller's fields are applied on
// top of it, so that settings of the operator that no ceiling covers, such as rules for
// commands, hold for every sandbox.
func (e *Env) DefaultSpec() policy.Spec {
	if e.Default == nil {
		return policy.Spec{}
	}
	s := *e.Default
	s.Workspace.Unprotected = slices.Clone(s.Workspace.Unprotected)
	s.Mounts = slices.Clone(s.Mounts)
	s.AllowDegraded = slices.Clone(s.AllowDegraded)
	s.Redaction = slices.Clone(s.Redaction)
	s.Env = maps.Clone(s.Env)
	s.Network = s.Network.Clone()
	return s
}

// FindSandbox returns the open sandbox of this name. The default sandbox is opened at its
// first use, and again if it has ended by itself.
func (e *Env) FindSandbox(ctx context.Context, name string) (*registry.Sandbox, error) {
	if name != "" && name != registry.DefaultName {
		return e.findNamed(ctx, name)
	}
	for {
		p, mine, err := e.Sandboxes.Claim(e.PrincipalName(), registry.DefaultName)
		if err != nil {
			return nil, err
		}
		if mine {
			e.Sandboxes.Settle(p, func() (*registry.Sandbox, error) { return e.OpenLasting(ctx, e.DefaultSpec(), registry.DefaultName) })
		}
		select {
		case <-p.Ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot open the default sandbox: %w", ctx.Err())
		}
		switch {
		case p.Err != nil && (mine || !registry.Cancelled(p.Err)):
			return nil, p.Err
		case p.Err != nil: // the call that was opening it gave up
			continue
		case !p.Sandbox.Ended():
			return p.Sandbox, nil
		case e.Sandboxes.Take(p):
			_ = p.Sandbox.Close() // removes the rest; the reason of its end is unknown
			e.note("the default sandbox had ended by itself and was made anew: processes, /tmp and HOME of the old one are lost, the workspace is as they left it")
		}
	}
}

// OpenLasting opens a sandbox that a server keeps. Without a workspace it gets an empty one,
// which is removed with it, or that of its wall where no directory of this host is seen.
func (e *Env) OpenLasting(ctx context.Context, spec policy.Spec, name string) (_ *registry.Sandbox, err error) {
	h := &registry.Sandbox{Name: name, Principal: e.PrincipalName(), Since: time.Now(), Lasting: true}
	if spec.Workspace.Source == "" && !spec.Elsewhere() {
		if h.Scratch, err = os.MkdirTemp("", "paddock-workspace-"); err != nil {
			return nil, fmt.Errorf("cannot make a temporary workspace: %w", err)
		}
		spec.Workspace.Source, h.Temporary = h.Scratch, true
	}
	if h.Sandbox, err = e.AllowWorkspace(h.Scratch).Open(ctx, spec); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.Name = cmp.Or(h.Name, h.ID())
	return h, nil
}

// AllowWorkspace returns the environment with a ceiling that also allows a temporary
// workspace, which was made for this caller.
func (e *Env) AllowWorkspace(scratch string) *Env {
	if scratch == "" || e.Ceiling == nil {
		return e
	}
	own, ceiling := *e, *e.Ceiling
	ceiling.Workspace = append(slices.Clone(ceiling.Workspace), policy.Place{Source: scratch, Mode: "rw"})
	own.Ceiling = &ceiling
	return &own
}

// InterruptedError is the error of a sandbox's start, or of other work, that a signal interrupted.
type InterruptedError struct {
	Name   string // SIGINT
	Number int
}

// Error returns a text with the signal.
func (i *InterruptedError) Error() string { return "interrupted by " + i.Name }

// Is reports that an interrupt cancels what is being done, as the end of a context does.
func (*InterruptedError) Is(target error) bool { return target == context.Canceled }

// lateError is the error of a start that took longer than its time limit.
type lateError struct{ limit registry.TimeLimit }

// Error returns a text with the limit and where it comes from.
func (l *lateError) Error() string { return "its time was up (" + l.limit.Told() + ")" }

// Is makes errors.Is(err, paddock.ErrTimeout) work.
func (l *lateError) Is(target error) bool { return target == paddock.ErrTimeout }

// ending are the signals that interrupt a start.
var ending = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGTERM": 15}

// Interrupted returns the error of what a signal of this name has interrupted, or nil if the signal
// ends nothing.
func Interrupted(name string) error {
	if number, ends := ending[name]; ends {
		return &InterruptedError{name, number}
	}
	return nil
}

// OpenFor opens a sandbox for one command with a time limit. The start has the same limit.
// A terminating signal interrupts the start, since no command runs yet that could get it;
// other signals wait for the command ([Stream.EarlySignals]).
func (e *Env) OpenFor(ctx context.Context, spec policy.Spec, l registry.TimeLimit, stream *Stream) (*paddock.Sandbox, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bounded := ctx
	if l.Span > 0 {
		var end context.CancelFunc
		bounded, end = context.WithTimeoutCause(ctx, l.Span, &lateError{l})
		defer end()
	}
	stop := stream.whileStarting(cancel)
	sandbox, err := e.Open(bounded, spec)
	stop()
	cause := context.Cause(bounded)
	late, interrupted := (*lateError)(nil), (*InterruptedError)(nil)
	switch {
	case errors.As(cause, &interrupted) && err == nil:
		return nil, errors.Join(cause, sandbox.Close())
	case err == nil || !errors.As(cause, &late) && interrupted == nil || errors.Is(err, cause):
		return sandbox, err
	}
	return nil, fmt.Errorf("%w: %w", err, cause) // not every step says why it was cancelled
}

// whileStarting handles the caller's signals until stop is called.
func (s *Stream) whileStarting(cancel context.CancelCauseFunc) (stop func()) {
	if s.Signals == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case name := <-s.Signals:
				if err := Interrupted(name); err != nil {
					cancel(err)
				} else {
					s.early = append(s.early, name)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// UntilInterrupted returns a context that ends when the caller's signal ends what is being
// done; its cause is then an [*InterruptedError]. stop must be called.
func (s *Stream) UntilInterrupted(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case name := <-s.Signals: // nil, where there are none
				if number, ends := ending[name]; ends {
					cancel(&InterruptedError{name, number})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// EarlySignals returns, once, the signals that came before the command was started.
func (s *Stream) EarlySignals() []string {
	early := s.early
	s.early = nil
	return early
}

// BoundTime returns l, or the operator's limit if that is not longer: a ceiling's
// limits.timeout bounds each command and each shell below it, whatever they ask for.
func (e *Env) BoundTime(l registry.TimeLimit) registry.TimeLimit {
	if e.Ceiling == nil || e.Ceiling.Limits.Timeout == 0 {
		return l
	}
	if most := time.Duration(e.Ceiling.Limits.Timeout); l.Span == 0 || l.Span >= most {
		return registry.TimeLimit{Span: most, From: registry.FromOperator}
	}
	return l
}

// BoundSession returns the options with all times bounded by the operator's limit: of
// commands, and of those at the session's start and end.
func (e *Env) BoundSession(o paddock.SessionOptions) paddock.SessionOptions {
	for _, one := range []struct {
		span      *time.Duration
		otherwise time.Duration
	}{
		{&o.CommandTimeout, paddock.DefaultSessionTimeout},
		{&o.StartupTimeout, paddock.DefaultSessionTimeout},
		{&o.TerminationTimeout, paddock.DefaultSessionEnd},
	} {
		*one.span = e.BoundTime(registry.TimeLimit{Span: cmp.Or(*one.span, one.otherwise)}).Span
	}
	return o
}
