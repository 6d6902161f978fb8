//go:build linux

package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

func spec(change func(*policy.Spec)) policy.Spec {
	s := policy.Spec{Backend: policy.BackendHost}
	if change != nil {
		change(&s)
	}
	return s
}

// Commands run in the workspace itself, as the caller, in a session of their
// own, and with no more of the caller's environment than they need.
func TestCommands(t *testing.T) {
	t.Setenv("PADDOCK_TEST_SECRET", "s3cr3t")
	req := boxtest.Request(t, spec(func(s *policy.Spec) { s.Env = map[string]string{"A": "b"} }))
	box := boxtest.Open(t, New(), req)
	r := boxtest.Sh(t, box, `pwd; id -u; echo "$A-$PADDOCK_TEST_SECRET-$HOME"; [ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] && echo session; echo x >made`)
	want := req.Spec.Workspace.Source + "\n" + strconv.Itoa(os.Geteuid()) + "\nb--" + os.Getenv("HOME") + "\nsession\n"
	if r.Stdout != want {
		t.Errorf("%q, want %q, %s", r.Stdout, want, r.Stderr)
	}
	if _, err := os.Stat(req.Spec.Workspace.Source + "/made"); err != nil {
		t.Error(err)
	}
}

// What is not kept is said.
func TestIsolation(t *testing.T) {
	box := boxtest.Open(t, New(), boxtest.Request(t, spec(nil)))
	i := box.Isolation()
	if i.Level != "none" || len(i.Namespaces) != 0 || i.Network != "host" || i.Seccomp != "none" || i.NoNewPrivs || !i.Verified || len(i.Lost) < 5 {
		t.Errorf("%+v", i)
	}
	p, err := New().Plan(t.Context(), boxtest.Request(t, spec(nil)))
	if err != nil || p.Holds.Verified || len(p.Spawn)+len(p.Setup) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if r := New().Probe(t.Context()); !r.Usable {
		t.Errorf("%+v", r)
	}
}

// Limits are there before the program begins, so its first child has them, too.
func TestLimits(t *testing.T) {
	req := boxtest.Request(t, spec(func(s *policy.Spec) {
		s.Limits = policy.Limits{CPUTime: policy.Duration(time.Second), FileSize: policy.MiB, OpenFiles: 64, Memory: 256 * policy.MiB}
		s.AllowDegraded = []string{policy.DegradeMemory}
	}))
	box := boxtest.Open(t, New(), req)
	r := boxtest.Sh(t, box, `for l in -t -Ht -n -d; do ulimit $l; done`)
	if want := "1\n2\n64\n262144\n"; r.Stdout != want {
		t.Errorf("%q, want %q", r.Stdout, want)
	}
	if r := boxtest.Sh(t, box, `trap 'echo warned; exit 9' XCPU; while :; do :; done`); r.ExitCode != 9 || r.Stdout != "warned\n" {
		t.Errorf("a command that takes its warning: %+v", r)
	}
	if r := boxtest.Sh(t, box, `trap '' XCPU; while :; do :; done`); r.ExitCode >= 0 || r.Signal != "SIGKILL" {
		t.Errorf("a command that does not: %+v", r)
	}
	i := box.Isolation()
	if !strings.Contains(i.Limits["memory"], "RLIMIT_DATA") || len(i.Degraded) != 1 || i.Degraded[0] != policy.DegradeMemory {
		t.Errorf("%+v", i)
	}
}

// Whatever a command leaves behind ends with it, and the rest with the sandbox.
func TestDeath(t *testing.T) {
	box := boxtest.Open(t, New(), boxtest.Request(t, spec(nil)))
	tag := boxtest.Token()
	r := boxtest.Sh(t, box, `(setsid sh -c 'trap "" TERM HUP; sleep 1000; :' "$1" >/dev/null 2>&1 &); sleep 0.1`, tag)
	if r.SurvivorsKilled == 0 || !r.DeathProved {
		t.Errorf("%+v", r)
	}
	boxtest.AwaitNone(t, tag)
}

func TestRefusals(t *testing.T) {
	req := boxtest.Request(t, spec(nil))
	req.Spec.Workspace.Source += "/none"
	_, err := New().Start(t.Context(), req)
	var field *policy.FieldError
	if !errors.As(err, &field) || field.Field != "workspace.source" {
		t.Errorf("%v", err)
	}
}

// Secrets and sessions need a place of the agent's own, and find one.
func TestServices(t *testing.T) {
	box := boxtest.Open(t, New(), boxtest.Request(t, spec(nil)))
	client := wire.Client{Dial: box.Dial}
	s, err := wire.Call(t.Context(), &client, wire.OpenShell, wire.OpenShellRequest{Action: "open_shell", ShellID: "one"})
	if err != nil || s.ShellID != "one" {
		t.Errorf("%+v, %v", s, err)
	}
}
