package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The processes in groups are this test program, with a role: in the small virtual
// machines in which the tests run, there may be no other program.
const roleEnv = "PADDOCK_CGROUP_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		name, arg, _ := strings.Cut(role, " ")
		os.Exit(roles[name](arg))
	}
	existed := placeExists()
	code := m.Run()
	if !existed {
		code = max(code, removePlace())
	}
	os.Exit(code)
}

func placeExists() bool {
	p, err := ProbeDelegate()
	if err != nil {
		return true
	}
	_, err = os.Stat(p.Dir)
	return err == nil
}

func removePlace() int {
	p, err := ProbeDelegate()
	if err == nil {
		err = os.Remove(p.Dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parent opens this process's own group, in which tests make theirs.
func parent(t testing.TB) *Group {
	t.Helper()
	dir, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	g, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func ownDir() (string, error) {
	m, err := Find()
	if err != nil {
		return "", err
	}
	own, err := Own()
	if err != nil {
		return "", err
	}
	dir, err := m.Dir(own)
	if err == nil && !writable(dir) {
		err = errors.New("permission denied")
	}
	return dir, err
}

// fresh makes a group without controllers, which the test's end kills and removes.
func fresh(t testing.TB) *Group {
	t.Helper()
	return freshIn(t, parent(t))
}

func freshIn(t testing.TB, parent *Group) *Group {
	t.Helper()
	name := testName(t)
	g, err := parent.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := errors.Join(g.Kill(), g.WaitEmpty(ctx))
		if err := errors.Join(err, parent.Remove(name), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

var testNames int

func testName(t testing.TB) string {
	testNames++
	return fmt.Sprintf("paddock-test-%d-%d-%s", os.Getpid(), testNames, filepath.Base(t.Name()))
}

// controlled makes a group that has the controllers, in a place for sandboxes.
func controlled(t testing.TB, want ...string) *Group {
	t.Helper()
	p, err := FindDelegate()
	if err != nil {
		t.Skipf("no control groups with controllers here: %v", err)
	}
	if missing := len(intersect(want, p.Controllers)); missing < len(want) {
		t.Skipf("no control groups with controllers here: want %v, have %v", want, p.Controllers)
	}
	place, err := Open(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { place.Close() })
	return freshIn(t, place)
}

// player is a process with a role.
type player struct {
	*exec.Cmd
	said *bufio.Reader
	out  *os.File       // behind said
	in   io.WriteCloser // whose end ends most roles
}

// play starts a process with a role, in a group from its first instruction on.
func play(t testing.TB, g *Group, role string) *player {
	t.Helper()
	p := &player{Cmd: exec.Command("/proc/self/exe")}
	p.Env = []string{roleEnv + "=" + role, "GOMAXPROCS=2"}
	p.Stderr = os.Stderr
	p.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	p.out = out.(*os.File)
	p.said = bufio.NewReader(out)
	return p
}

// hear reads the next line that the process says.
func (p *player) hear(t testing.TB) string {
	t.Helper()
	line, err := p.said.ReadString('\n')
	if err != nil {
		t.Fatalf("a process says no more: %v", err)
	}
	return strings.TrimSpace(line)
}

// keepsStill looks for a while whether the process says something.
func (p *player) keepsStill(t testing.TB) bool {
	t.Helper()
	err := p.out.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.said.Peek(1)
	if err := p.out.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// silence waits until no process is left that could print something.
func (p *player) silence(t testing.TB) {
	t.Helper()
	if rest, err := io.ReadAll(p.said); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v", rest, err)
	}
}
