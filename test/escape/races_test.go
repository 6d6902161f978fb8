//go:build linux

package escape

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Between its clone and its program a command is a copy of the agent's
// spawner. No other command gets hold of it.
func TestExecStart(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		const long = "700ms"
		// The control: on the host such a process is another program to be opened.
		if got := h.without(t, row{args: []string{"exec-start", long}}); got != succeeded {
			t.Fatalf("without the wall: %s", got)
		}
		ended := make(chan string)
		go func() {
			args := []string{"exec-start", long, "/bin/true"}
			if c.Level == policy.LevelLandlock { // the host's processes are seen; theirs cannot be opened
				args = append(args, h.program())
			}
			got, err := h.attack(t.Context(), b, args)
			if err != nil {
				got = err.Error()
			}
			ended <- got
		}()
		n := 0
		for {
			select {
			case got := <-ended:
				if got != "no other program was seen" {
					t.Errorf("while %d commands began: %s", n, got)
				}
				if n == 0 {
					t.Error("no command began meanwhile")
				}
				return
			default:
				if res, err := b.client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil || res.ExitCode != 0 {
					t.Fatalf("%+v, %v", res, err)
				}
				n++
			}
		}
	})
}

// A mount's target is swapped for a link by another sandbox while one starts:
// the mount is where it was meant to be, or there is none.
func TestSwappedTarget(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	h := newHost(t, column{who(), policy.LevelFull})
	mkdir(t, h.inside+"/target", 0o755)
	mkdir(t, h.dir+"/shown", 0o755)
	testkit.Write(t, h.dir+"/shown/mark", "shown", 0o644)
	if err := os.Symlink("/usr/lib", filepath.Join(h.inside, "link")); err != nil {
		t.Fatal(err)
	}
	attacker := h.start(t, h.spec(h.inside, "none"))
	swapping, err := attacker.client.Start(t.Context(), wire.ExecRequest{Argv: []string{attacker.attacker, "swap", "20s", "target", "link"}}, wire.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer swapping.Close()
	spec := h.spec(h.inside, "none")
	spec.Mounts = append(spec.Mounts, policy.Mount{Source: h.dir + "/shown", Target: spaceInside + "/target"})
	started, refused := 0, 0
	for range 30 {
		b, err := h.tryStart(t, spec)
		if err != nil {
			refused++
			continue
		}
		started++
		got, err := h.attack(t.Context(), b, []string{"read", "/usr/lib/mark"})
		if err != nil || got == succeeded {
			t.Fatalf("mounted over /usr/lib: %s, %v", got, err)
		}
		if _, err := b.Stop(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d sandboxes started, %d were refused", started, refused)
	if refused == 0 {
		t.Log("the swap was never met")
	}
}

// A protected path is swapped for a link that leads elsewhere: what is shown
// there is what the sandbox has of its own, and nothing of the host's becomes writable.
func TestSwappedProtection(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	h := newHost(t, column{who(), policy.LevelFull})
	if err := os.Symlink(h.dir, filepath.Join(h.inside, ".git", "link")); err != nil {
		t.Fatal(err)
	}
	spec := h.spec(h.inside, "none")
	spec.Workspace.Unprotected = []string{"*"} // so that the attacker may swap at all
	attacker := h.start(t, spec)
	swapping, err := attacker.client.Start(t.Context(), wire.ExecRequest{Argv: []string{attacker.attacker, "swap", "20s", ".git/hooks", ".git/link"}}, wire.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer swapping.Close()
	for range 20 {
		b, err := h.tryStart(t, h.spec(h.inside, "none"))
		if err != nil {
			continue
		}
		for _, args := range [][]string{{"read", "{canary}"}, {"read", "{ws}/.git/hooks/canary"}, {"append", "{canary}"}} {
			if got, err := h.attack(t.Context(), b, args); err != nil || got == succeeded {
				t.Fatalf("%v: %s, %v", args, got, err)
			}
		}
		if _, err := b.Stop(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// The number of a command that has ended is given to another one, which
// nobody takes for it.
func TestNumberUsedAgain(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may choose the next number")
	}
	if _, err := os.Stat("/proc/sys/kernel/ns_last_pid"); err != nil {
		t.Skip("the kernel has no /proc/sys/kernel/ns_last_pid")
	}
	h := newHost(t, column{who(), policy.LevelFull})
	b := h.start(t, h.spec(h.inside, "none"))
	first, err := b.client.Start(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sleep", "1000"}}, wire.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	host := childrenOf(t, b.agent)
	inside := innerNumber(t, host[len(host)-1])
	if err := first.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
	if res, err := first.Wait(); err != nil || res.Signal != "SIGKILL" {
		t.Fatalf("%+v, %v", res, err)
	}
	chooseNext(t, host[0], inside)
	second, err := b.client.Start(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "sleep 1000"}}, wire.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	host = childrenOf(t, b.agent)
	if got := innerNumber(t, host[len(host)-1]); got != inside {
		t.Fatalf("the second command has number %d, and the first had %d", got, inside)
	}
	_ = first.Signal("KILL")
	_ = first.Close()
	if res, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: osstring.String("kill -0 " + strconv.Itoa(inside))}); err != nil || res.ExitCode != 0 {
		t.Errorf("the second command is gone: %+v, %v", res, err)
	}
	if err := second.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if res, err := second.Wait(); err != nil || res.Signal != "SIGTERM" || !res.DeathProved {
		t.Errorf("%+v, %v", res, err)
	}
}

// childrenOf lists the children of a process, the commands' init first.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var pids []int
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may be gone by now
		for _, field := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				pids = append(pids, n)
			}
		}
	}
	slices.Sort(pids)
	if len(pids) == 0 {
		t.Fatal("the agent has no children")
	}
	return pids
}

// innerNumber is what a process is called in the innermost pid namespace.
func innerNumber(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "NSpid:" {
			n, _ := strconv.Atoi(fields[len(fields)-1])
			return n
		}
	}
	t.Fatal("the kernel does not tell the numbers of inner namespaces")
	return 0
}

// chooseNext makes a number the next that is given in a pid namespace.
func chooseNext(t *testing.T, init, number int) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine
		failed <- func() error {
			fd, err := unix.PidfdOpen(init, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWPID); err != nil {
				return err
			}
			// This takes one number itself, and is gone before the next is given.
			return exec.Command("/bin/sh", "-c", "echo "+strconv.Itoa(number-1)+" > /proc/sys/kernel/ns_last_pid").Run()
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}
