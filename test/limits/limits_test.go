//go:build linux

// Package limits runs sandboxes under real control groups. It needs a host
// whose cgroup2 hierarchy has controllers: "make test-vm" has one.
package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

var binDir string // where the programs are

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if _, err := cgroup.ProbeDelegate(); err != nil {
		return m.Run() // every test says why it cannot run
	}
	dir, err := os.MkdirTemp("", "paddock-limits-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	binDir = dir
	usual := boxtest.Usual(filepath.Join(dir, "usual"))
	for _, pkg := range []string{"./cmd/paddock", "./cmd/paddock-agent", "./test/limits/hog"} {
		if err != nil {
			break
		}
		build := exec.Command("go", "build", "-buildvcs=false", usual, "-o", filepath.Join(dir, filepath.Base(pkg)), pkg)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// requires skips where the hierarchy lacks a controller.
func requires(t *testing.T, controllers ...string) cgroup.Delegate {
	t.Helper()
	place, err := cgroup.ProbeDelegate()
	if err != nil {
		t.Skipf("no control groups with controllers here: %v", err)
	}
	for _, c := range controllers {
		if !slices.Contains(place.Controllers, c) {
			t.Skipf("the hierarchy lacks the controller %s", c)
		}
	}
	return place
}

// answer is what "paddock run --json" answers, as far as it is looked at here.
type answer struct {
	ExitCode        int              `json:"exit_code"`
	Signal          string           `json:"signal"`
	TimedOut        bool             `json:"timed_out"`
	OOMKilled       bool             `json:"oom_killed"`
	Stdout          string           `json:"stdout"`
	Stderr          string           `json:"stderr"`
	UserCPUMS       int64            `json:"user_cpu_ms"`
	SystemCPUMS     int64            `json:"system_cpu_ms"`
	PeakMemory      int64            `json:"peak_memory_bytes"`
	PeakMemoryFrom  string           `json:"peak_memory_source"`
	ThrottledMS     int64            `json:"throttled_ms"`
	SurvivorsKilled int              `json:"survivors_killed"`
	DeathProved     bool             `json:"death_proved"`
	Denials         []paddock.Denial `json:"denials"`
	Isolation       policy.Isolation `json:"isolation"`
}

// run runs "paddock run --json" and returns what it answers.
func run(t *testing.T, args ...string) answer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), append([]string{"run", "--json", "--ro", binDir + ":/mnt/bin"}, args...)...)
	cmd.Dir = workspace(t)
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+stateDir(t))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var out answer
	if jerr := json.Unmarshal(text, &out); jerr != nil {
		t.Fatalf("%v: %v, %s", args, err, stderr.String())
	}
	return out
}

func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o755)
	}
	return dir
}

func stateDir(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

// open opens a sandbox that ends with the test, and leaves no group behind.
func open(t *testing.T, spec paddock.Spec) *paddock.Sandbox {
	t.Helper()
	place := requires(t)
	spec.Workspace.Source = workspace(t)
	spec.Mounts = []paddock.Mount{{Source: binDir, Target: "/mnt/bin"}}
	s, err := paddock.Open(t.Context(), spec, paddock.Options{Agent: filepath.Join(binDir, "paddock-agent"), StateDir: stateDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(place.Dir, "paddock-"+s.ID())); len(left) > 0 {
			t.Errorf("groups are left: %v", left)
		}
	})
	return s
}

func TestMemory(t *testing.T) {
	requires(t, "memory")
	out := run(t, "--memory", "64MiB", "--", "/mnt/bin/hog", "memory", "200")
	if !out.OOMKilled || out.Signal != "SIGKILL" || out.ExitCode != -9 || !out.DeathProved {
		t.Errorf("200 MiB of 64: %+v", out)
	}
	if out.PeakMemoryFrom != "cgroup" && out.PeakMemoryFrom != "vmhwm_sampled" || out.PeakMemory > 80<<20 {
		t.Errorf("peak: %d by %s", out.PeakMemory, out.PeakMemoryFrom)
	}
	if iso := out.Isolation; iso.Limits["memory"] != "memory.max=64MiB memory.swap.max=0B" || !strings.Contains(iso.Cgroup, "memory") || len(iso.Lost) > 0 {
		t.Errorf("%+v", iso)
	}
	if len(out.Denials) == 0 || out.Denials[0].Layer != "limit" || out.Denials[0].Rule != "memory" {
		t.Errorf("%+v", out.Denials)
	}
	if out := run(t, "--memory", "64MiB", "--", "/mnt/bin/hog", "memory", "20"); out.ExitCode != 0 || out.OOMKilled || out.PeakMemory < 20<<20 {
		t.Errorf("20 MiB of 64: %+v", out)
	}
	// Files in memory count, and shared mappings.
	if out := run(t, "--memory", "64MiB", "--", "/mnt/bin/hog", "files", "200", "/tmp/f"); !out.OOMKilled {
		t.Errorf("200 MiB in /tmp: %+v", out)
	}
}

