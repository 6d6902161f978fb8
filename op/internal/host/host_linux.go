// Package host has the host tools: operations on control groups and namespaces of the
// host, outside every sandbox. A contract fixes their names, inputs and answers
// (host_tools.json); each needs a privilege.
package host

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/namespace"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/wire"
)

// The host tools reach the host itself, outside every sandbox. A contract fixes their
// names, what programs are told of them, and the form of their answers: an
// object with "success", and "error" where that is false.

// Ops are the host tools, and what Paddock adds to them.
func Ops() []op.Op {
	return []op.Op{
		cgroupReadOp(), cgroupWriteOp(), cgroupMkdirOp(), cgroupRmdirOp(), cgroupMoveOp(), cgroupStatOp(),
		unshareOp(), nsenterOp(),
	}
}

//go:embed host_tools.json
var hostTools []byte

type hostTool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// contractTools are those of the contract, by name.
var contractTools = sync.OnceValue(func() map[string]hostTool {
	var list []hostTool
	tools := map[string]hostTool{}
	if err := json.Unmarshal(hostTools, &list); err != nil {
		panic(err) // it is part of this program
	}
	for _, t := range list {
		tools[t.Name] = t
	}
	return tools
})

// Answer is what a host tool answers: an object with success, error where that is false, and
// the fields of Result where there is one.
type Answer[R any] struct {
	Success bool
	Error   string // a sentence, empty where it succeeded
	Hint    string // what to do about it, where there is something to say
	Result  *R

	cause error
}

// MarshalJSON puts the fields of the result beside the others.
func (a Answer[R]) MarshalJSON() ([]byte, error) {
	head, err := plainJSON(struct {
		Success bool   `json:"success"`
		Error   string `json:"error,omitempty"`
		Hint    string `json:"hint,omitempty"`
	}{a.Success, a.Error, a.Hint})
	if err != nil || a.Result == nil {
		return head, err
	}
	body, err := plainJSON(a.Result)
	if err != nil || len(body) <= len("{}") {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

// plainJSON encodes without escapes for HTML.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// ExitStatus is the result's own where it has one.
func (a Answer[R]) ExitStatus() int {
	s, ok := any(a.Result).(op.Statuser)
	switch {
	case errors.Is(a.cause, namespace.ErrNotFound):
		return op.StatusNotFound
	case errors.Is(a.cause, namespace.ErrNotExecutable):
		return op.StatusRefused
	case ok && a.Result != nil:
		return s.ExitStatus()
	case a.Success:
		return 0
	}
	return op.StatusFailed
}

// Failed is for [Failer].
func (a Answer[R]) Failed() bool { return !a.Success }

// Contracted returns the answer as a model gets it, whole, as JSON. Of what was read or
// printed at most so many bytes are left, with the contract's mark; nothing else is cut.
func (a Answer[R]) Contracted(most int) any {
	if a.Result == nil {
		return a
	}
	r := *a.Result
	for _, name := range []string{"Content", "Stdout", "Stderr"} {
		f := reflect.ValueOf(&r).Elem().FieldByName(name)
		if f.IsValid() && f.Len() > most {
			text := strings.TrimSuffix(f.String(), truncated)
			f.SetString(strings.ToValidUTF8(text[:min(most, len(text))], "") + truncated)
		}
	}
	a.Result = &r
	return a
}

// answerOf makes an answer of a result, an error, or both.
func answerOf[R any](r *R, err error) Answer[R] {
	if err == nil {
		return Answer[R]{Success: true, Result: r}
	}
	return Answer[R]{Error: err.Error(), Hint: toolHint(err), Result: r, cause: err}
}

// toolHint is HintOf with the errors of host tools.
func toolHint(err error) string {
	group, space := (*cgroup.Error)(nil), (*namespace.Error)(nil)
	place, flag := (*cgroup.PathError)(nil), (*namespace.FlagError)(nil)
	switch {
	case errors.As(err, &group):
		return group.Hint
	case errors.As(err, &space):
		return space.Hint
	case errors.As(err, &place):
		return place.Hint
	case errors.As(err, &flag):
		return flag.Hint
	}
	return op.HintOf(err)
}

// newHostTool makes an operation whose errors are answers. In texts for people
// they are errors like any other.
func newHostTool[I, R any](desc op.Desc, do func(context.Context, *op.Env, I, *op.Stream) (*R, error), render func(io.Writer, *R) error) op.Op {
	desc.Needs, desc.Hints.OpenWorld = privilege.UnsandboxedExec, true
	if t, ok := contractTools()[desc.Name]; ok {
		desc.Description, desc.Schema = t.Description, t.Parameters
	}
	o := op.New(desc, func(ctx context.Context, env *op.Env, in I, stream *op.Stream) (Answer[R], error) {
		r, err := do(ctx, env, in, stream)
		return answerOf(r, err), nil
	}, func(w io.Writer, a Answer[R]) error {
		if a.Result != nil {
			if err := render(w, a.Result); err != nil {
				return err
			}
		}
		return a.failure()
	})
	return o.AnsweringErrors(func(err error) any { return answerOf[R](nil, err) })
}

// Outcome tells the record how it ended.
func (a Answer[R]) Outcome() (outcome, text string) {
	if a.Success {
		return audit.OutcomeOK, ""
	}
	if guarded := (*cgroup.GuardError)(nil); errors.As(a.cause, &guarded) {
		return audit.OutcomeDenied, a.Error
	}
	return audit.OutcomeError, a.Error
}

// failure is the error for people, nil where there is none, or where they have been told.
func (a Answer[R]) failure() error {
	if a.Success || errors.Is(a.cause, errTold) {
		return nil
	}
	e := &paddock.Error{Message: a.Error, Hint: a.Hint}
	switch {
	case errors.Is(a.cause, namespace.ErrNotFound):
		e.Code = wire.CodeNotFound
	case errors.Is(a.cause, namespace.ErrNotExecutable):
		e.Code = wire.CodeNotExecutable
	}
	return e
}

// errTold is behind an error that a stream has told of.
var errTold = errors.New("told")

// sayError is an error with a text of its own.
type sayError struct {
	text  string
	cause error
}

func (e *sayError) Error() string { return e.text }
func (e *sayError) Unwrap() error { return e.cause }

// sentence is an error in the words of the contract, or in their manner.
func sentence(text string) error { return &sayError{text: text} }

// failed puts the contract's words before what the system said. What Paddock
// itself refuses is a sentence already.
func failed(words string, err error) error {
	var place *cgroup.PathError
	var guarded *cgroup.GuardError
	if err == nil || errors.As(err, &place) || errors.As(err, &guarded) {
		return err
	}
	text := err.Error()
	var group *cgroup.Error
	if errors.As(err, &group) {
		text = fmt.Sprintf("%v: %s", group.Err, group.Object)
	}
	return &sayError{words + ": " + text, err}
}
