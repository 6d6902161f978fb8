//go:build linux

package linux

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/wire"
)

// ownerEnv makes the test's program the owner of one sandbox.
const ownerEnv = "PADDOCK_LINUX_OWNER"

// ownerSpec is what an owner is told.
type ownerSpec struct {
	Request backend.Request
	Token   string // of the command that it runs
	Filter  bool   // it puts itself behind a seccomp filter first
	Mount   string // where in the workspace it mounts something first, for itself alone
}

// ownSandbox starts a sandbox with a command, prints the agent's pid and waits to
// be killed.
func ownSandbox(text string) int {
	var spec ownerSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil && spec.Filter {
		err = allowAll()
	}
	if err == nil && spec.Mount != "" {
		err = coverDir(filepath.Join(spec.Request.Spec.Workspace.Source, spec.Mount))
	}
	var box backend.Sandbox
	if err == nil {
		box, err = New().Start(context.Background(), spec.Request)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	client := wire.Client{Dial: box.Dial}
	// Two orphans in sessions of their own, beside the command itself.
	script := `for i in 1 2; do (setsid sh -c 'sleep 1000; :' "$0" &); done; echo up; while :; do sleep 1000; done`
	up := make(chan struct{}, 1)
	_, err = client.Start(context.Background(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", script, spec.Token}},
		wire.Streams{Stdout: writer(func() { up <- struct{}{} })})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-up
	fmt.Println("up", box.(*sandbox).pid)
	select {}
}

type writer func()

func (w writer) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}

// allowAll is a filter as container engines put everything behind.
func allowAll() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	return seccompTSYNC(&unix.SockFprog{Len: 1, Filter: &prog[0]})
}

// coverDir mounts a file system with one file over a directory. The owner has
// a mount namespace of its own for this.
func coverDir(dir string) error {
	if err := unix.Mount("x", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "on-top"), nil, 0o644)
}

// startOwner runs an owner and gives it with the pid of its agent.
func startOwner(t *testing.T, spec ownerSpec) (*exec.Cmd, int) {
	t.Helper()
	boxtest.RequireWalls(t)
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ownerEnv+"="+string(text))
	if spec.Mount != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // private, too
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscanf(line, "up %d", &pid); err != nil {
		t.Fatalf("the owner says %q", line)
	}
	return cmd, pid
}

// ended says that a process is no more, or waits for nobody but its parent.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func sandboxDirs(t *testing.T, stateDir string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(stateDir, "sandboxes", "[^.]*")) // not the position of a sweep
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// The owner's death, however it comes, is the sandbox's; what stays on disk
// goes with the next start.
func TestOwnerKilled(t *testing.T) {
	for name, stopped := range map[string]bool{"agent running": false, "agent stopped": true} {
		t.Run(name, func(t *testing.T) {
			spec := ownerSpec{Request: request(t), Token: newToken()}
			cmd, agent := startOwner(t, spec)
			if stopped {
				if err := unix.Kill(agent, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Eventually(t, "up", func() bool { return len(carriers(spec.Token)) == 3 })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			testkit.Eventually(t, "dead", func() bool {
				return len(carriers(spec.Token)) == 0 && ended(agent)
			})
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), spec.Request.Spec.Workspace.Source) {
				t.Errorf("a mount is left: %s, %v", mounts, err)
			}
			left := sandboxDirs(t, spec.Request.StateDir)
			if len(left) != 1 {
				t.Fatalf("the owner left %v", left)
			}
			next := launchBox(t, spec.Request)
			if dirs := sandboxDirs(t, spec.Request.StateDir); len(dirs) != 1 || filepath.Base(dirs[0]) != next.ID() {
				t.Errorf("after the next start there are %v", dirs)
			}
			if _, err := next.Stop(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if ids, _ := filepath.Glob(filepath.Join(spec.Request.StateDir, "ids", "*")); len(ids) != 0 {
				t.Errorf("lent ids are left: %v", ids)
			}
		})
	}
}

// A living owner's sandbox is nobody else's to sweep.
func TestSweepLeavesTheLiving(t *testing.T) {
	spec := ownerSpec{Request: request(t), Token: newToken()}
	_, agent := startOwner(t, spec)
	box := launchBox(t, spec.Request)
	if _, err := box.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(agent, 0); err != nil {
		t.Errorf("the other agent: %v", err)
	}
	if dirs := sandboxDirs(t, spec.Request.StateDir); len(dirs) != 1 {
		t.Errorf("there are %v, want the living one's", dirs)
	}
}

// Inside a container there is a filter already.
func TestBehindAFilter(t *testing.T) {
	startOwner(t, ownerSpec{Request: request(t), Token: newToken(), Filter: true})
}
