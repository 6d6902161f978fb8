//go:build linux

package linux

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// abandon makes a sandbox's directory as a killed owner leaves it.
func abandon(t *testing.T, root, id string, r *record, age time.Duration) string {
	t.Helper()
	dir := filepath.Join(root, "sandboxes", id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "state.json"), string(text))
	}
	old := time.Now().Add(-age)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	return dir
}

func lend(t *testing.T, root string, uid uint32, id string, age time.Duration) string {
	t.Helper()
	path := idFile(root, uid)
	writeFile(t, path, id+"\n")
	old := time.Now().Add(-age)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	const first = lentFirst
	gone := []string{
		abandon(t, root, "pd-dead", &record{PID: 1 << 30, Start: 1, UID: first + 1}, 0),
		lend(t, root, first+1, "pd-dead", 0),
		abandon(t, root, "pd-never-saved", nil, time.Hour),
		lend(t, root, first+2, "pd-never-saved", time.Hour),
		lend(t, root, first+3, "pd-no-such", time.Hour),
		abandon(t, root, "pd-garbage", nil, time.Hour),
	}
	writeFile(t, filepath.Join(gone[5], "state.json"), `{"pid":"one"`)
	stays := []string{
		abandon(t, root, "pd-young", nil, 0),
		abandon(t, root, "pd-alive", &record{PID: 1 << 30, Start: 1, UID: first + 4}, time.Hour),
		lend(t, root, first+4, "pd-alive", time.Hour),
		lend(t, root, first+5, "pd-being-made", 0),
	}
	lock, err := takeLock(stays[1])
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	sweep(root)
	for _, path := range gone {
		if exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

// A number that another process has by now ends nobody.
func TestSweepEndsTheRightProcess(t *testing.T) {
	root := t.TempDir()
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = victim.Wait()
	}()
	t.Cleanup(func() { _ = victim.Process.Kill() })
	start, err := startTime(victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	abandon(t, root, "pd-reused", &record{PID: victim.Process.Pid, Start: start + 1}, time.Hour)
	abandon(t, root, "pd-init", &record{PID: 1, Start: 1}, time.Hour)
	sweep(root)
	if err := unix.Kill(victim.Process.Pid, 0); err != nil {
		t.Fatalf("a process that has the number by chance: %v", err)
	}
	abandon(t, root, "pd-agent", &record{PID: victim.Process.Pid, Start: start}, time.Hour)
	sweep(root)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the abandoned process still runs")
	}
}

func TestStateDirPermissions(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o750: true, 0o777: false, 0o775: false, 0o1777: false} {
		root := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(root, mode.Perm()); err != nil {
			t.Fatal(err)
		}
		d, err := newStateDir(root)
		if (err == nil) != ok {
			t.Errorf("%#o: %v", mode, err)
		}
		if err != nil {
			if e := startError(t, err); e.Stage != "state" || e.Hint == "" {
				t.Errorf("%#o: %+v", mode, e)
			}
			continue
		}
		info, err := os.Stat(root)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%#o became %v, %v", mode, info.Mode(), err)
		}
		d.remove()
		if exists(d.path) {
			t.Errorf("%s is left", d.path)
		}
	}
}

func TestStateDirOfAnother(t *testing.T) {
	requireRoot(t)
	root := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(root, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := newStateDir(root)
	if e := startError(t, err); e.Stage != "state" || !strings.Contains(e.Cause, "12345") {
		t.Errorf("%+v", e)
	}
}

func TestStateDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	_, err := newStateDir(filepath.Join(file, "state"))
	if e := startError(t, err); e.Stage != "state" || e.Errno != int(unix.ENOTDIR) || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

// An id is lent to one at a time, and comes back.
func TestLendUID(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	seen := map[uint32]bool{}
	for range 20 {
		d, err := newStateDir(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.remove)
		uid, err := d.lendUID()
		if err != nil || seen[uid] || uid < lentFirst || uid >= lentFirst+lentCount {
			t.Fatalf("%d, %v", uid, err)
		}
		seen[uid] = true
		if text, err := os.ReadFile(idFile(root, uid)); err != nil || strings.TrimSpace(string(text)) != d.id {
			t.Errorf("the borrower of %d is %q, %v", uid, text, err)
		}
	}
}

// A lent id comes back when the kernel has reported the end, and no earlier,
// whoever sweeps meanwhile.
func TestStopKeepsTheIDUntilTheEnd(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	d, err := newStateDir(root)
	if err != nil {
		t.Fatal(err)
	}
	uid, err := d.lendUID()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.save(1<<30, 1); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(d.path, socketName)
	writeFile(t, socket, "")
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{d.path, idFile(root, uid)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Wait() }()
	s := &sandbox{dir: d, plan: &builder{mounts: make([]userMount, 1)}, control: os.NewFile(^uintptr(0), ""), done: make(chan struct{})}
	if s.pidfd, err = unix.PidfdOpen(victim.Process.Pid, 0); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() {
		_, err := s.Stop(t.Context(), 0)
		stopped <- err
	}()
	eventually(t, 5*time.Second, "removing what it can", func() bool { return !exists(socket) })
	sweep(root)
	if !exists(idFile(root, uid)) || !exists(d.path) {
		t.Error("the id or the directory went before the end")
	}
	close(s.done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if exists(idFile(root, uid)) || exists(d.path) {
		t.Error("the id or the directory is left")
	}
}

func TestStartTime(t *testing.T) {
	first, err := startTime(os.Getpid())
	if err != nil || first == 0 {
		t.Fatalf("%d, %v", first, err)
	}
	// A name may hold whatever the format is made of.
	dir := t.TempDir()
	program := filepath.Join(dir, "a) R 1 2 (b")
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if got, err := startTime(cmd.Process.Pid); err != nil || got < first {
		t.Errorf("%d, %v, want at least %d", got, err, first)
	}
	if _, err := startTime(1 << 30); err == nil {
		t.Error("a process that is none has a start time")
	}
}
