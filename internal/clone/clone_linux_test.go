package clone

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
)

func spawn(t *testing.T, c Command) (stdout string, status syscall.WaitStatus, err error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Files = []int{int(null.Fd()), int(w.Fd()), int(w.Fd())}
	if c.Dir == "" {
		c.Dir = "/"
	}
	child, err := Begin(&c, 0, false)
	w.Close()
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(child.PIDFD)
	err = child.Wait()
	out, _ := io.ReadAll(r)
	if _, werr := syscall.Wait4(child.PID, &status, 0, nil); werr != nil {
		t.Fatal(werr)
	}
	if err != nil {
		return "", 0, err
	}
	return string(out), status, nil
}

func TestBeginState(t *testing.T) {
	out, status, err := spawn(t, Command{
		Path: "/bin/sh",
		Argv: []string{"sh", "-c", `umask; pwd; ulimit -n; ulimit -c; ls /proc/self/fd | wc -l; grep -E 'Cap(Inh|Prm|Eff|Amb)|SigIgn|SigBlk' /proc/self/status; exit 7`},
		Env:  []string{"PATH=/usr/bin:/bin"}, Dir: "/usr", Umask: 0o27,
		Rlimits: []Rlimit{
			{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 99, Max: 99}},
			{unix.RLIMIT_CORE, unix.Rlimit{}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if status.ExitStatus() != 7 {
		t.Errorf("exit status = %d, want 7", status.ExitStatus())
	}
	want := []string{"0027", "/usr", "99", "0", "4"}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, w := range want {
		if i >= len(lines) || lines[i] != w {
			t.Fatalf("line %d of %q: want %q", i, lines, w)
		}
	}
	for _, l := range lines[len(want):] {
		name, value, _ := strings.Cut(l, ":\t")
		if os.Getuid() == 0 && (name == "CapPrm" || name == "CapEff") {
			continue // execve gives uid 0 of a user namespace its capabilities back
		}
		if strings.Trim(value, "0") != "" {
			t.Errorf("%s is %s in the child, want none", name, value)
		}
	}
}

// A handle of the directory counts, whatever its name leads to.
func TestBeginInHandle(t *testing.T) {
	dir, err := os.Open("/usr")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	out, _, err := spawn(t, Command{Path: "/bin/pwd", Argv: []string{"pwd", "-P"}, Dir: "/nonexistent", DirFD: int(dir.Fd())})
	if err != nil || out != "/usr\n" {
		t.Errorf("it began in %q, %v", out, err)
	}
}

func TestBeginErrors(t *testing.T) {
	tests := map[string]struct {
		c     Command
		stage Stage
		errno syscall.Errno
	}{
		"missing program":    {Command{Path: "/nonexistent", Argv: []string{"x"}}, StageExec, syscall.ENOENT},
		"not executable":     {Command{Path: "/etc/passwd", Argv: []string{"x"}}, StageExec, syscall.EACCES},
		"missing directory":  {Command{Path: "/bin/true", Argv: []string{"x"}, Dir: "/nonexistent"}, StageDir, syscall.ENOENT},
		"no directory":       {Command{Path: "/bin/true", Argv: []string{"x"}, DirFD: 1 << 20}, StageDir, syscall.EBADF},
		"no terminal":        {Command{Path: "/bin/true", Argv: []string{"x"}, TTY: true}, StageTerminal, syscall.ENOTTY},
		"NUL in an argument": {Command{Path: "/bin/true", Argv: []string{"x\x00y"}}, StageExec, syscall.EINVAL},
		"bad limit": {Command{Path: "/bin/true", Argv: []string{"x"}, Rlimits: []Rlimit{
			{unix.RLIMIT_CORE, unix.Rlimit{Cur: 2, Max: 1}},
		}}, StageRlimit, syscall.EINVAL},
		"too many arguments": {Command{Path: "/bin/true", Argv: []string{"x", strings.Repeat("y", 200_000)}}, StageExec, syscall.E2BIG},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := spawn(t, tt.c)
			var e *Error
			if !errors.As(err, &e) || e.Stage != tt.stage || e.Errno != tt.errno {
				t.Errorf("got %v, want %v: %v", err, tt.stage, tt.errno)
			}
		})
	}
}

// startTrue starts /bin/true by way of Run.
func startTrue(between func(int) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	child, err := Run(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/",
		Files: []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}}, 0, between)
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	_, err = syscall.Wait4(child.PID, &status, 0, nil)
	_ = unix.Close(child.PIDFD)
	if err == nil && status.ExitStatus() != 0 {
		err = errors.New("true is false")
	}
	return err
}

