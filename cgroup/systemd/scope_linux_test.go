package systemd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/paddock-dev/paddock/cgroup"
)

// sleeper is a process that waits for its end.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// mover makes scopes in a group, as the manager would.
func mover(t *testing.T, g *cgroup.Group) func(string, []uint32) (string, *dbus.Error) {
	return func(unit string, pids []uint32) (string, *dbus.Error) {
		scope, err := g.Create(unit)
		if err != nil {
			t.Error(err)
			return "failed", nil
		}
		defer scope.Close()
		for _, pid := range pids {
			if err := scope.Add(int(pid)); err != nil {
				t.Error(err)
			}
		}
		return "done", nil
	}
}

func TestStart(t *testing.T) {
	for name, early := range map[string]bool{"late": false, "early": true} {
		t.Run(name, func(t *testing.T) {
			address, g := bus(t), scopes(t)
			f := newFake(t, address, &fake{start: mover(t, g), early: early})
			pids := []int{sleeper(t), sleeper(t)}
			s := Scope{Unit: "paddock-x.scope", Description: "a sandbox", Slice: "app.slice", PIDs: pids, Bus: address}
			group, err := Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if path.Base(group) != s.Unit || path.Base(path.Dir(group)) != g.Name() {
				t.Errorf("group %s", group)
			}
			scope, err := g.Child(s.Unit)
			if err != nil {
				t.Fatal(err)
			}
			defer scope.Close()
			if in, err := scope.Procs(); err != nil || len(in) != len(pids) {
				t.Errorf("%v, %v", in, err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			want := map[string]any{"mode": "fail", "PIDs": []uint32{uint32(pids[0]), uint32(pids[1])}, "Delegate": true,
				"CollectMode": "inactive-or-failed", "Description": s.Description, "Slice": s.Slice}
			got := map[string]any{}
			for name, v := range f.asked {
				got[name] = v.Value()
			}
			if !reflect.DeepEqual(got, want) || f.subscribed != 1 {
				t.Errorf("asked for %v, want %v; subscribed %d times", got, want, f.subscribed)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	answer := func(result string, err *dbus.Error) func(string, []uint32) (string, *dbus.Error) {
		return func(string, []uint32) (string, *dbus.Error) { return result, err }
	}
	tests := []struct {
		name  string
		start func(string, []uint32) (string, *dbus.Error)
		want  error
		text  string
	}{
		{"refused", answer("", dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"Permission denied"})), ErrRefused, "Permission denied"},
		{"needs a person", answer("", dbus.NewError("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", nil)), ErrRefused, "InteractiveAuthorization"},
		{"name taken", answer("", dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit exists"})), fs.ErrExist, "Unit exists"},
		{"job failed", answer("failed", nil), ErrRefused, `"failed"`},
		{"job cancelled", answer("canceled", nil), ErrRefused, `"canceled"`},
		{"job never ends", answer("", nil), context.DeadlineExceeded, "deadline"},
		{"nothing was moved", answer("done", nil), nil, "is in /"},
	}
	address := bus(t)
	pid := sleeper(t)
	if _, err := Start(t.Context(), Scope{Unit: "x.scope", PIDs: []int{pid}, Bus: address}); !errors.Is(err, ErrNoManager) {
		t.Errorf("without a manager: %v", err)
	}
	f := newFake(t, address, &fake{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.will(tt.start)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if tt.want == context.DeadlineExceeded {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			defer cancel()
			group, err := Start(ctx, Scope{Unit: "x.scope", PIDs: []int{pid}, Bus: address})
			var e *cgroup.Error
			if !errors.As(err, &e) || e.Object != "x.scope" || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || group != "" {
				t.Errorf("%q, %v", group, err)
			}
		})
	}
}

// The bus goes while the job runs.
func TestBusGoes(t *testing.T) {
	address := bus(t)
	f := newFake(t, address, &fake{})
	f.will(func(string, []uint32) (string, *dbus.Error) {
		go f.conn.Close() // and the name with it; the caller gets no answer
		return "", nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Scope{Unit: "x.scope", PIDs: []int{sleeper(t)}, Bus: address}); err == nil {
		t.Error("started")
	}
}

func TestNoBus(t *testing.T) {
	dir := t.TempDir()
	for _, address := range []string{"unix:path=" + dir + "/none", "nonsense", ""} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+dir+"/none")
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+dir+"/none")
		t.Setenv("XDG_RUNTIME_DIR", dir)
		_, err := Start(t.Context(), Scope{Unit: "x.scope", PIDs: []int{os.Getpid()}, Bus: address})
		var e *cgroup.Error
		if !errors.Is(err, ErrNoManager) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%q: %v", address, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Scope{Unit: "x.scope", PIDs: []int{os.Getpid()}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Start(t.Context(), Scope{Unit: "x.scope"}); err == nil {
		t.Error("a scope of nobody")
	}
}
