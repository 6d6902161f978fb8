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

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/testkit"
)

// abandon makes a sandbox's directory as a killed owner leaves it.
func abandon(t *testing.T, root, id string, r *state.Record, age time.Duration) string {
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
		testkit.Write(t, filepath.Join(dir, "state.json"), string(text), 0o644)
	}
	old := time.Now().Add(-age)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sweep is what a start begins with.
func sweep(root string) {
	state.Sweep(root, func(path string, r *state.Record) bool { return sweepOne(root, path, r) })
}

func lend(t *testing.T, root string, uid uint32, id string, age time.Duration) string {
	t.Helper()
	path := state.IDFile(root, uid)
	testkit.Write(t, path, id+"\n", 0o644)
	old := time.Now().Add(-age)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	const first = state.LentFirst
	gone := []string{
		abandon(t, root, "pd-deadaaaaaaaaa", &state.Record{PID: 1 << 30, Start: 1, UID: first + 1}, 0),
		lend(t, root, first+1, "pd-deadaaaaaaaaa", 0),
		abandon(t, root, "pd-neversavedaaa", nil, time.Hour),
		lend(t, root, first+2, "pd-neversavedaaa", time.Hour),
		lend(t, root, first+3, "pd-nosuchaaaaaaa", time.Hour),
		abandon(t, root, "pd-garbageaaaaaa", nil, time.Hour),
	}
	testkit.Write(t, filepath.Join(gone[5], "state.json"), `{"pid":"one"`, 0o644)
	stays := []string{
		abandon(t, root, "pd-youngaaaaaaaa", nil, 0),
		abandon(t, root, "pd-aliveaaaaaaaa", &state.Record{PID: 1 << 30, Start: 1, UID: first + 4}, time.Hour),
		lend(t, root, first+4, "pd-aliveaaaaaaaa", time.Hour),
		lend(t, root, first+5, "pd-beingmadeaaaa", 0),
	}
	lock, err := os.OpenFile(filepath.Join(stays[1], "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	sweep(root)
	for _, path := range gone {
		if state.Exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if !state.Exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

// An id is lent to one at a time, and comes back.
func TestLendUID(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	seen := map[uint32]bool{}
	for range 20 {
		d, err := newStateDir(root, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.remove)
		uid, err := d.lendUID()
		if err != nil || seen[uid] || uid < state.LentFirst || uid >= state.LentFirst+state.LentCount {
			t.Fatalf("%d, %v", uid, err)
		}
		seen[uid] = true
		if text, err := os.ReadFile(state.IDFile(root, uid)); err != nil || strings.TrimSpace(string(text)) != d.ID {
			t.Errorf("the borrower of %d is %q, %v", uid, text, err)
		}
	}
}

// A lent id comes back when the kernel has reported the end, and no earlier,
// whoever sweeps meanwhile.
func TestStopKeepsTheIDUntilTheEnd(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	d, err := newStateDir(root, "")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := d.lendUID()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.save(1<<30, 1, nil); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(d.Path, state.SocketName)
	testkit.Write(t, socket, "", 0o644)
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{d.Path, state.IDFile(root, uid)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Wait() }()
	s := &sandbox{dir: d, plan: &builder{mounts: make([]hostpath.Mount, 1)}, control: os.NewFile(^uintptr(0), ""), done: make(chan struct{})}
	if s.pidfd, err = unix.PidfdOpen(victim.Process.Pid, 0); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() {
		_, err := s.Stop(t.Context(), 0)
		stopped <- err
	}()
	testkit.Eventually(t, "removing what it can", func() bool { return !state.Exists(socket) })
	sweep(root)
	if !state.Exists(state.IDFile(root, uid)) || !state.Exists(d.Path) {
		t.Error("the id or the directory went before the end")
	}
	close(s.done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if state.Exists(state.IDFile(root, uid)) || state.Exists(d.Path) {
		t.Error("the id or the directory is left")
	}
}
