package op

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// readNamed reads a file of the host that somebody has named in a field: a spec,
// a ceiling. what is its name in messages, and most how many bytes it may have.
// Commands of this call's sandboxes must not change it.
func (e *Env) readNamed(ctx context.Context, field, what, name string, most int64) ([]byte, error) {
	data, err := hostpath.ReadNamed(ctx, e.state(), name, most)
	if err != nil {
		return nil, namedError(field, what, name, err)
	}
	if own, ok := hostpath.OwnNamed(name); ok {
		own.What, own.Field = "the "+what, field
		e.named = append(e.named, own)
	}
	return data, nil
}

// readSpec reads a spec that somebody has named in a field.
func (e *Env) readSpec(ctx context.Context, field, name string) (policy.Spec, error) {
	data, err := e.readNamed(ctx, field, "spec", name, specfile.MaxSize)
	if err != nil {
		return policy.Spec{}, err
	}
	file, err := specfile.Parse(name, data)
	if err != nil {
		return policy.Spec{}, err
	}
	if e.call != nil {
		e.call.spec = file
	}
	return file.Spec, nil
}

// namedSpec returns the spec file that this call has read last, or nil.
func (e *Env) namedSpec() *specfile.File {
	if e.call == nil {
		return nil
	}
	return e.call.spec
}

// openNamed opens a file of the host that somebody has named in a field.
func (e *Env) openNamed(field, name string) (*os.File, error) {
	f, err := hostpath.OpenNamed(e.state(), name)
	if err != nil {
		return nil, fieldError(field, name, err)
	}
	return f, nil
}

// state is the directory of state that tells which links commands can have made,
// "" where there is none: then few are followed.
func (e *Env) state() string {
	if e.Options.StateDir != "" {
		return e.Options.StateDir
	}
	dir, err := paddock.DefaultStateDir()
	if err != nil {
		return ""
	}
	return dir
}

func namedError(field, what, name string, err error) error {
	if link := (*hostpath.LinkError)(nil); errors.As(err, &link) || errors.Is(err, hostpath.ErrNotRegular) || errors.Is(err, hostpath.ErrTooLarge) {
		return fieldError(field, name, err)
	}
	return fmt.Errorf("cannot read the %s: %w", what, err)
}

func fieldError(field, name string, err error) error {
	e := &policy.FieldError{Field: field, Value: name, Reason: causeOf(err)}
	link := (*hostpath.LinkError)(nil)
	switch {
	case errors.As(err, &link):
		e.Hint = link.Hint()
	case errors.Is(err, hostpath.ErrNotRegular):
		e.Hint = "name a file, or - for standard input"
	}
	return e
}
