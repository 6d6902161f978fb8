//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

func startError(t *testing.T, err error) *backend.StartError {
	t.Helper()
	var e *backend.StartError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no StartError", err)
	}
	return e
}

// abandon makes a sandbox's directory as a killed owner leaves it.
func abandon(t *testing.T, root, id string, r *Record, age time.Duration) string {
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
		testkit.Write(t, filepath.Join(dir, recordName), string(text), 0o600)
	}
	old := time.Now().Add(-age)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a record says is what another process reads.
func TestRecord(t *testing.T) {
	d, err := New(filepath.Join(t.TempDir(), "state"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove(nil)
	if _, err := Read(d.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before it was written: %v", err)
	}
	want := Record{Backend: "x", PID: 7, Start: 8, Created: time.Now().UTC().Round(0), Kept: true, Cleanup: [][]string{{"a", "b c"}},
		Isolation: &policy.Isolation{Level: "none", Lost: []string{"all"}}}
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(d.Path)
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// The commands of a record are run once whoever would have done so is dead, and
// again later where they could not be.
func TestSweepCleansUp(t *testing.T) {
	root := t.TempDir()
	home := filepath.Join(root, "codex", "sandbox-x")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	rm, err := exec.LookPath("rm")
	if err != nil {
		t.Fatal(err)
	}
	clean := abandon(t, root, "pd-cleanaaaaaaaa", &Record{Kept: true, Cleanup: [][]string{{rm, "-rf", "--", home}, {rm, "-rf", "--", home}}}, time.Hour)
	stuck := abandon(t, root, "pd-stuckaaaaaaaa", &Record{Kept: true, Cleanup: [][]string{{filepath.Join(root, "missing"), "stop", "-t", "0", "paddock-x"}}}, time.Hour)
	other := abandon(t, root, "pd-otheraaaaaaaa", &Record{Backend: "linux"}, time.Hour)
	Sweep(root, nil)
	if Exists(home) || Exists(clean) {
		t.Error("the commands were not run, or the directory is left")
	}
	if !Exists(stuck) {
		t.Error("what could not be cleaned up was forgotten")
	}
	if !Exists(other) {
		t.Error("what another sweeper knows more about is gone")
	}
	var swept []string
	Sweep(root, func(path string, r *Record) bool {
		swept = append(swept, filepath.Base(path)+" "+r.Backend)
		return true
	})
	if want := []string{"pd-otheraaaaaaaa linux"}; !reflect.DeepEqual(swept, want) || Exists(other) {
		t.Errorf("swept %q, want %q", swept, want)
	}
}

// Commands that no backend writes are not run, and told of.
func TestSweepRefuses(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made, engine := filepath.Join(root, "made"), filepath.Join(root, "engine")
	codex := filepath.Join(root, "codex")
	if err := errors.Join(os.Mkdir(codex, 0o700), os.WriteFile(engine, []byte("#!/bin/sh\n: > "+made+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	var paths [2]string
	for i, name := range []string{"rm", "env"} {
		if paths[i], err = exec.LookPath(name); err != nil {
			t.Fatal(err)
		}
	}
	rm, env := paths[0], paths[1]
	open := filepath.Join(root, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.WriteFile(open+"/engine", []byte("#!/bin/sh\n: > "+made+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"any command":        {"/bin/sh", "-c", ": > " + made},
		"a relative path":    {"engine", "stop", "-t", "0", "paddock-x"},
		"more to remove":     {rm, "-rf", "--", codex},
		"above":              {rm, "-rf", "--", codex + "/sandbox-x/../.."},
		"elsewhere":          {rm, "-rf", "--", root},
		"another option":     {rm, "-rf", codex + "/sandbox-x", codex},
		"another variable":   {env, "-i", "LD_PRELOAD=/x.so", engine, "stop", "-t", "0", "paddock-x"},
		"another argument":   {engine, "stop", "-t", "0", "paddock-x", "other"},
		"another container":  {engine, "rm", "--force", "--volumes", "other"},
		"another subcommand": {env, "-i", "HOME=/", engine, "run", "paddock-x"},
		"a program of all":   {open + "/engine", "stop", "-t", "0", "paddock-x"},
		"nothing":            {},
	} {
		dir := abandon(t, root, "pd-forgedaaaaaaa", &Record{Kept: true, Cleanup: [][]string{argv}}, time.Hour)
		Sweep(root, nil)
		if told := Refused(root); !Exists(dir) || Exists(made) || !Exists(codex) || len(told) != 1 || !strings.HasPrefix(told[0], dir+": ") {
			t.Errorf("%s: it was run, or forgotten: %q", name, told)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, argv := range map[string][]string{ // the controls
		"an engine":   {engine, "rm", "--force", "paddock-x-load"},
		"as it finds": {env, "-i", "PATH=/bin:/usr/bin", "DOCKER_HOST=unix:///x", engine, "volume", "rm", "--force", "paddock-x"},
	} {
		dir := abandon(t, root, "pd-ownaaaaaaaaaa", &Record{Kept: true, Cleanup: [][]string{argv}}, time.Hour)
		if told := Refused(root); len(told) != 0 {
			t.Errorf("%s: %q", name, told)
		}
		if Sweep(root, nil); Exists(dir) || !Exists(made) {
			t.Errorf("%s was not run", name)
		}
		_ = os.Remove(made)
	}
}

// The directory goes after what it names, and its record before.
func TestRemoveOrder(t *testing.T) {
	d, err := New(filepath.Join(t.TempDir(), "state"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(Record{}); err != nil {
		t.Fatal(err)
	}
	d.Remove(func() {
		if _, err := Read(d.Path); !errors.Is(err, os.ErrNotExist) || !Exists(d.Path) {
			t.Errorf("the record: %v", err)
		}
	})
	if Exists(d.Path) {
		t.Error("the directory is left")
	}
}

// A directory's path may be longer than an address; nobody else may connect.
func TestSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := listen(dir, SocketName)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(filepath.Join(dir, SocketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	conn, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
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
	start, err := StartTime(victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	abandon(t, root, "pd-reusedaaaaaaa", &Record{Kept: true, PID: victim.Process.Pid, Start: start + 1}, time.Hour)
	abandon(t, root, "pd-initaaaaaaaaa", &Record{Kept: true, PID: 1, Start: 1}, time.Hour)
	Sweep(root, nil)
	if err := unix.Kill(victim.Process.Pid, 0); err != nil {
		t.Fatalf("a process that has the number by chance: %v", err)
	}
	abandon(t, root, "pd-agentaaaaaaaa", &Record{Kept: true, PID: victim.Process.Pid, Start: start}, time.Hour)
	Sweep(root, nil)
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
		d, err := New(root, "", nil)
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
		d.Remove(nil)
		if Exists(d.Path) {
			t.Errorf("%s is left", d.Path)
		}
	}
}

func TestStateDirOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	root := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(root, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := New(root, "", nil)
	if e := startError(t, err); e.Stage != "state" || !strings.Contains(e.Cause, "12345") {
		t.Errorf("%+v", e)
	}
}

func TestStateDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Write(t, file, "", 0o600)
	_, err := New(filepath.Join(file, "state"), "", nil)
	if e := startError(t, err); e.Stage != "state" || e.Errno != int(unix.ENOTDIR) || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

func TestStartTime(t *testing.T) {
	first, err := StartTime(os.Getpid())
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
	if got, err := StartTime(cmd.Process.Pid); err != nil || got < first {
		t.Errorf("%d, %v, want at least %d", got, err, first)
	}
	if _, err := StartTime(1 << 30); err == nil {
		t.Error("a process that is none has a start time")
	}
}
