package paddock

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

// Output that goes around the agent is counted here all the same.
func TestWalledPipeIsCounted(t *testing.T) {
	s := openWalled(t, Spec{})
	for name, tt := range map[string]struct {
		same           bool
		stdout, stderr int64
	}{"one stream": {false, 4, 0}, "both": {true, 8, 0}} {
		t.Run(name, func(t *testing.T) {
			r, w := newPipe(t)
			cmd := s.Command(t.Context(), "sh", "-c", "echo out; test -z $0 || echo err >&2", "")
			cmd.Stdout = w
			if tt.same {
				cmd.Args[3], cmd.Stderr = "both", w
			}
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			out, _ := io.ReadAll(r)
			if got := cmd.Result(); got.StdoutBytes != tt.stdout || got.StderrBytes != tt.stderr || int64(len(out)) != tt.stdout || !got.DeathProved {
				t.Errorf("%q came: %+v", out, got)
			}
		})
	}
}

func TestWalledPipeIsClosed(t *testing.T) {
	s := openWalled(t, Spec{})
	r, w := newPipe(t)
	_ = r.Close()
	cmd := s.Command(t.Context(), "yes")
	cmd.Stdout = w
	if err := cmd.Run(); !errors.Is(err, syscall.EPIPE) || cmd.Result().Signal != "SIGPIPE" {
		t.Errorf("Run: %v, %+v", err, cmd.Result())
	}
}

// Nobody reads, and the command ends in time all the same.
func TestWalledPipeIsNotRead(t *testing.T) {
	s := openWalled(t, Spec{})
	_, w := newPipe(t)
	cmd := s.Command(t.Context(), "yes")
	cmd.Stdout, cmd.Timeout = w, 100*time.Millisecond
	began := time.Now()
	if err := cmd.Run(); !errors.Is(err, ErrTimeout) {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > 5*Grace { // on a loaded machine, too
		t.Errorf("it took %v", took)
	}
}
