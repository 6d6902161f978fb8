package agent_test

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// pass sends a request line, and files with its first byte.
func (r *raw) pass(q wire.ExecRequest, files ...*os.File) {
	r.t.Helper()
	q.Action = "exec"
	line, err := json.Marshal(q)
	if err != nil {
		r.t.Fatal(err)
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := r.conn.WriteMsgUnix(append(line, '\n'), syscall.UnixRights(fds...), nil); err != nil {
		r.t.Fatal(err)
	}
}

// passing starts a streamed command with passed outputs.
func (b *box) passing(q wire.ExecRequest, files ...*os.File) *stream {
	b.t.Helper()
	q.Stream = true
	q.Pass = []string{"stdout", "stderr"}[:len(files)]
	r := b.raw()
	r.pass(q, files...)
	for _, f := range files {
		_ = f.Close()
	}
	var started wire.ExecStarted
	r.answer(&started)
	return &stream{raw: r, id: started.ID, frames: wire.NewFrameReader(r.br, wire.MaxFrame), out: wire.NewFrameWriter(r.conn)}
}

// blockingPipe is a pipe as a command expects it.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

// wantAll fails unless text is all that comes out of a pipe, and it ends.
func wantAll(t *testing.T, r *os.File, text string) {
	t.Helper()
	all := make(chan string, 1)
	go func() {
		got, _ := io.ReadAll(r)
		all <- string(got)
	}()
	select {
	case got := <-all:
		if got != text {
			t.Errorf("the pipe held %.200q, want %q", got, text)
		}
	case <-time.After(patience):
		t.Errorf("the pipe has no end")
	}
}

func TestPassedStdout(t *testing.T) {
	b := start(t)
	r, w := blockingPipe(t)
	s := b.passing(wire.ExecRequest{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 3"}}, w)
	s.stdin("in")
	s.control(wire.Control{Type: "close_stdin"})
	res := s.exit()
	wantAll(t, r, "in")
	if s.stdout.Len() > 0 || s.stderr.String() != "err\n" || res.ExitCode != 3 || res.StdoutBytes != 0 || res.StderrBytes != 4 || !res.DeathProved {
		t.Errorf("frames %q and %q, %+v", s.stdout.String(), s.stderr.String(), res)
	}
}

func TestPassedOutputs(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		r, w := blockingPipe(t)
		twice, err := syscall.Dup(int(w.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		s := b.passing(wire.ExecRequest{Argv: []string{"sh", "-c", "echo 1; echo 2 >&2; echo 3"}}, w, os.NewFile(uintptr(twice), "w"))
		if res := s.exit(); res.ExitCode != 0 || !res.DeathProved || s.stdout.Len()+s.stderr.Len() > 0 {
			t.Errorf("got %+v", res)
		}
		wantAll(t, r, "1\n2\n3\n")
	})
}

// A closed reader is the kernel's matter.
func TestPassedPipeIsClosed(t *testing.T) {
	b := start(t)
	r, w := blockingPipe(t)
	s := b.passing(wire.ExecRequest{Argv: []string{"yes"}}, w)
	_ = r.Close()
	if res := s.exit(); res.Signal != "SIGPIPE" {
		t.Errorf("got %+v", res)
	}
}

// The last process of a pipeline may still write; one that stays is killed, and on a busy machine one
// that came too late.
func TestPassedAndLeftBehind(t *testing.T) {
	b := start(t)
	t.Run("for a moment", func(t *testing.T) {
		eventually(t, "a process writes in time", func() bool {
			r, w := blockingPipe(t)
			s := b.passing(wire.ExecRequest{Argv: []string{"sh", "-c", "(sleep 0.02; echo late) &"}}, w)
			res := s.exit()
			if !res.DeathProved {
				t.Errorf("got %+v", res)
			}
			if res.Survivors > 0 {
				return false
			}
			wantAll(t, r, "late\n")
			return true
		})
	})
	t.Run("for ever", func(t *testing.T) {
		mark := newMark()
		r, w := blockingPipe(t)
		s := b.passing(wire.ExecRequest{Argv: []string{"sh", "-c", `setsid "$0" wait "$1" & echo out`, helper, mark}}, w)
		if res := s.exit(); res.Survivors != 1 || res.SurvivorsKilled != 1 || !res.DeathProved {
			t.Errorf("got %+v", res)
		}
		wantAll(t, r, "out\n")
		if found := carrying(mark); len(found) > 0 {
			t.Errorf("processes %v are left", found)
		}
	})
	t.Run("detached", func(t *testing.T) {
		r, w := blockingPipe(t)
		s := b.passing(wire.ExecRequest{Detach: true, Argv: []string{"sh", "-c", "(while ! test -e go; do sleep 0.1; done; echo late) &"}}, w)
		if res := s.exit(); res.Survivors == 0 || res.SurvivorsKilled != 0 || res.DeathProved {
			t.Errorf("got %+v", res)
		}
		b.sh("touch go")
		wantAll(t, r, "late\n")
	})
}

func TestPassedTimeout(t *testing.T) {
	b := start(t)
	r, w := blockingPipe(t)
	s := b.passing(wire.ExecRequest{Argv: []string{"sh", "-c", "echo before; yes >&2"}, TimeoutSeconds: seconds(0.2)}, w)
	if res := s.exit(); !res.TimedOut || res.ExitCode != 124 || !res.DeathProved {
		t.Errorf("got %+v", res)
	}
	wantAll(t, r, "before\n")
}

// openFor opens what is no end of a pipe for writing.
func openFor(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// passedFiles are n times the writing end of one pipe, and its reading end.
func passedFiles(t *testing.T, n int) (r *os.File, files []*os.File) {
	r, w := blockingPipe(t)
	if n == 0 {
		_ = w.Close()
	}
	return r, slices.Repeat([]*os.File{w}, n)
}

func TestPassRefusals(t *testing.T) {
	b := start(t)
	fifo := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	both, one := []string{"stdout", "stderr"}, []string{"stdout"}
	tests := map[string]struct {
		q     wire.ExecRequest
		count int      // of good descriptors
		odd   *os.File // that comes first
	}{
		"none":               {q: wire.ExecRequest{Stream: true, Pass: one}},
		"too few":            {q: wire.ExecRequest{Stream: true, Pass: both}, count: 1},
		"more than named":    {q: wire.ExecRequest{Stream: true, Pass: one}, count: 2},
		"too many":           {q: wire.ExecRequest{Stream: true, Pass: both}, count: 3},
		"far too many":       {q: wire.ExecRequest{Stream: true, Pass: both}, count: 200},
		"stderr alone":       {q: wire.ExecRequest{Stream: true, Pass: []string{"stderr"}}, count: 1},
		"stdin":              {q: wire.ExecRequest{Stream: true, Pass: []string{"stdin"}}, count: 1},
		"another order":      {q: wire.ExecRequest{Stream: true, Pass: []string{"stderr", "stdout"}}, count: 2},
		"without stream":     {q: wire.ExecRequest{Pass: one}, count: 1},
		"with a terminal":    {q: wire.ExecRequest{Stream: true, Pass: one, TTY: &wire.TTY{}}, count: 1},
		"with a bound":       {q: wire.ExecRequest{Stream: true, Pass: one, MaxOutputBytes: 1}, count: 1},
		"a regular file":     {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, t.TempDir()+"/f", os.O_CREATE|os.O_WRONLY)},
		"a device":           {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, os.DevNull, os.O_WRONLY)},
		"a directory":        {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, "/", os.O_RDONLY)},
		"both ends":          {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, fifo, os.O_RDWR)},
		"a name alone":       {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, fifo, 0x200000)}, // O_PATH
		"a reading end":      {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, fifo, os.O_RDONLY|syscall.O_NONBLOCK)},
		"a non-blocking end": {q: wire.ExecRequest{Stream: true, Pass: one}, odd: openFor(t, fifo, os.O_WRONLY|syscall.O_NONBLOCK)},
		"one of two":         {q: wire.ExecRequest{Stream: true, Pass: both}, count: 1, odd: openFor(t, os.DevNull, os.O_WRONLY)},
	}
	b.leaksNothing(func() {
		for name, tt := range tests {
			r, files := passedFiles(t, tt.count)
			if tt.odd != nil {
				files = append([]*os.File{tt.odd}, files...)
			}
			c := b.raw()
			tt.q.Argv = []string{"true"}
			c.pass(tt.q, files...)
			if e := c.refusal(); e == nil || e.Code != wire.CodeBadRequest || e.Object != "pass" {
				t.Errorf("%s: got %+v", name, e)
			}
			closeAll(files, tt.odd)
			wantAll(t, r, "")
		}
	})
}

