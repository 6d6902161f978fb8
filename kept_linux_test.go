package paddock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend/state/kept"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// outputIn runs a command in a sandbox and returns what it prints.
func outputIn(t *testing.T, s *Sandbox, argv ...string) string {
	t.Helper()
	out, err := s.Command(t.Context(), argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return strings.TrimSpace(string(out))
}

func TestCreate(t *testing.T) {
	requireWalls(t)
	opts := Options{StateDir: t.TempDir()}
	spec := Spec{Workspace: Workspace{Source: t.TempDir()}, Env: map[string]string{"TOKEN": "s3cret"}}
	s, err := Create(t.Context(), spec, opts, Lasting{Name: "one", Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	id := s.ID()
	t.Cleanup(func() { _, _ = Remove(context.Background(), id, true, opts) })
	if got := outputIn(t, s, "sh", "-c", "echo made >file; echo $TOKEN"); got != "s3cret" {
		t.Errorf("a command in it printed %q", got)
	}
	if err := s.Close(); err != nil { // this only detaches
		t.Fatal(err)
	}
	for _, name := range []string{"one", id} {
		k, err := Find(t.Context(), name, opts)
		if err != nil || k.ID != id || k.State != StateRunning || k.Labels["a"] != "b" || !slices.Equal(k.Variables, []string{"TOKEN"}) || len(k.Spec.Env) > 0 {
			t.Errorf("find %s: %+v, %v", name, k, err)
		}
		s, err := Attach(t.Context(), name, opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := outputIn(t, s, "cat", "file"); got != "made" {
			t.Errorf("attached by %s: %q", name, got)
		}
		_ = s.Close()
	}
	if _, err := Remove(t.Context(), "one", false, opts); !isCode(err, wire.CodeBusy) {
		t.Errorf("removing one that runs: %v", err)
	}
	if _, err := Start(t.Context(), "one", nil, opts); !isCode(err, wire.CodeExists) {
		t.Errorf("starting one that runs: %v", err)
	}
	k, err := Stop(t.Context(), "one", opts)
	if err != nil || k.State != StateStopped || k.End == nil || !k.End.Proved || k.End.Reason != "paddock stop ended it" || k.End.Error != "" {
		t.Errorf("stopped: %+v, %+v, %v", k, k.End, err)
	}
	if _, err := Attach(t.Context(), "one", opts); !errors.Is(err, ErrClosed) {
		t.Errorf("attaching to one that is stopped: %v", err)
	}
	if _, err := Start(t.Context(), "one", nil, opts); err == nil || !strings.Contains(err.Error(), "whose values are not kept: TOKEN") {
		t.Errorf("starting without its variable: %v", err)
	}
	s, err = Start(t.Context(), "one", map[string]string{"TOKEN": "again"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got := outputIn(t, s, "sh", "-c", "cat file; echo $TOKEN"); got != "made\nagain" || s.ID() != id {
		t.Errorf("started again as %s: %q", s.ID(), got)
	}
	_ = s.Close()
	how, err := Pause(t.Context(), "one", opts)
	if err != nil || how != "freezer" && how != "SIGSTOP" {
		t.Errorf("paused by %q: %v", how, err)
	}
	if k, err := Find(t.Context(), id, opts); err != nil || k.State != StatePaused {
		t.Errorf("paused: %+v, %v", k, err)
	}
	if err := Resume(t.Context(), "one", opts); err != nil {
		t.Error(err)
	}
	if k, err := Remove(t.Context(), "one", true, opts); err != nil || k.End == nil || !k.End.Proved {
		t.Errorf("removed: %+v, %v", k, err)
	}
	if _, err := Find(t.Context(), id, opts); !errors.Is(err, ErrNotFound) {
		t.Errorf("after it was removed: %v", err)
	}
	if all, err := ListLasting(t.Context(), opts); err != nil || len(all) > 0 {
		t.Errorf("the list then: %+v, %v", all, err)
	}
}

func isCode(err error, code wire.Code) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Code == code
}

// Of many that want a name at once one gets it, and the others leave nothing.
func TestCreateOneName(t *testing.T) {
	requireWalls(t)
	opts := Options{StateDir: t.TempDir()}
	spec := Spec{Workspace: Workspace{Source: t.TempDir()}}
	var mu sync.Mutex
	var made []string
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			s, err := Create(t.Context(), spec, opts, Lasting{Name: "one"})
			if err != nil {
				if !isCode(err, wire.CodeExists) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			made = append(made, s.ID())
			_ = s.Close()
		})
	}
	wait.Wait()
	all, err := ListLasting(t.Context(), opts)
	if err != nil || len(made) != 1 || len(all) != 1 || all[0].ID != made[0] {
		t.Errorf("made %v, listed %+v, %v", made, all, err)
	}
	if _, err := Remove(t.Context(), "one", true, opts); err != nil {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	requireWalls(t)
	opts := Options{StateDir: t.TempDir()}
	spec := Spec{Workspace: Workspace{Source: t.TempDir()}}
	for _, tt := range []struct {
		name  string
		spec  Spec
		what  Lasting
		field string
	}{
		{"slash", spec, Lasting{Name: "a/b"}, "name"},
		{"control", spec, Lasting{Name: "a\x1b[31m"}, "name"},
		{"id", spec, Lasting{Name: "pd-aaaaaaaaaaaaa"}, "name"},
		{"long", spec, Lasting{Name: strings.Repeat("a", 65)}, "name"},
		{"dots", spec, Lasting{Name: ".."}, "name"},
		{"label", spec, Lasting{Labels: map[string]string{"": "x"}}, "labels"},
		{"label's value", spec, Lasting{Labels: map[string]string{"a": "x\ny"}}, "labels"},
		{"idle", spec, Lasting{Idle: -1}, "idle"},
		{"lifetime", spec, Lasting{Life: -1}, "lifetime"},
		{"publish", Spec{Workspace: spec.Workspace, Network: Network{Publish: []string{"3000"}}}, Lasting{}, "publish"},
	} {
		s, err := Create(t.Context(), tt.spec, opts, tt.what)
		if err == nil {
			_, _ = Remove(t.Context(), s.ID(), true, opts)
		}
		if e := (*policy.FieldError)(nil); !errors.As(err, &e) || e.Field != tt.field {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if all, err := ListLasting(t.Context(), opts); err != nil || len(all) > 0 {
		t.Errorf("they have left %+v, %v", all, err)
	}
}

// An agent that something on the host has stopped is waited for, but not for ever.
func TestAttachSilent(t *testing.T) {
	requireWalls(t)
	opts := Options{StateDir: t.TempDir()}
	s, err := Create(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir()}}, opts, Lasting{Name: "silent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = Remove(context.Background(), "silent", true, opts) })
	r, err := kept.Read(opts.StateDir, s.ID())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.Agent.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, r.Agent.PID)
	was := attachTime
	attachTime = time.Second
	_, err = Attach(t.Context(), "silent", opts)
	attachTime = was
	if err := syscall.Kill(r.Agent.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if want := `cannot attach to sandbox "silent": its agent does not answer`; err == nil || err.Error() != want {
		t.Errorf("attaching to a stopped agent: %v, want %s", err, want)
	}
	if s, err = Attach(t.Context(), "silent", opts); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

// awaitStopped waits until each thread of a process is stopped: a signal only asks for that.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the agent has no threads: %v", err)
		}
		if !slices.ContainsFunc(threads, func(stat string) bool {
			text, err := os.ReadFile(stat)
			return err == nil && !strings.Contains(string(text), ") T ")
		}) {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the agent is not stopped")
		}
	}
}

// Of a layer whose removal was killed just before its end, the next one leaves nothing.
func TestRemoveHalfRemovedLayer(t *testing.T) {
	requireWalls(t)
	opts := Options{StateDir: t.TempDir()}
	s, err := Create(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir(), Mode: policy.ModeOverlay}}, opts, Lasting{Name: "half"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = Remove(context.Background(), "half", true, opts) })
	_, err = Stop(t.Context(), "half", opts)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(opts.StateDir, "layers", s.ID())
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(t.Context(), "half", false, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the layer's directory is left: %v", err)
	}
}
