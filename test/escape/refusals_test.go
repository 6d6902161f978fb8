//go:build linux

package escape

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// cannotStart is the exit status where paddock itself fails.
const cannotStart = 125

// paddock runs the program over a workspace of the host's, on the host's side.
func (h *host) paddock(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(h.programs, "paddock"), append([]string{"run"}, args...)...)
	cmd.Dir = h.inside
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+h.state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// copyPrograms makes programs of the identity that the landlock level wants
// of all that is named.
func (h *host) copyPrograms(t *testing.T) {
	t.Helper()
	h.programs = filepath.Join(h.dir, "programs")
	mkdir(t, h.programs, 0o755)
	for _, name := range []string{"paddock", "paddock-agent"} {
		text, err := os.ReadFile(filepath.Join(binDir, name))
		if err != nil {
			t.Fatal(err)
		}
		testkit.Write(t, filepath.Join(h.programs, name), string(text), 0o755)
	}
	h.lend(t)
}

// said is how a program ended: its status and what it printed.
func said(t *testing.T, cmd *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if failed := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(failed)
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// refusal is a sandbox that cannot be had.
type refusal struct {
	name string
	args []string
	says []string // on standard error
}

func (h *host) refused(t *testing.T, rows []refusal) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			args := append(h.expand(r.args), "--", "/bin/echo", "it runs")
			status, stdout, stderr := said(t, h.paddock(t, args...))
			if status != cannotStart || stdout != "" {
				t.Errorf("status %d: %s%s", status, stdout, stderr)
			}
			for _, text := range r.says {
				if !strings.Contains(stderr, text) {
					t.Errorf("it does not say %q: %s", text, stderr)
				}
			}
		})
	}
}

// What makes no sense together, or cannot be kept here, is refused before
// anything is started, with what to do about it.
func TestRefusedSpecs(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	h := newHost(t, column{who(), policy.LevelFull})
	spec := filepath.Join(h.dir, "spec.yaml")
	testkit.Write(t, spec, "workspace: {access: ro}\n", 0o644)
	h.values = append(h.values, "{spec}", spec)
	h.refused(t, []refusal{
		{"swap without memory", []string{"--swap", "1MiB"}, []string{"--swap", "give --memory too"}},
		{"more high than memory", []string{"--memory", "64MiB", "--memory-high", "65MiB"}, []string{"--memory-high", "more than --memory"}},
		{"memory below what a program takes", []string{"--memory", "1MiB"}, []string{"--memory", "less than"}},
		{"more memory than the host has", []string{"--memory", "1000000GiB"}, []string{"--memory", "this host has"}},
		{"more processors than the host has", []string{"--cpus", "100000"}, []string{"--cpus", "this process may use"}},
		{"no processes", []string{"--processes", "0"}, []string{"processes"}},
		{"fewer processes than the agent takes", []string{"--processes", "3"}, []string{"--processes"}},
		{"no memory", []string{"--memory", "0"}, []string{"memory"}},
		{"a disk that cannot be bounded", []string{"--disk", "64MiB"}, []string{"--disk", "--allow-degraded=disk"}},
		{"a copy that is read-only", []string{"--workspace-mode", "copy", "--spec", "{spec}"}, []string{"workspace.access", "use mode bind"}},
		{"a level that does not exist", []string{"--level", "none"}, []string{"none"}},
		{"a degradation that does not exist", []string{"--allow-degraded", "walls"}, []string{"walls"}},
		{"the state as workspace", []string{"--workspace", h.state}, []string{"Paddock's own state"}},
		{"the host's root", []string{"--workspace", "/"}, []string{"--workspace"}},
		{"the kernel's files", []string{"--workspace", "/proc"}, []string{"belongs to the kernel"}},
		{"the host's root as root file system", []string{"--rootfs", "/"}, []string{"rootfs"}},
		{"a root file system that commands can change", []string{"--rootfs", h.inside}, []string{"rootfs"}},
	})
}

func TestRefusedByTheLandlockLevel(t *testing.T) {
	requireWalls(t, policy.LevelLandlock)
	h := newHost(t, column{who(), policy.LevelLandlock})
	h.copyPrograms(t)
	level := func(args ...string) []string { return append([]string{"--level", "landlock"}, args...) }
	h.refused(t, []refusal{
		{"a name", level("--hostname", "x"), []string{"hostname", "use level full"}},
		{"a copy", level("--workspace-mode", "copy"), []string{"--workspace-mode", "use level full"}},
		{"another root", level("--rootfs", "/opt"), []string{"rootfs", "use level full"}},
		{"a mount elsewhere", level("--ro", h.tools+":/mnt/x"), []string{"target", "use level full"}},
		{"a bound of temporary files", level("--tmp", "16MiB"), []string{"--tmp", "use level full"}},
		{"the state in the workspace", level("--allow-degraded=identity", "--workspace", filepath.Dir(h.state)), []string{"Paddock's own state", "PADDOCK_STATE_DIR"}},
		{"the programs in what is writable", level("--rw", h.programs), []string{"commands could change", "Paddock's own program", "use level full"}},
	})
}

