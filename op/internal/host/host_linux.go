// Package host has the host tools: operations on control groups and namespaces of the
// host, outside every sandbox. Each needs a privilege. A contract (host_tools.json) fixes
// their names, their inputs, and the form of their answers: an object with "success", and
// "error" if that is false.
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
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/namespace"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/wire"
)

// Ops returns the host tools, and cgroup_stat, which Paddock adds to them.
func Ops() []op.Op {
	return []op.Op{
		hostTool[CgroupReadInput](), hostTool[CgroupWriteInput](), hostTool[CgroupMkdirInput](), hostTool[CgroupRmdirInput](),
		hostTool[CgroupMoveInput](), hostTool[CgroupStatInput](), hostTool[UnshareInput](), hostTool[NsenterInput](),
	}
}

//go:embed host_tools.json
var hostTools []byte

type contractTool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// contractTools returns the tools of the contract by name.
var contractTools = sync.OnceValue(func() map[string]contractTool {
	var list []contractTool
	tools := map[string]contractTool{}
	if err := json.Unmarshal(hostTools, &list); err != nil {
		panic(err) // it is part of this program
	}
	for _, t := range list {
		tools[t.Name] = t
	}
	return tools
})

// Answer is the answer of a host tool: an object with success, with error if that is false,
// and with the fields of Result if it is not nil.
type Answer[R any] struct {
	Success bool
	Error   string // a sentence, empty if it succeeded
	Hint    string // what to do about the error, or empty
	Result  *R

	cause error
}

// MarshalJSON returns an object with the fields of the answer and those of the result.
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

// ExitStatus returns the result's own exit status if it has one.
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

// Failed reports whether the tool failed.
func (a Answer[R]) Failed() bool { return !a.Success }

// Contracted returns the answer for a model, as JSON. It cuts text that was read or printed
// if that has more than most bytes, and adds the contract's mark; nothing else is cut.
func (a Answer[R]) Contracted(most int) any {
	if a.Result == nil {
		return a
	}
	r := *a.Result
	for _, name := range []string{"Content", "Stdout", "Stderr"} {
		f := reflect.ValueOf(&r).Elem().FieldByName(name)
		if f.IsValid() && f.Len() > most {
			f.SetString(text.Prefix(strings.TrimSuffix(f.String(), truncated), most) + truncated)
		}
	}
	a.Result = &r
	return a
}

// answerOf returns the answer with a result, an error, or both.
func answerOf[R any](r *R, err error) Answer[R] {
	if err == nil {
		return Answer[R]{Success: true, Result: r}
	}
	return Answer[R]{Error: err.Error(), Hint: toolHint(err), Result: r, cause: err}
}

// toolHint is like op.HintOf, and also knows the errors of host tools.
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

// hostTool returns the operation of a host tool, whose errors are answers. For people they
// are errors like any other.
func hostTool[I op.Operation[P], P interface {
	*R
	op.Output
}, R any]() op.Op {
	var in I
	desc := in.Desc()
	desc.Needs, desc.Hints.OpenWorld = privilege.UnsandboxedExec, true
	if t, ok := contractTools()[desc.Name]; ok {
		desc.Description, desc.Schema = t.Description, t.Parameters
	}
	o := op.New(desc, func(ctx context.Context, env *op.Env, in I, stream *op.Stream) (Answer[R], error) {
		r, err := in.Do(ctx, env, stream)
		return answerOf(r, err), nil
	}, func(w io.Writer, a Answer[R]) error {
		if a.Result != nil {
			if err := P(a.Result).Render(w); err != nil {
				return err
			}
		}
		return a.failure()
	})
	return o.AnsweringErrors(func(err error) any { return answerOf[R](nil, err) })
}

// Outcome returns the outcome and the error for the audit record.
func (a Answer[R]) Outcome() (outcome, text string) {
	if a.Success {
		return audit.OutcomeOK, ""
	}
	if guarded := (*cgroup.GuardError)(nil); errors.As(a.cause, &guarded) {
		return audit.OutcomeDenied, a.Error
	}
	return audit.OutcomeError, a.Error
}

// failure returns the error for people, or nil if a stream has shown it already.
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

// errTold is wrapped by an error that a stream has shown already.
var errTold = errors.New("told")

// sayError is an error whose text hides its cause.
type sayError struct {
	text  string
	cause error
}

func (e *sayError) Error() string { return e.text }
func (e *sayError) Unwrap() error { return e.cause }

// sentence returns an error with a text of the contract, or one in its style.
func sentence(text string) error { return &sayError{text: text} }

// failed returns err after the contract's words. It returns Paddock's own refusals unchanged,
// since they are complete sentences.
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
