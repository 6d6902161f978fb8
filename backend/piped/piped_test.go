//go:build linux

package piped

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/wire"
)

// TestMain is also the owner of a sandbox that is to be killed.
func TestMain(m *testing.M) {
	if order := os.Getenv(ownerEnv); order != "" {
		own(order)
	}
	boxtest.Main(m)
}

func request(t testing.TB) backend.Request {
	t.Helper()
	return backend.Request{Agent: boxtest.Agent, StateDir: filepath.Join(t.TempDir(), "state")}
}

// plain is a wall that is none.
func plain(t testing.TB, argv ...string) Wall {
	t.Helper()
	if len(argv) == 0 {
		argv = []string{"env"}
	}
	return Wall{Backend: "test", Argv: argv, Agent: boxtest.Agent, Guest: wire.Guest{Workspace: osstring.String(t.TempDir())}, StartTimeout: 10 * time.Second}
}

// open starts a sandbox that ends with the test, and leaves nothing.
func open(t *testing.T, req backend.Request, w Wall) backend.Sandbox {
	t.Helper()
	box, err := Start(t.Context(), req, w)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { boxtest.Stop(t, req, box) })
	return box
}

func TestExec(t *testing.T) {
	req := request(t)
	w := plain(t)
	w.Guest.Env = map[string]string{"SECRET": "s3cr3t"}
	box := open(t, req, w)
	if r := boxtest.Sh(t, box, "pwd; echo $SECRET; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; exit 3"); r.ExitCode != 3 ||
		r.Stdout != string(w.Guest.Workspace)+"\ns3cr3t\nNoNewPrivs:\t1\nSeccomp:\t2\n" {
		t.Errorf("%+v", r)
	}
	if found := boxtest.Carriers("s3cr3t"); len(found) > 0 {
		t.Errorf("the secret is among the arguments of %q", found)
	}
}

// Whatever the wall does wrong, the error says what, at once.
func TestWallsThatFail(t *testing.T) {
	script := func(text string) []string { return []string{"/bin/sh", "-c", text, "sh"} }
	for _, tt := range []struct {
		name  string
		argv  []string
		stage string
		says  string
		hint  string
	}{
		{"no program", []string{"paddock-no-such-wall"}, "wall", "start paddock-no-such-wall: it is not found in PATH", "install it"},
		{"no file", []string{"/nonexistent/wall"}, "wall", "start /nonexistent/wall: no such file or directory", "name a program"},
		{"no executable", []string{"/etc/passwd"}, "wall", "start /etc/passwd: permission denied", "name a program"},
		{"ends at once", script("exit 7"), "agent", "await the agent: it ended with status 7", ""},
		{"says why", script("echo 'Permission denied (publickey).' >&2; exit 255"), "agent", "it ended with status 255: Permission denied (publickey).", ""},
		{"says it on its output", script("echo 'please log in'; exit 1"), "agent", "it ended with status 1: please log in", ""},
		{"is killed", script("kill -9 $$"), "agent", "it was killed by signal 9 (SIGKILL)", ""},
		{"closes its output", script("exec >&-; sleep 1000"), "agent", "it closed its standard output", ""},
		{"says nothing", script("sleep 1000"), "agent", "it did not answer within 1s", ""},
		{"says too much", script("yes"), "agent", "more than 65536 bytes came before its answer", ""},
		{"gives back what it is sent", script("cat"), "agent", "it did not answer within 1s", "plain pipe"},
		{"forges an answer", script("echo paddock-guest 00000000000000000000000000000000 {}; exit 1"), "agent", "it ended with status 1: paddock-guest 0000", ""},
		{"has no agent", script("exec /nonexistent/agent guest"), "agent", "not found", ""},
		{"runs something else", script("exec echo hello"), "agent", "it ended with status 0: hello", ""},
		{"prints terminal escapes", script(`printf '\033]0;x\007bad' >&2; exit 1`), "agent", "\uFFFD]0;x\uFFFDbad", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t)
			tag := boxtest.Token()
			w := plain(t, append(tt.argv, tag)...)
			w.StartTimeout = time.Second
			began := time.Now()
			box, err := Start(t.Context(), req, w)
			if err == nil {
				boxtest.Stop(t, req, box)
				t.Fatal("it started")
			}
			var e *backend.StartError
			if !errors.As(err, &e) || e.Stage != tt.stage || !strings.Contains(err.Error(), tt.says) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("says %q, %+v", err, e)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			boxtest.AwaitNone(t, tag)
			if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 {
				t.Errorf("it left %q", left)
			}
		})
	}
}

func TestBanner(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t, "/bin/sh", "-c", `echo hello; echo warning >&2; printf 'no end of line'; exec "$@"`, "sh"))
	if r := boxtest.Sh(t, box, "echo out"); r.Stdout != "out\n" {
		t.Errorf("%+v", r)
	}
}

func TestUpload(t *testing.T) {
	tmp := t.TempDir()
	req := request(t)
	w := plain(t, "env", "TMPDIR="+tmp, "/bin/sh", "-c", `echo banner; exec "$@"`, "sh")
	w.Upload, w.Agent, w.Guest.Workspace = true, "", ""
	box := open(t, req, w)
	if r := boxtest.Sh(t, box, `case $PWD in "$1"/*) echo in "$1";; esac`, tmp); !strings.HasPrefix(r.Stdout, "in ") {
		t.Errorf("%+v", r)
	}
	if left, _ := filepath.Glob(tmp + "/paddock-*/paddock-agent"); len(left) > 0 {
		t.Errorf("the program is left: %q", left)
	}
	if _, err := box.Stop(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestUploadThatCannotBe(t *testing.T) {
	bin := t.TempDir()
	for _, tt := range []struct{ name, path, says string }{
		{"nothing there", "/nonexistent", "it has no program mkdir"},
		{"no hash", bin, "none of the programs sha256sum, shasum and openssl"},
	} {
		for _, name := range []string{"mkdir", "chmod", "rm"} {
			_ = os.Symlink("/bin/"+name, filepath.Join(bin, name))
		}
		req := request(t)
		w := plain(t, "env", "PATH="+tt.path)
		w.Upload = true
		box, err := Start(t.Context(), req, w)
		if err == nil {
			boxtest.Stop(t, req, box)
			t.Fatalf("%s: it started", tt.name)
		}
		var e *backend.StartError
		if !errors.As(err, &e) || e.Stage != "upload" || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, words := range [][]string{{"a b", "it's"}, {`$x "y" \z`, "", "-n\n"}} {
		out, err := exec.Command("/bin/sh", "-c", "printf '%s|' "+quote(words)).Output()
		if err != nil || string(out) != strings.Join(words, "|")+"|" {
			t.Errorf("%q became %q, %v", words, out, err)
		}
	}
	if strings.ContainsAny(uploadScript, "'\n") {
		t.Error("the upload's script does not pass every shell")
	}
}

// Who is told to give up does so at once, and leaves nothing.
func TestCancelledStart(t *testing.T) {
	req := request(t)
	tag := boxtest.Token()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := Start(ctx, req, plain(t, "/bin/sh", "-c", "sleep 1000; :", tag))
	if !errors.Is(err, context.Canceled) { // else it waited for the answer that never comes
		t.Error(err)
	}
	boxtest.AwaitNone(t, tag)
	if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}
