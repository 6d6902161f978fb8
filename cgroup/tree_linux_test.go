package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree opens the hierarchy, and makes a group in it for the test, through the
// tree alone; rel is its place.
func tree(t *testing.T) (tr *Tree, rel string) {
	t.Helper()
	own, err := ownDir()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	tr, err = OpenTree()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	rel, err = tr.Resolve(own + "/" + testName(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Mkdir(rel, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Rmdir(rel); err != nil {
			t.Error(err)
		}
	})
	return tr, rel
}

// sleeper returns a process that is not part of Paddock. It waits until the kernel says so,
// too: in a loaded virtual machine with Linux 6.12 a process that has just been started still
// showed the program of its parent.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	exe := fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(exe); err == nil && !os.SameFile(own, info) {
			return cmd.Process.Pid
		}
		if time.Now().After(deadline) {
			text, err := os.Readlink(exe)
			t.Fatalf("sleep is shown as %s (%v)", text, err)
		}
	}
}

func TestTree(t *testing.T) {
	tr, rel := tree(t)
	inner := rel + "/a/b/c"
	if err := tr.Mkdir(inner, false); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without parents: %v", err)
	}
	for range 2 { // the second finds it there
		if err := tr.Mkdir(inner, true); err != nil {
			t.Fatal(err)
		}
	}
	pid := sleeper(t)
	if err := tr.Move(inner, pid); err != nil {
		t.Fatal(err)
	}
	if text, more, err := tr.Read(inner+"/cgroup.procs", 100); string(text) != strconv.Itoa(pid)+"\n" || more || err != nil {
		t.Errorf("%q, %v, %v", text, more, err)
	}
	if text, more, err := tr.Read(inner+"/cgroup.procs", 1); len(text) != 1 || !more || err != nil {
		t.Errorf("one byte: %q, %v, %v", text, more, err)
	}
	for _, dir := range []string{inner, rel + "/a/b", rel + "/a"} {
		if err := tr.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			t.Errorf("a group in use: %v", err)
		}
	}
	// To the kernel, which is not asked, a number that begins with 0 is octal.
	if err := tr.Write(rel+"/a/cgroup.procs", fmt.Sprintf("0%d", pid)); err != nil {
		t.Errorf("a number with a zero before it: %v", err)
	}
	if text, _, err := tr.Read(rel+"/a/cgroup.procs", 100); string(text) != strconv.Itoa(pid)+"\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := tr.Write(rel+"/a/cgroup.procs", fmt.Sprintf("%d\n", pid)); err != nil {
		t.Error(err)
	}
	if err := tr.Write(rel+"/a/cgroup.kill", "1"); err != nil {
		t.Error(err)
	}
	a, err := tr.Group(rel + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{inner, rel + "/a/b", rel + "/a"} {
		if err := tr.Rmdir(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestTreePaths(t *testing.T) {
	tr := &Tree{mount: Mount{Path: t.TempDir()}}
	mount := tr.mount.Path
	link := filepath.Join(t.TempDir(), "link")
	away := filepath.Join(t.TempDir(), "away")
	loop := filepath.Join(t.TempDir(), "loop")
	if err := errors.Join(os.Symlink(mount, link), os.Symlink("/etc", away), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	outside := "Path must be under cgroup mount " + mount + "."
	for _, tt := range []struct{ path, want, wantErr string }{
		{"", "", "Empty path."},
		{" \t\n", "", "Empty path."},
		{"a", "a", ""},
		{" a/b/ ", "a/b", ""},
		{".", ".", ""},
		{"a/..", ".", ""},
		{"a/../b", "b", ""},
		{mount, ".", ""},
		{mount + "/", ".", ""},
		{mount + "//a/./b", "a/b", ""},
		{link + "/a", "a", ""},
		{link, ".", ""},
		{"..", "", outside},
		{"../x", "", outside},
		{"a/../../x", "", outside},
		{mount + "x", "", outside},
		{mount + "/..", "", outside},
		{mount + "/../etc/passwd", "", outside},
		{"/", "", outside},
		{"/etc/passwd", "", outside},
		{away + "/passwd", "", outside},
		{link + "/../x", "", outside},
		{"/nonexistent/../" + strings.TrimPrefix(mount, "/"), ".", ""},
		{loop, "", "Could not resolve path: "},
		{"a\x00b", "", "Could not resolve path: it holds a NUL byte"},
	} {
		got, err := tr.Resolve(tt.path)
		if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.HasPrefix(err.Error(), tt.wantErr) {
			t.Errorf("%q is %q, %v; want %q, %q", tt.path, got, err, tt.want, tt.wantErr)
		}
		if place := (*PathError)(nil); err != nil && !errors.As(err, &place) {
			t.Errorf("%q: %T", tt.path, err)
		}
	}
}

// On a host with version 1 beside, names that nothing has there are the hierarchy's.
func TestTreeUsualPath(t *testing.T) {
	entries, err := os.ReadDir(usualMount)
	if err != nil || len(entries) == 0 {
		t.Skipf("no control groups here: %v", err)
	}
	tr := &Tree{mount: Mount{Path: usualMount + "/elsewhere"}}
	if rel, err := tr.Resolve(usualMount + "/paddock-no-such/x"); rel != "paddock-no-such/x" || err != nil {
		t.Errorf("%q, %v", rel, err)
	}
	taken := usualMount + "/" + entries[0].Name()
	var place *PathError
	if _, err := tr.Resolve(taken); !errors.As(err, &place) || !strings.Contains(place.Hint, taken) {
		t.Errorf("%v", err)
	}
}

func TestTreeGuards(t *testing.T) {
	tr, rel := tree(t)
	pid := strconv.Itoa
	own, _ := ownDir()
	ownRel, err := tr.Resolve(own)
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"limits of the root":        func() error { return tr.Write("memory.max", "1") },
		"the root's end":            func() error { return tr.Write("cgroup.kill", "1") },
		"the root's stillness":      func() error { return tr.Write("cgroup.freeze", "1") },
		"processes of the root":     func() error { return tr.Write("cgroup.procs", "1") },
		"its own group":             func() error { return tr.Write(ownRel+"/cgroup.freeze", "1") },
		"its own group's end":       func() error { return tr.Rmdir(ownRel) },
		"the mount":                 func() error { return tr.Rmdir(".") },
		"process 1":                 func() error { return tr.Move(rel, 1) },
		"process 1 by a write":      func() error { return tr.Write(rel+"/cgroup.procs", " 1\n") },
		"itself":                    func() error { return tr.Move(rel, os.Getpid()) },
		"itself by a thread":        func() error { return tr.Move(rel, unix.Gettid()) },
		"a thread of itself":        func() error { return tr.Write(rel+"/cgroup.threads", pid(unix.Gettid())) },
		"its parent":                func() error { return tr.Move(rel, os.Getppid()) },
		"another process like this": func() error { return tr.Move(rel, play(t, freshIn(t, parent(t)), "wait").Process.Pid) },
	} {
		var guarded *GuardError
		if err := try(); !errors.As(err, &guarded) || !strings.HasPrefix(guarded.Error(), "Refusing to ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, try := range map[string]func() error{
		"whoever writes":             func() error { return tr.Write(rel+"/cgroup.procs", "0") },
		"a negative number":          func() error { return tr.Move(rel, -1) },
		"no number":                  func() error { return tr.Write(rel+"/cgroup.procs", "x") },
		"two numbers":                func() error { return tr.Write(rel+"/cgroup.procs", "2 3") },
		"a number and another line":  func() error { return tr.Write(rel+"/cgroup.procs", "2\n1") },
		"a file that does not exist": func() error { return tr.Write(rel+"/new", "x") },
		"a group":                    func() error { return tr.Write(rel, "x") },
		"a group named as a file":    func() error { return tr.Mkdir(rel+"/cgroup.procs", true) },
		"a group below a file":       func() error { return tr.Mkdir(rel+"/cgroup.procs/x", true) },
		"the end of a file":          func() error { return tr.Rmdir(rel + "/cgroup.procs") },
		"nobody":                     func() error { return tr.Move(rel, 1<<22+1) },
	} {
		if err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if pids, _, err := tr.Read(rel+"/cgroup.procs", 100); len(pids) != 0 || err != nil {
		t.Errorf("somebody was moved: %q, %v", pids, err)
	}
	if _, err := os.Lstat(tr.Path(rel + "/new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestTreeLimits(t *testing.T) {
	tr, rel := tree(t)
	g, err := tr.Group(rel)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	have, err := g.Controllers()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(have, "memory") {
		if err := tr.Write(rel+"/memory.max", "64M"); err != nil {
			t.Error(err)
		}
		if text, _, err := tr.Read(rel+"/memory.max", 100); string(text) != "67108864\n" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		return
	}
	var e *Error
	for _, try := range []error{tr.Write(rel+"/memory.max", "64M"), tr.Write(rel+"/cgroup.subtree_control", "+memory")} {
		if !errors.Is(try, ErrNoController) || !errors.As(try, &e) || e.Hint == "" {
			t.Errorf("without the controller: %v", try)
		}
	}
}

// A group that delegates controllers cannot hold processes, and the other way round.
func TestTreeInternalProcesses(t *testing.T) {
	controlled(t, "memory") // or skip
	tr, err := OpenTree()
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	place, err := FindDelegate()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := tr.Resolve(place.Dir + "/" + testName(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Mkdir(rel+"/inner", true); err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t)
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		if g, err := tr.Group(rel); err == nil {
			_ = g.WaitEmpty(t.Context())
			g.Close()
		}
		if err := errors.Join(tr.Rmdir(rel+"/inner"), tr.Rmdir(rel)); err != nil {
			t.Error(err)
		}
	}()
	if err := tr.Move(rel, pid); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if err := tr.Write(rel+"/cgroup.subtree_control", "+memory"); !errors.As(err, &e) || e.Hint == "" || !errors.Is(err, unix.EBUSY) {
		t.Errorf("handing on: %v", err)
	}
	if err := errors.Join(tr.Move(rel+"/inner", pid), tr.Write(rel+"/cgroup.subtree_control", "+memory")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Move(rel, pid); !errors.As(err, &e) || e.Hint == "" || !errors.Is(err, unix.EBUSY) {
		t.Errorf("moving: %v", err)
	}
}

// What does not answer is not waited for.
func TestTreeSlow(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	_, err = inTime(fd, time.Millisecond, func() (int, error) { return unix.Read(fd, make([]byte, 1)) })
	if !errors.Is(err, errSlow) {
		t.Errorf("%v", err)
	}
}

// A file system mounted over a group is not part of the hierarchy.
func TestTreeMountOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount over a group")
	}
	tr, rel := tree(t)
	play(t, parent(t), "cover "+tr.Path(rel)).verify(t)
}

func (p *player) verify(t *testing.T) {
	t.Helper()
	if got := p.hear(t); got != "refused" {
		t.Error(got)
	}
}

// cover mounts over a group, in its own mount namespace.
func cover(dir string) int {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	}
	if err == nil {
		err = os.WriteFile(dir+"/cgroup.procs", []byte("secret"), 0o600)
	}
	tr, err2 := OpenTree()
	if err := errors.Join(err, err2); err != nil {
		fmt.Println(err)
		return 1
	}
	rel, _ := tr.Resolve(dir)
	_, _, err1 := tr.Read(rel+"/cgroup.procs", 10)
	if err2 = tr.Write(rel+"/cgroup.freeze", "1"); err1 == nil || err2 == nil || tr.Mkdir(rel+"/x", true) == nil {
		fmt.Println("not refused:", err1, err2)
		return 1
	}
	fmt.Println("refused")
	return 0
}