func TestRunErrors(t *testing.T) {
	mine := errors.New("mine")
	if err := startTrue(func(int) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("an error between: got %v", err)
	}
	_, err := Run(&Command{Path: "/nonexistent", Argv: []string{"x"}}, 0, func(int) error { return nil })
	var e *Error
	if !errors.As(err, &e) || e.Stage != StageExec || e.Errno != syscall.ENOENT {
		t.Errorf("a missing program: got %v", err)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %v", err)
	}
}

// TestRunStress starts children on stacks of their own while the parent
// allocates, collects and takes signals: what either did to the other's
// memory would show here.
func TestRunStress(t *testing.T) {
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			for range 40 {
				garbage := make([][]byte, 0, 64)
				err := startTrue(func(int) error {
					for range 64 {
						garbage = append(garbage, make([]byte, 4096))
					}
					runtime.GC()
					return nil
				})
				if err != nil || len(garbage) != 64 {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestIdle(t *testing.T) {
	p, err := Idle(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID, 0); err != nil {
		t.Errorf("the process is not there: %v", err)
	}
	p.End()
	if err := syscall.Kill(p.PID, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
}

// TestStopped stops a child on its way: its parent goes on, and can end it.
func TestStopped(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := Begin(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/"}, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PidfdSendSignal(child.PIDFD, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // a parent that stood still could not
	if err := unix.PidfdSendSignal(child.PIDFD, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("killed on its way: %v", err)
	}
	child.End()
}

// group makes a control group of the test's own, which needs no controller.
func group(t *testing.T) *cgroup.Group {
	t.Helper()
	m, err := cgroup.Find()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := m.Dir(own)
	if err != nil {
		t.Fatal(err)
	}
	parent, err := cgroup.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("paddock-test-%d", os.Getpid())
	g, err := parent.Create(name)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) {
		t.Skipf("control groups need root here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), parent.Remove(name), parent.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A child begins its life in the group, and keeps the rest of its state.
func TestBeginInGroup(t *testing.T) {
	g := group(t)
	for range 20 {
		out, status, err := spawn(t, Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "cat /proc/self/cgroup; umask; exit 7"},
			Env: []string{"PATH=/usr/bin:/bin"}, Umask: 0o27, Cgroup: g.FD()})
		if err != nil || status.ExitStatus() != 7 || !strings.Contains(out, "/"+g.Name()+"\n") || !strings.Contains(out, "0027") {
			t.Fatalf("%q, %v, %v", out, status, err)
		}
	}
	if pids, err := g.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("%v, %v", pids, err)
	}
}

func TestBeginInNoGroup(t *testing.T) {
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, _, err = spawn(t, Command{Path: "/bin/true", Argv: []string{"true"}, Cgroup: int(dir.Fd())})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Stage != StageClone || e.Errno != unix.EBADF {
		t.Errorf("%v", err)
	}
}

// The filter holds in the program, and not in the caller.
func TestBeginBehindFilter(t *testing.T) {
	deny := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_UNAME},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	out, status, err := spawn(t, Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "uname -s || echo refused"},
		Env: []string{"PATH=/usr/bin:/bin"}, Filter: deny, DieWithThread: true})
	var failed *Error
	if errors.As(err, &failed) && failed.Stage == StageFilter && failed.Errno == unix.EACCES {
		t.Skip("a filter needs root or no_new_privs")
	}
	if err != nil || !strings.Contains(out, "refused") {
		t.Errorf("%q, %v, %v", out, status, err)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Error(err)
	}
}

// A program has room for as many descriptors as it was given, and holds none for that.
func TestRoom(t *testing.T) {
	size := func(room int) int {
		t.Helper()
		out, _, err := spawn(t, Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "grep FDSize /proc/$$/status; ls /proc/$$/fd"}, Room: room})
		fields := strings.Fields(out)
		if err != nil || len(fields) < 2 || slices.Contains(fields, strconv.Itoa(room-1)) {
			t.Fatalf("with room for %d: %q, %v", room, out, err)
		}
		n, _ := strconv.Atoi(fields[1])
		return n
	}
	room := 4 * size(0)
	if got := size(room); got < room {
		t.Errorf("there is room for %d descriptors, want %d", got, room)
	}
}

// The program may be open at the number up to which there is to be room.
func TestRoomAtProgram(t *testing.T) {
	sh, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	const room = 200
	at, err := unix.FcntlInt(sh.Fd(), unix.F_DUPFD_CLOEXEC, room-1)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	out, _, err := spawn(t, Command{Path: "/proc/self/fd/" + strconv.Itoa(at), Argv: []string{"sh", "-c", "echo here"}, Room: at + 1})
	if err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
