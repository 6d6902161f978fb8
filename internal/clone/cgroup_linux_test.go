package clone

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
)

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
