package op

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// ReadFile reads a file of the host that is named in a field, such as a spec or a ceiling.
// what describes it in messages, and most bounds its size in bytes. The file is protected
// from the commands of this call's sandboxes.
func (e *Env) ReadFile(ctx context.Context, field, what, name string, most int64) ([]byte, error) {
	data, err := hostpath.ReadNamed(ctx, e.StateDir(), name, most)
	if link := (*hostpath.LinkError)(nil); errors.As(err, &link) || errors.Is(err, hostpath.ErrNotRegular) || errors.Is(err, hostpath.ErrTooLarge) {
		return nil, FieldError(field, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", what, err)
	}
	if own, ok := hostpath.OwnNamed(name); ok {
		own.What, own.Field = "the "+what, field
		e.named = append(e.named, own)
	}
	return data, nil
}

// ReadSpec reads the spec file that is named in a field.
func (e *Env) ReadSpec(ctx context.Context, field, name string) (policy.Spec, error) {
	data, err := e.ReadFile(ctx, field, "spec", name, specfile.MaxSize)
	if err != nil {
		return policy.Spec{}, err
	}
	file, err := specfile.Parse(name, data)
	if err != nil {
		return policy.Spec{}, err
	}
	if e.Call != nil {
		e.Call.spec = file
	}
	return file.Spec, nil
}

// NamedSpec returns the spec file that this call has read last, or nil.
func (e *Env) NamedSpec() *specfile.File {
	if e.Call == nil {
		return nil
	}
	return e.Call.spec
}

// OpenFile opens a file of the host that is named in a field.
func (e *Env) OpenFile(field, name string) (*os.File, error) {
	f, err := hostpath.OpenNamed(e.StateDir(), name)
	if err != nil {
		return nil, FieldError(field, name, err)
	}
	return f, nil
}

// StateDir returns the state directory, which has the list of directories where commands
// could have made links. It is "" if there is none; then few links are followed.
func (e *Env) StateDir() string {
	if e.Options.StateDir != "" {
		return e.Options.StateDir
	}
	dir, err := paddock.DefaultStateDir()
	if err != nil {
		return ""
	}
	return dir
}

// FieldError returns an error about a field that names a file of the host.
func FieldError(field, name string, err error) error {
	e := &policy.FieldError{Field: field, Value: name, Reason: CauseOf(err)}
	link := (*hostpath.LinkError)(nil)
	switch {
	case errors.As(err, &link):
		e.Hint = link.Hint()
	case errors.Is(err, hostpath.ErrNotRegular):
		e.Hint = "name a file, or - for standard input"
	}
	return e
}

// CauseOf returns the text of an error about a path, without the path.
func CauseOf(err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
