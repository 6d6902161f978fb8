package paddock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// attachEnv makes the test program the other process of these tests.
const attachEnv = "PADDOCK_TEST_ATTACH"

// attachChild is that process. "own" opens a sandbox, says its id, and lives
// until its input ends; anything else is the id of one to attach to.
func attachChild(what string) int {
	fail := func(err error) int {
		fmt.Println("failed:", err)
		return 1
	}
	ctx := context.Background()
	if what == "own" {
		dir, err := os.MkdirTemp("", "paddock-test-")
		if err != nil {
			return fail(err)
		}
		defer os.RemoveAll(dir)
		s, err := Open(ctx, Spec{Workspace: Workspace{Source: dir}, Limits: Limits{Timeout: Duration(time.Minute)}, Env: map[string]string{"A": "b"}}, Options{})
		if err != nil {
			return fail(err)
		}
		fmt.Println(s.ID())
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		if err := s.Close(); err != nil {
			return fail(err)
		}
		return 0
	}
	s, err := Attach(ctx, what, Options{})
	if err != nil {
		return fail(err)
	}
	out, err := s.Command(ctx, "sh", "-c", "echo from another process > note; cat note").Output()
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%s%v %s", out, s.Isolation().Verified, s.Spec().Limits.Output)
	if err := s.Close(); err != nil {
		return fail(err)
	}
	return 0
}

func child(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), attachEnv+"="+what)
	return cmd
}

func TestAnotherProcessAttaches(t *testing.T) {
	s := openWalled(t, Spec{})
	out, err := child(t, s.ID()).Output()
	if err != nil || string(out) != "from another process\ntrue 1MiB" {
		t.Fatalf("it said %q, %v", out, err)
	}
	if out, err := s.Command(t.Context(), "cat", "note").Output(); err != nil || string(out) != "from another process\n" {
		t.Errorf("after it let go: %q, %v", out, err)
	}
}

// owned starts a process that owns a sandbox, and attaches to that.
func owned(t *testing.T) (owner *exec.Cmd, end func(), s *Sandbox) {
	t.Helper()
	requireWalls(t)
	owner = child(t, "own")
	in, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(line, err)
	}
	s, err = Attach(t.Context(), strings.TrimSpace(line), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return owner, func() { _ = in.Close() }, s
}

func TestAttachedSandboxEndsWithItsOwner(t *testing.T) {
	for name, kill := range map[string]bool{"closed": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			owner, end, s := owned(t)
			cmd := s.Command(t.Context(), "sleep", "1000")
			if cmd.Timeout != time.Minute || s.Spec().Env != nil {
				t.Errorf("the spec is %+v", s.Spec())
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if kill {
				_ = owner.Process.Kill()
			} else {
				end()
			}
			_ = owner.Wait()
			select {
			case <-s.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("it is not told that the sandbox has ended")
			}
			if err := cmd.Wait(); err == nil {
				t.Error("a command has outlived its sandbox")
			}
			if err := s.Command(t.Context(), "true").Run(); !errors.Is(err, ErrClosed) {
				t.Errorf("a command afterwards: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := Attach(t.Context(), s.ID(), Options{}); !errors.Is(err, ErrClosed) {
				t.Errorf("attaching afterwards: %v", err)
			}
		})
	}
}

func TestDetachedSandboxRunsNothing(t *testing.T) {
	owner := openWalled(t, Spec{})
	s, err := Attach(t.Context(), owner.ID(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Command(t.Context(), "true").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("a command after Close: %v", err)
	}
	if err := owner.Command(t.Context(), "true").Run(); err != nil {
		t.Error(err)
	}
}

func TestAttachToNothing(t *testing.T) {
	for _, id := range []string{"", "pd-aaaaaaaaaaaaa", "../pd-aaaaaaaaaaaaa", "pd-AAAAAAAAAAAAA", "pd-aaaaaaaaaaaa\n", strings.Repeat("a", 1<<20)} {
		if _, err := Attach(t.Context(), id, Options{StateDir: t.TempDir()}); !errors.Is(err, ErrClosed) {
			t.Errorf("%.30q: %v", id, err)
		}
	}
}