// What takes a command takes its whole tree, and neither the agent nor others.
func TestMemoryOfOneCommand(t *testing.T) {
	requires(t, "memory")
	s := open(t, paddock.Spec{Limits: paddock.Limits{Memory: 64 << 20}})
	other := s.Command(t.Context(), "/mnt/bin/hog", "wait", "0")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	hungry := s.Command(t.Context(), "/bin/sh", "-c", "/mnt/bin/hog wait 0 & /mnt/bin/hog memory 200; echo survived; wait")
	out, err := hungry.Output()
	if r := hungry.Result(); err == nil || !r.OOMKilled || r.Signal != "SIGKILL" || !r.DeathProved || len(out) > 0 {
		t.Errorf("%q, %+v, %v", out, r, err)
	}
	if out, err := s.Command(t.Context(), "/bin/echo", "alive").Output(); err != nil || string(out) != "alive\n" {
		t.Errorf("afterwards: %q, %v", out, err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Sandbox == nil || stats.Sandbox.OOMKills == nil || *stats.Sandbox.OOMKills < 1 || len(stats.Trees) != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := other.Signal("KILL"); err != nil {
		t.Error(err)
	}
	_ = other.Wait()
}

// What takes a session's shell is told in the answer of the command that met it.
func TestMemoryOfASession(t *testing.T) {
	requires(t, "memory")
	s := open(t, paddock.Spec{Limits: paddock.Limits{Memory: 64 << 20}})
	shell, err := s.OpenSession(t.Context(), paddock.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		command string
		oom     bool
	}{{"true", false}, {"/mnt/bin/hog memory 200", true}, {"false", false}} {
		if tt.command == "false" {
			if err := shell.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r, err := shell.Run(t.Context(), paddock.SessionCommand{Text: tt.command})
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(r.Denials, func(d paddock.Denial) bool { return d.Layer == "limit" && d.Rule == "memory" })
		if r.OOMKilled != tt.oom || named != tt.oom {
			t.Errorf("%s: %+v", tt.command, r)
		}
	}
}

func TestProcesses(t *testing.T) {
	requires(t, "pids")
	out := run(t, "--processes", "40", "--", "/mnt/bin/hog", "forks", "200")
	if out.ExitCode != 1 || !strings.Contains(out.Stdout, "resource temporarily unavailable") && !strings.Contains(out.Stderr, "failed to create new OS thread") {
		t.Errorf("%+v", out)
	}
	if !out.DeathProved || out.SurvivorsKilled == 0 {
		t.Errorf("%+v", out)
	}
	if out.Isolation.Limits["processes"] != "pids.max=40" {
		t.Errorf("%+v", out.Isolation)
	}
}

func TestCPUs(t *testing.T) {
	requires(t, "cpu")
	out := run(t, "--cpus", "0.1", "--", "/mnt/bin/hog", "spin", "1500")
	if used := out.UserCPUMS + out.SystemCPUMS; out.ThrottledMS < 300 || used > 700 {
		t.Errorf("used %d ms, waited %d ms: %+v", used, out.ThrottledMS, out)
	}
}

// The sandbox sees its limits and cannot change them.
func TestLimitsAreSeen(t *testing.T) {
	requires(t, "memory", "pids")
	out := run(t, "--memory", "64MiB", "--memory-high", "48MiB", "--processes", "50", "--", "/bin/sh", "-c", `cd /sys/fs/cgroup
		cat /proc/self/cgroup; cat work/memory.max work/memory.high work/pids.max
		for f in cgroup.procs cgroup.kill cgroup.freeze memory.max pids.max; do for g in . work agent $(sed 's/^0:://' /proc/self/cgroup | tail -c +2); do
			{ echo 0 > $g/$f; } 2>/dev/null && echo "wrote $g/$f"; done; done; mkdir work/own 2>/dev/null && echo made; rmdir work/e2 2>/dev/null; ls /sys; ls`)
	lines := strings.Split(out.Stdout, "\n")
	if len(lines) < 5 || path.Dir(lines[0]) != "0::/work" || !strings.HasPrefix(path.Base(lines[0]), "e") || strings.Join(lines[1:4], " ") != "67108864 50331648 50" ||
		strings.Contains(out.Stdout, "wrote") || strings.Contains(out.Stdout, "made") || lines[4] != "fs" {
		t.Errorf("inside: %s%s", out.Stdout, out.Stderr)
	}
}

// A tree that forks as fast as it can is ended by its timeout, and proved dead.
func TestForkBomb(t *testing.T) {
	requires(t, "pids")
	s := open(t, paddock.Spec{Limits: paddock.Limits{Processes: 500}})
	cmd := s.Command(t.Context(), "/bin/sh", "-c", `b() { b | b & }; b; while :; do b 2>/dev/null; done`)
	cmd.Timeout = time.Second // of the command alone: the sandbox has started
	err := cmd.Run()
	if r := cmd.Result(); !errors.Is(err, paddock.ErrTimeout) || r == nil || !r.TimedOut || !r.DeathProved {
		t.Errorf("%+v, %v", r, err)
	}
}

// What is frozen stands still, and can be killed.
func TestFreeze(t *testing.T) {
	requires(t)
	s := open(t, paddock.Spec{})
	cmd := s.Command(t.Context(), "/bin/sh", "-c", "while :; do echo x; done")
	count := &paddock.Capture{Max: 100}
	cmd.Stdout = count
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := s.Stats(t.Context())
	if err != nil || before.Sandbox == nil || before.Sandbox.UserCPUMS == nil {
		t.Fatalf("%+v, %v", before, err)
	}
	time.Sleep(200 * time.Millisecond) // in which it would use 200 ms
	after, err := s.Stats(t.Context())
	if err != nil || *after.Sandbox.UserCPUMS > *before.Sandbox.UserCPUMS+10 {
		t.Errorf("frozen, it went on: %d ms, then %d ms, %v", *before.Sandbox.UserCPUMS, *after.Sandbox.UserCPUMS, err)
	}
	if err := s.Thaw(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Freeze(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cmd.Signal("KILL"); err != nil {
		t.Error(err)
	}
	var exit *paddock.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Signal != "SIGKILL" {
		t.Errorf("%v", err)
	}
}

// A timeout is kept where the agent is stopped.
func TestStoppedAgent(t *testing.T) {
	place := requires(t)
	s := open(t, paddock.Spec{})
	cmd := s.Command(t.Context(), "/mnt/bin/hog", "wait", "0")
	cmd.Timeout = 300 * time.Millisecond
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids, err := os.ReadFile(filepath.Join(place.Dir, "paddock-"+s.ID(), "agent", "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(pids)) { // the agent, and the commands' init
		n, err := strconv.Atoi(pid)
		if err = errors.Join(err, unix.Kill(n, unix.SIGSTOP)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); !errors.Is(err, paddock.ErrTimeout) || !cmd.Result().DeathProved {
		t.Errorf("%v, %+v", err, cmd.Result())
	}
	<-s.Done()
}

// An ordinary user has what was delegated to it: a subtree above its own group.
func TestDelegated(t *testing.T) {
	requires(t, "memory", "pids")
	if os.Geteuid() != 0 {
		t.Skip("needs root: it delegates a part of the hierarchy")
	}
	const uid = 1234
	m, err := cgroup.Find()
	if err != nil {
		t.Fatal(err)
	}
	top, err := cgroup.Open(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("delegated-%d", os.Getpid())
	group, err := top.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(group.Close(), top.Remove(name), top.Close()); err != nil {
			t.Error(err)
		}
	})
	leaf, err := group.Create("leaf")
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	for _, file := range []string{"", "cgroup.procs", "cgroup.subtree_control", "leaf", "leaf/cgroup.procs", "leaf/cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(m.Path, name, file), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	ws := workspace(t)
	if err := os.Chown(ws, uid, uid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, "paddock"), "run", "--workspace", ws, "--json", "--memory", "64MiB", "--ro", binDir+":/mnt/bin", "--", "/mnt/bin/hog", "memory", "200")
	cmd.Dir = ws
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ws, "PADDOCK_STATE_DIR=" + ws + "/.state"}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: leaf.FD(), Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var out answer
	if jerr := json.Unmarshal(text, &out); jerr != nil {
		t.Fatalf("%v, %s", err, stderr.String())
	}
	if !out.OOMKilled || out.Isolation.UIDHost != uid || out.Isolation.Limits["memory"] == "" {
		t.Errorf("%+v", out)
	}
}
