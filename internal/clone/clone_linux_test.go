package clone

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
