package paddock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// A command in the background is found by its id, and read from the beginning.
func TestBackground(t *testing.T) {
	s := openWalled(t, Spec{})
	cmd := s.Command(t.Context(), "sh", "-c", "cat; echo err >&2; sleep 0.1; echo end; exit 3")
	cmd.Stdin = strings.NewReader("in\xff\n")
	started, err := cmd.StartBackground()
	if err != nil {
		t.Fatal(err)
	}
	x := s.Exec(started.ID())
	if r, err := x.Wait(t.Context()); err != nil || r.ExitCode != 3 || !r.DeathProved || !r.Isolation.Verified {
		t.Errorf("%+v, %v", r, err)
	}
	out, err := x.Read(t.Context(), ExecCursors{}, 0)
	if err != nil || string(out.Stdout) != "in\xff\nend\n" || string(out.Stderr) != "err\n" || !out.Complete || out.Next != (ExecCursors{8, 4}) {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err = x.Read(t.Context(), out.Next, time.Minute); err != nil || len(out.Stdout) > 0 || !out.Complete {
		t.Errorf("after the end: %+v, %v", out, err)
	}
	if st, err := x.Status(t.Context()); err != nil || st.Result == nil || st.StdoutBytes != 8 || st.Ended.Before(st.Started) {
		t.Errorf("%+v, %v", st, err)
	}
	if all, err := s.Execs(t.Context()); err != nil || len(all) != 1 || all[0].ID != x.ID() || !strings.HasPrefix(all[0].Command, "sh -c cat;") {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestBackgroundEnds(t *testing.T) {
	s := openWalled(t, Spec{})
	start := func(script string) *Exec {
		t.Helper()
		x, err := s.Command(t.Context(), "sh", "-c", script).StartBackground()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := start("exec sleep 1000")
	if err := x.Signal(t.Context(), "TERM"); err != nil {
		t.Error(err)
	}
	if r, err := x.Wait(t.Context()); err != nil || r.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := x.Signal(t.Context(), "TERM"); err == nil || !strings.Contains(err.Error(), "it has ended") {
		t.Errorf("a signal after the end: %v", err)
	}
	x = start("trap '' TERM; setsid sleep 1000 & sleep 1000")
	if r, err := x.Kill(t.Context()); err != nil || r.Signal != "SIGKILL" || !r.DeathProved {
		t.Errorf("%+v, %v", r, err)
	}
	limited := s.Command(t.Context(), "sleep", "1000")
	limited.Timeout = 200 * time.Millisecond
	x, err := limited.StartBackground()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := x.Wait(t.Context()); err != nil || !r.TimedOut || r.ExitCode != TimeoutStatus {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBackgroundErrors(t *testing.T) {
	s := openWalled(t, Spec{})
	if _, err := s.Command(t.Context(), "nonesuch").StartBackground(); !errors.Is(err, ErrNotFound) {
		t.Errorf("a command that does not exist: %v", err)
	}
	cmd := s.Command(t.Context(), "true")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", wire.MaxBackgroundStdin+1))
	if _, err := cmd.StartBackground(); err == nil || !strings.Contains(err.Error(), "at most 1 MiB") {
		t.Errorf("too much input: %v", err)
	}
	cmd = s.Command(t.Context(), "true")
	cmd.TTY = &TTY{Rows: 1, Cols: 1}
	if _, err := cmd.StartBackground(); err == nil {
		t.Error("a terminal is accepted")
	}
	x := s.Exec("e99")
	_, read := x.Read(t.Context(), ExecCursors{}, 0)
	_, killed := x.Kill(t.Context())
	for what, err := range map[string]error{"read": read, "kill": killed, "signal": x.Signal(t.Context(), "INT")} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of an unknown one: %v", what, err)
		}
	}
	if err := x.Signal(t.Context(), "NONE"); err == nil || !strings.Contains(err.Error(), "NONE") {
		t.Errorf("an unknown signal: %v", err)
	}
	_ = s.Close()
	if _, err := s.Execs(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed sandbox: %v", err)
	}
}
