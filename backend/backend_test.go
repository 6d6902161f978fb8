package backend

import (
	"encoding/json"
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

func TestStartError(t *testing.T) {
	for _, tt := range []struct {
		err  StartError
		want string
	}{
		{StartError{Stage: "setup", Op: "bind", Object: "/x", Errno: int(syscall.EACCES)}, "cannot start the sandbox: setup: bind /x: permission denied"},
		{StartError{Stage: "boot", Op: "await the agent", Cause: "EOF"}, "cannot start the sandbox: boot: await the agent: EOF"},
		// What the operation says of itself is better than the errno's text.
		{StartError{Stage: "plan", Op: "map", Object: "/y", Errno: int(syscall.EINVAL), Cause: "no file system for it"}, "cannot start the sandbox: map /y: no file system for it"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("says %q, want %q", got, tt.want)
		}
	}
}

// The errno is for errors.Is, and crosses as JSON.
func TestStartErrorUnwrap(t *testing.T) {
	text, err := json.Marshal(&StartError{Stage: "setup", Op: "bind", Errno: int(syscall.EACCES), Hint: "do this"})
	if err != nil {
		t.Fatal(err)
	}
	var got StartError
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(&got, fs.ErrPermission) || got.Hint != "do this" {
		t.Errorf("%+v", got)
	}
	if (&StartError{Cause: "x"}).Unwrap() != nil {
		t.Error("an error without an errno unwraps to something")
	}
}