// Groups that cannot be made are no reason to run without what they bound.
func TestReadOnlyControlGroups(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may change the mount")
	}
	h := newHost(t, column{who(), policy.LevelFull})
	mount := cgroupMount()
	if _, err := os.Stat(mount + "/cgroup.procs"); err != nil {
		t.Skip("there are no control groups here: " + err.Error())
	}
	behind := func(args ...string) *exec.Cmd {
		cmd := h.paddock(t, args...)
		script := `mount -o remount,bind,ro "$0" && ! mkdir "$0"/probe 2>/dev/null && exec "$@"`
		cmd.Args = append([]string{"/bin/sh", "-c", script, mount, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
		return cmd
	}
	status, stdout, stderr := said(t, behind("--memory", "64MiB", "--", "/bin/echo", "it runs"))
	if status != cannotStart || stdout != "" || !strings.Contains(stderr, "--allow-degraded=memory") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	for _, args := range [][]string{{"--"}, {"--memory", "64MiB", "--allow-degraded=memory", "--"}} {
		if status, stdout, stderr := said(t, behind(append(args, "/bin/echo", "it runs")...)); status != 0 || stdout != "it runs\n" {
			t.Errorf("%v: status %d: %s%s", args, status, stdout, stderr)
		}
	}
}

// What the host has mounted below a workspace is refused behind walls that
// cannot make it read-only, unless it is read-only as it is.
func TestMountsBelow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may mount")
	}
	requireWalls(t, policy.LevelFull) // where namespaces can be had, mounts can be made
	requireWalls(t, policy.LevelLandlock)
	h := newHost(t, column{who(), policy.LevelLandlock})
	h.copyPrograms(t)
	below := filepath.Join(h.inside, "below")
	mkdir(t, below, 0o755)
	for name, args := range map[string][]string{"a wrapper": {"--wrapper", "env"}, "the landlock level": {"--level", "landlock"}} {
		for _, tt := range []struct {
			name, prepare string
			refused       bool
		}{
			{"nothing", `:`, false},
			{"a mount", `mount -t tmpfs none "$0"`, true},
			{"a mount that is read-only", `mount -t tmpfs -o ro none "$0"`, false},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				cmd := h.paddock(t, append(args, "--", "/bin/echo", "it runs")...)
				cmd.Args = append([]string{"/bin/sh", "-c", tt.prepare + ` && exec "$@"`, below, cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
				cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
				status, stdout, stderr := said(t, cmd)
				if tt.refused && (status != cannotStart || stdout != "" || !strings.Contains(stderr, below+" is a mount of the host below it") || !strings.Contains(stderr, "--rw "+below)) {
					t.Errorf("status %d: %s%s", status, stdout, stderr)
				}
				if !tt.refused && (status != 0 || stdout != "it runs\n") {
					t.Errorf("status %d: %s%s", status, stdout, stderr)
				}
			})
		}
	}
}

// Inside a sandbox there are no namespaces to be had. Level full says so, and
// names the level that does without.
func TestNested(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	h := newHost(t, column{who(), policy.LevelFull})
	nested := func(args ...string) (int, string, string) {
		return said(t, h.paddock(t, append([]string{"--ro", binDir + ":/mnt/bin", "--", "/mnt/bin/paddock", "run"}, args...)...))
	}
	status, stdout, stderr := nested("--", "/bin/echo", "it runs")
	if status != cannotStart || stdout != "" || !strings.Contains(stderr, "paddock: hint: ") || !strings.Contains(stderr, "--level landlock") {
		t.Errorf("level full: status %d: %s%s", status, stdout, stderr)
	}
	requireWalls(t, policy.LevelLandlock)
	for _, how := range []string{"--level=landlock", "--allow-degraded=namespaces"} {
		status, stdout, stderr = nested(how, "--", "/bin/sh", "-c", "kill -9 -1; cat /workspace/own.txt; cat /etc/passwd > /tmp/x; echo done")
		if status != 0 || stdout != "the workspace'sdone\n" || !strings.Contains(stderr, "paddock: not kept: ") {
			t.Errorf("%s: status %d: %s%s", how, status, stdout, stderr)
		}
	}
}

// Inside the landlock level there is not even the socket on which an agent
// could be spoken to.
func TestNestedInLandlock(t *testing.T) {
	requireWalls(t, policy.LevelLandlock)
	h := newHost(t, column{who(), policy.LevelLandlock})
	h.copyPrograms(t)
	for _, level := range []string{"full", "landlock"} {
		status, stdout, stderr := said(t, h.paddock(t, "--level", "landlock", "--ro", h.programs, "--",
			filepath.Join(h.programs, "paddock"), "run", "--level", level, "--", "/bin/echo", "it runs"))
		if status != cannotStart || stdout != "" || !strings.Contains(stderr, "listen on agent.sock: permission denied") {
			t.Errorf("level %s: status %d: %s%s", level, status, stdout, stderr)
		}
	}
}
