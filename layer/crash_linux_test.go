package layer

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// noSync spares a test the time of the disk: a process that ends loses nothing that was written.
func noSync(t *testing.T) {
	was := syncfs
	syncfs = func(int) error { return nil }
	t.Cleanup(func() { syncfs = was })
}

func init() {
	if at := os.Getenv("PADDOCK_TEST_CRASH"); at != "" {
		crash(at)
	}
}

// crash commits or recovers in a process that is killed before the step of a number.
func crash(at string) {
	syncfs = func(int) error { return nil }
	n, _ := strconv.Atoi(at)
	top := os.Getenv("PADDOCK_TEST_LAB")
	die := func(step string) {
		if n--; n < 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		if step == "sync staged" && os.Getenv("PADDOCK_TEST_MEDDLE") != "" {
			_ = os.WriteFile(top+"/source/tree", []byte("mine"), 0o644)
		}
	}
	journal := filepath.Join(top, "journal")
	if os.Getenv("PADDOCK_TEST_CHANGES") == "" {
		if _, err := recoverAt(context.Background(), journal, die); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	open := func(name string) *os.File {
		fd, err := unix.Open(filepath.Join(top, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		return os.NewFile(uintptr(fd), name)
	}
	l := &lab{t: &testing.T{}, layer: &Layer{Source: open("source"), Upper: open("upper"), Marks: UserMarks}}
	l.layer.Began, _ = Now()
	l.layer.Began.Realtime = l.layer.Began.Realtime.Add(time.Hour) // nothing is in conflict
	clock := func() (Began, error) { return l.layer.Began, nil }
	for line := range strings.SplitSeq(os.Getenv("PADDOCK_TEST_CHANGES"), "|") {
		p, err := strconv.Unquote(line[1:])
		if err != nil {
			panic(err)
		}
		l.changed(Kind(line[0]), p, "")
	}
	if _, err := l.layer.Commit(context.Background(), l.changes, CommitOptions{Journal: journal, Clock: clock, at: die}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// child runs crash over a lab, and reports whether it was killed.
func (l *lab) child(n int, changes bool, meddle string) (killed bool) {
	l.t.Helper()
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	var list []string
	for _, ch := range l.changes {
		if changes {
			list = append(list, string(ch.Kind)+strconv.Quote(ch.Path))
		}
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "PADDOCK_TEST_CRASH="+strconv.Itoa(n), "PADDOCK_TEST_LAB="+filepath.Dir(l.source), "PADDOCK_TEST_CHANGES="+strings.Join(list, "|"), "PADDOCK_TEST_MEDDLE="+meddle)
	var told bytes.Buffer
	cmd.Stderr = &told
	if err = cmd.Run(); err != nil && cmd.ProcessState.ExitCode() >= 0 && (meddle == "" || cmd.ProcessState.ExitCode() != 3) {
		l.t.Fatalf("step %d: %v: %s", n, err, told.String())
	}
	return cmd.ProcessState.ExitCode() < 0
}

// A process that is killed at any step leaves a source that Recover makes old or new, also where
// the recovery is killed, too.
func TestCommitCrash(t *testing.T) {
	noSync(t)
	for _, again := range []bool{false, true} {
		finished, undone := 0, 0
		for n := 0; !t.Failed(); n++ {
			l := tour(t)
			before := show(t, l.source)
			if !l.child(n, true, "") {
				same(t, "without a crash", show(t, l.source), toured)
				l.noTraces()
				break
			}
			state, _ := find(l.journal)
			if again {
				l.child(n%11, false, "")
			}
			r, err := Recover(t.Context(), l.journal)
			if err != nil {
				t.Fatalf("recovery after step %d: %v", n, err)
			}
			what := fmt.Sprintf("recovery after step %d from %q: %s", n, state, r)
			if got := show(t, l.source); r == Finished || r == Nothing && maps.Equal(got, toured) {
				same(t, what, got, toured)
				finished++
			} else {
				same(t, what, got, before)
				undone++
			}
			l.noTraces()
			if r, err := Recover(t.Context(), l.journal); r != Nothing || err != nil {
				t.Fatalf("a second recovery: %s, %v", r, err)
			}
		}
		if finished < 10 || undone < 10 {
			t.Errorf("%d commits were finished and %d undone, want many of both", finished, undone)
		}
	}
}

// A process that is killed while it takes back what has landed leaves a source that Recover makes
// old.
func TestUndoCrash(t *testing.T) {
	noSync(t)
	for n := 0; !t.Failed(); n++ {
		l := tour(t)
		before := show(t, l.source)
		killed := l.child(n, true, "yes")
		if _, err := Recover(t.Context(), l.journal); err != nil {
			t.Fatalf("recovery after step %d: %v", n, err)
		}
		got := show(t, l.source)
		if tree := got["tree"]; tree == regular+"mine" {
			before["tree"] = tree
		} else if tree != "" {
			before = toured // it was killed before it met the other file, and finished
		}
		same(t, fmt.Sprintf("recovery after step %d", n), got, before)
		l.noTraces()
		if !killed {
			break
		}
	}
}