// closeAll closes the files but one.
func closeAll(files []*os.File, but *os.File) {
	for _, f := range files {
		if f != but {
			_ = f.Close()
		}
	}
}

// refusal reads an answer line that is an error, nil where it is none.
func (r *raw) refusal() *wire.Error {
	r.t.Helper()
	line, err := wire.ReadLine(r.br, wire.MaxLine)
	if err != nil {
		r.t.Fatal(err)
	}
	e := new(wire.Error)
	if json.Unmarshal(line, e) != nil || e.Message == "" {
		return nil //nolint:nilerr // another answer is no refusal
	}
	return e
}

// Descriptors that nobody asked for are closed.
func TestPassUnasked(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		c := b.raw()
		for range 3 { // more come over one connection than one request may bring
			r, files := passedFiles(t, 2)
			c.pass(wire.ExecRequest{Argv: []string{"echo", "out"}, KeepAlive: true}, files...)
			closeAll(files, nil)
			var res wire.ExecResult
			c.answer(&res)
			if res.Stdout != "out\n" {
				t.Errorf("got %+v", res)
			}
			wantAll(t, r, "")
		}
		r, files := passedFiles(t, 1)
		c.pass(wire.ExecRequest{Argv: []string{"echo", "out"}, Stream: true, Pass: []string{"stdout"}}, files...)
		closeAll(files, nil)
		wantAll(t, r, "out\n")
		_ = c.conn.Close()

		r, files = passedFiles(t, 2)
		c = b.raw()
		if _, _, err := c.conn.WriteMsgUnix([]byte("half a line"), syscall.UnixRights(int(files[0].Fd()), int(files[1].Fd())), nil); err != nil {
			t.Fatal(err)
		}
		closeAll(files, nil)
		_ = c.conn.Close()
		wantAll(t, r, "")
	})
}

// What comes with the frames of a command is kept by nobody.
func TestPassWithFrames(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		s := b.stream(wire.ExecRequest{Argv: []string{"cat"}})
		r, w := blockingPipe(t)
		for range 3 {
			frame := []byte{0, 0, 0, 0, 0, 0, 0, 1, 'x'}
			if _, _, err := s.conn.WriteMsgUnix(frame, syscall.UnixRights(int(w.Fd())), nil); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close()
		s.says("xxx")
		s.control(wire.Control{Type: "close_stdin"})
		if res := s.exit(); res.ExitCode != 0 {
			t.Errorf("got %+v", res)
		}
		wantAll(t, r, "")
	})
}
