package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"plain", errors.New("cannot do it"), 125, "paddock: cannot do it\n"},
		{"a hint", &paddock.Error{Message: "cannot do it", Hint: "try again"}, 125, "paddock: cannot do it\npaddock: hint: try again\n"},
		{"not found", fmt.Errorf("cannot run: %w", &paddock.Error{Message: "gone", Code: wire.CodeNotFound}), 127, "paddock: cannot run: gone\n"},
		{"not executable", &paddock.Error{Message: "cannot run", Code: wire.CodeNotExecutable}, 126, "paddock: cannot run\n"},
		{"several", errors.Join(
			&policy.FieldError{Field: "a", Reason: "one", Hint: "first"},
			errors.Join(&policy.FieldError{Field: "b", Reason: "two"}),
		), 125, "paddock: cannot use a: one\npaddock: hint: first\npaddock: cannot use b: two\n"},
		{"a wall", &backend.StartError{Stage: "clone", Op: "clone3", Errno: 1, Hint: "allow it"}, 125,
			"paddock: cannot start the sandbox: clone: clone3: operation not permitted\npaddock: hint: allow it\n"},
		{"several lines", errors.New("one\ntwo"), 125, "paddock: one; two\n"},
		{"nobody reads", fmt.Errorf("cannot write: %w", &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}), 141, ""},
		{"nobody reads errors", &fs.PathError{Op: "write", Path: os.Stderr.Name(), Err: syscall.EPIPE}, 141, ""},
		{"another file", &fs.PathError{Op: "write", Path: "control", Err: syscall.EPIPE}, 125, "paddock: write control: broken pipe\n"},
		{"another pipe", fmt.Errorf("cannot write: %w", syscall.EPIPE), 125, "paddock: cannot write: broken pipe\n"},
		{"an agent that is none", &backend.StartError{Stage: "boot", Op: "send the plan", Errno: int(syscall.EPIPE)}, 125,
			"paddock: cannot start the sandbox: boot: send the plan: broken pipe\n"},
		{"a start that took too long", &backend.StartError{Stage: "boot", Op: "await", Object: "x", Cause: "late", Err: paddock.ErrTimeout}, 124,
			"paddock: cannot start the sandbox: boot: await x: late\n"},
		{"a start that was interrupted", &backend.StartError{Stage: "boot", Op: "await", Object: "x", Cause: "INT", Err: &op.InterruptedError{Name: "SIGINT", Number: 2}}, 130,
			"paddock: cannot start the sandbox: boot: await x: INT\n"},
		{"interrupted", &interrupted{syscall.SIGINT}, 130, "paddock: interrupted: what was started was ended (interrupt, three times)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if got := report(&b, tt.err); got != tt.status || b.String() != tt.want {
				t.Errorf("status %d and %q, want %d and %q", got, b.String(), tt.status, tt.want)
			}
		})
	}
}

func TestArgumentsThatJSONCannotCarryAreRefused(t *testing.T) {
	if _, err := (&Input{fields: []op.Field{{JSON: "texts", Arg: "TEXT...", Kind: op.KindList}}, values: map[string]any{}}).Encode([]string{"fine", "\xff"}); err == nil || err.Error() != `cannot use argument 2 "\xff": it is not valid UTF-8` {
		t.Errorf("the error is %v", err)
	}
}
