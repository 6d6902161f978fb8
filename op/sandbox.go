package op

import (
	"context"
	"slices"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// Open opens a sandbox for the operation. It is the only way to one: the
// ceiling of the principal is applied here, the privilege for a backend without
// walls is asked for, and the sandbox is put on record. Under a ceiling no
// symbolic link is followed to what a spec names.
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
	opts.Planted, opts.Unreported = e.tellOfPlanted, e.ReportLeftovers
	if e.Call != nil {
		opts.ID = e.Call.nextID()
	}
	sandbox, err := paddock.Open(ctx, spec, opts)
	if err == nil && e.Call != nil {
		e.Call.opened(sandbox.ID())
	}
	return sandbox, err
}

// Plan is what Open would do, and the spec with its defaults.
func (e *Env) Plan(ctx context.Context, spec policy.Spec) (*confine.Plan, policy.Spec, error) {
	spec, opts, err := e.admit(ctx, spec)
	if err != nil {
		return nil, policy.Spec{}, err
	}
	return paddock.Plan(ctx, spec, opts)
}

// admit is what stands before every sandbox.
func (e *Env) admit(ctx context.Context, spec policy.Spec) (policy.Spec, paddock.Options, error) {
	spec, err := e.UnderCeiling(spec)
	if err != nil {
		return policy.Spec{}, paddock.Options{}, err
	}
	if err := e.privileged(ctx, spec); err != nil {
		return policy.Spec{}, paddock.Options{}, err
	}
	opts, err := e.OptionsFor(spec)
	// Operations on files cannot name a workspace, and run no command in it.
	if names := func(f Field) bool { return f.JSON == "workspace" }; err == nil && (e.Call == nil || slices.ContainsFunc(e.Call.op.Fields(), names)) {
		err = Meant(spec, opts.Dir)
	}
	if err == nil {
		spec, err = e.linkWorktree(ctx, spec, opts)
	}
	return spec, opts, err
}

// Meant refuses, as a workspace that nobody has named, a current directory that is or
// holds a home, or that belongs to the system.
func Meant(spec policy.Spec, dir string) error {
	if spec.Workspace.Source != "" || spec.Backend == policy.BackendWrapper {
		return nil
	}
	dir, err := hostpath.Abs(dir)
	why := hostpath.Unasked(dir)
	if err != nil || why == "" { // without a current directory the spec tells, with what else is wrong
		return nil //nolint:nilerr // see above
	}
	hint := "go to a project's directory, or name one"
	if dir != "/" { // which is never one
		hint += "; where this one is meant, name it: `workspace.source` " + policy.ShellWord(dir)
	}
	return &policy.FieldError{Field: "workspace", Value: dir, Reason: "the current directory " + why + ": commands could read and change all of it", Hint: hint}
}

// linkWorktree mounts the repository of a linked worktree, where the ceiling has room
// for it, or where it is the operator's own. It is judged anew at each start.
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

// UnderCeiling applies the ceiling.
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

// MayRead refuses, under a ceiling, a file of the host that an input names: it is
// read with this process's rights, and what is wrong with it tells what it holds.
func (e *Env) MayRead(field, file string) error {
	if e.Ceiling == nil || file == "" {
		return nil
	}
	if e.Call != nil {
		e.Call.refuse()
	}
	return &policy.CeilingError{Rule: "ceiling", FieldError: policy.FieldError{
		Field: field, Value: file, Reason: "under a ceiling no file of the host is read for who asks",
		Hint: "leave it out, and ask for what it says in the other fields",
	}}
}
