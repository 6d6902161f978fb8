package agent_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

func TestStream(t *testing.T) {
	b := start(t)
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 3"}})
	s.stdin("one ")
	s.says("one ")
	s.stdin("") // says nothing
	s.stdin("two")
	s.says("one two")
	s.control(wire.Control{Type: "close_stdin"})
	res := s.exit()
	if s.stdout.String() != "one two" || s.stderr.String() != "err\n" || s.acked != 7 || len(s.errors) > 0 {
		t.Errorf("stdout %q, stderr %q, %d bytes acknowledged, errors %v", s.stdout.String(), s.stderr.String(), s.acked, s.errors)
	}
	if res.ExitCode != 3 || res.StdoutBytes != 7 || res.StderrBytes != 4 || !res.DeathProved {
		t.Errorf("got %+v", res)
	}
}

func TestStreamLargeInput(t *testing.T) {
	b := start(t)
	const size = 50 << 20
	source := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	sum := sha256.New()
	if _, err := io.Copy(sum, source()); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p, err := b.client.Start(b.context(), wire.ExecRequest{Argv: []string{"sh", "-c", "cat | sha256sum"}}, wire.Streams{Stdin: source(), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := p.Wait(); err != nil || res.ExitCode != 0 || out.String() != fmt.Sprintf("%x  -\n", sum.Sum(nil)) {
		t.Errorf("got %q, %+v, %v", out.String(), res, err)
	}
}

// What a command printed before its end is not lost to a client that is slow.
func TestStreamToASlowClient(t *testing.T) {
	b := start(t)
	const size = 250_000 // more than a socket takes in, and less than that and a pipe that was not widened
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", fmt.Sprintf("dd if=/dev/zero bs=%d count=1 2>/dev/null; echo > done", size)}})
	eventually(t, "the command has printed it all", func() bool {
		_, err := os.Stat(filepath.Join(b.workspace, "done"))
		return err == nil
	})
	// Keep away for longer than the graces that follow a command's end.
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		b.works()
	}
	if res := s.exit(); s.stdout.Len() != size || res.StdoutBytes != size || res.ExitCode != 0 {
		t.Errorf("%d of %d bytes came: %+v", s.stdout.Len(), size, res)
	}
}

// Signals reach a command that takes none of its input.
func TestStreamSignals(t *testing.T) {
	b := start(t)
	for name, want := range map[string]int{"INT": -2, "SIGTERM": -15, "KILL": -9, "SIGUSR1": 9} {
		t.Run(name, func(t *testing.T) {
			s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done"}})
			s.t = t
			s.says("ready")
			s.stdin(strings.Repeat("x", wire.StdinWindow))
			s.control(wire.Control{Type: "signal", Signal: name})
			if res := s.exit(); res.ExitCode != want {
				t.Errorf("got %+v, want status %d", res, want)
			}
			if s.acked > wire.StdinWindow {
				t.Errorf("%d bytes of %d are acknowledged", s.acked, wire.StdinWindow)
			}
		})
	}
}

func TestStreamRefusals(t *testing.T) {
	b := start(t)
	s := b.stream(wire.ExecRequest{Argv: []string{"cat"}})
	s.control(wire.Control{Type: "signal", Signal: "NONE"})
	s.control(wire.Control{Type: "dance"})
	s.control(wire.Control{Type: "resize", Rows: 1, Cols: 1}) // without a terminal it does nothing
	for _, impossible := range []string{`{"type":"resize","rows":-1,"cols":1e9}`, `{"type":"signal","signal":9}`} {
		if err := s.out.WriteFrame(wire.StreamControl, []byte(impossible)); err != nil {
			t.Fatal(err)
		}
	}
	s.until(func() bool { return len(s.errors) == 4 })
	for i, text := range []string{`unknown signal "NONE"`, `unknown control "dance"`, "rows must be a whole number", "signal must be a string"} {
		if e := s.errors[i]; e.Code != wire.CodeBadRequest || !strings.Contains(e.Message, text) {
			t.Errorf("got %+v, want %s", e, text)
		}
	}
	s.stdin("still there")
	s.says("still there")
	s.control(wire.Control{Type: "close_stdin"})
	if res := s.exit(); res.ExitCode != 0 {
		t.Errorf("got %+v", res)
	}
}

// A client that breaks the protocol is told so where it can be, and its
// command ends.
func TestStreamBrokenProtocol(t *testing.T) {
	b := start(t)
	tests := map[string]struct {
		do   func(s *stream)
		code wire.Code
	}{
		"a frame of stdout": {func(s *stream) { _ = s.out.WriteFrame(wire.StreamStdout, []byte("x")) }, wire.CodeBadRequest},
		"no stream":         {func(s *stream) { s.write("\x09\x00\x00\x00\x00\x00\x00\x01x") }, wire.CodeBadRequest},
		"no header":         {func(s *stream) { s.write("GET / HTTP/1.1\r\n\r\n") }, wire.CodeBadRequest},
		"a huge frame":      {func(s *stream) { s.write("\x00\x00\x00\x00\xff\xff\xff\xff") }, wire.CodeTooLarge},
		"a huge control": {func(s *stream) {
			_ = s.out.WriteFrame(wire.StreamControl, make([]byte, wire.MaxControl+1))
		}, wire.CodeTooLarge},
		"a control of no object": {func(s *stream) { _ = s.out.WriteFrame(wire.StreamControl, []byte("[]")) }, wire.CodeBadRequest},
		"a control of no type":   {func(s *stream) { _ = s.out.WriteFrame(wire.StreamControl, []byte("{}")) }, wire.CodeBadRequest},
		"input after its end": {func(s *stream) {
			s.control(wire.Control{Type: "close_stdin"})
			_ = s.out.WriteFrame(wire.StreamStdin, []byte("x"))
		}, wire.CodeBadRequest},
		"more than the window": {func(s *stream) {
			_ = s.out.WriteFrame(wire.StreamStdin, make([]byte, 4*wire.StdinWindow))
		}, wire.CodeTooLarge},
	}
	b.leaksNothing(func() {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				mark := newMark()
				s := b.stream(wire.ExecRequest{Argv: []string{helper, "wait", mark}})
				s.t = t
				tt.do(s)
				if res := s.exit(); res.ExitCode != -9 || !res.DeathProved {
					t.Errorf("got %+v", res)
				}
				if len(s.errors) != 1 || s.errors[0].Code != tt.code {
					t.Errorf("errors %+v, want %s", s.errors, tt.code)
				}
				if found := carrying(mark); len(found) > 0 {
					t.Errorf("processes %v are left", found)
				}
			})
		}
	})
}

// A command may read from its own output: what the pipe held a moment ago may
// be gone, and the frames are whole all the same.
func TestStreamOfACommandThatReadsItsOwnOutput(t *testing.T) {
	b := start(t)
	for range 3 {
		s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", `cat </proc/self/fd/1 >/dev/null & cat </proc/self/fd/1 >/dev/null & yes`}, TimeoutSeconds: seconds(0.5)})
		if res := s.exit(); !res.TimedOut || int64(s.stdout.Len()) != res.StdoutBytes || !res.DeathProved {
			t.Errorf("%d bytes came: %+v", s.stdout.Len(), res)
		}
	}
}

func TestStreamOutputBound(t *testing.T) {
	b := start(t)
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", "seq 1 100000; echo abc >&2"}, MaxOutputBytes: 5})
	res := s.exit()
	if s.stdout.String() != "1\n2\n3" || s.stderr.String() != "abc\n" {
		t.Errorf("got %q, %q", s.stdout.String(), s.stderr.String())
	}
	if res.StdoutBytes != 588895 || !res.StdoutTruncated || res.StderrBytes != 4 || res.StderrTruncated {
		t.Errorf("got %+v", res)
	}
}

// A failing writer of the client's is a closed pipe to the command.
func TestStreamToAClosedPipe(t *testing.T) {
	b := start(t)
	p, err := b.client.Start(b.context(), wire.ExecRequest{Argv: []string{"yes"}}, wire.Streams{Stdout: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := p.Wait(); !errors.Is(err, io.ErrClosedPipe) || res.Signal != "SIGPIPE" {
		t.Errorf("got %+v, %v", res, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTerminal(t *testing.T) {
	b := start(t)
	s := b.stream(wire.ExecRequest{
		Argv: []string{"sh", "-c", `test -t 0 && test -t 1 && test -t 2 && stty size; stty -echo; echo ready; read line; echo "<$line>"; trap 'stty size; exit 6' WINCH; echo set; while :; do sleep 0.1; done`},
		TTY:  &wire.TTY{Rows: 30, Cols: 97},
	})
	s.says("30 97\r\nready\r\n")
	s.stdin("typed\n")
	s.says("<typed>\r\nset\r\n")
	s.control(wire.Control{Type: "resize", Rows: 41, Cols: 111})
	s.says("41 111\r\n")
	if res := s.exit(); res.ExitCode != 6 || s.stderr.Len() > 0 {
		t.Errorf("got %+v, stderr %q", res, s.stderr.String())
	}
	if res := b.stream(wire.ExecRequest{Argv: []string{"stty", "size"}, TTY: &wire.TTY{}}); res.exit().ExitCode != 0 || res.stdout.String() != "24 80\r\n" {
		t.Errorf("a terminal of no size: %q", res.stdout.String())
	}
}

// A key, and a signal, reach the job in the foreground and nobody else.
func TestTerminalForeground(t *testing.T) {
	for name, interrupt := range map[string]func(*stream){
		"key":    func(s *stream) { s.stdin("\x03") },
		"signal": func(s *stream) { s.control(wire.Control{Type: "signal", Signal: "INT"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			s := b.stream(wire.ExecRequest{
				Argv: []string{"sh", "-c", `set -m; trap : INT; sh -c 'echo ready; exec sleep 1000'; echo "status $?"; exit 5`},
				TTY:  &wire.TTY{Rows: 24, Cols: 80},
			})
			s.says("ready")
			interrupt(s)
			s.says("status 130")
			if res := s.exit(); res.ExitCode != 5 {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestTerminalEndOfInput(t *testing.T) {
	b := start(t)
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", "stty -echo; cat; echo end"}, TTY: &wire.TTY{}})
	s.stdin("x\n")
	s.says("x\r\n")
	s.control(wire.Control{Type: "close_stdin"})
	s.says("end")
	s.exit()
}

// Whoever keeps a terminal open delays no result, detached or not.
func TestTerminalHeldByADaemon(t *testing.T) {
	b := start(t)
	for name, detach := range map[string]bool{"killed": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			b.leaksNothing(func() {
				mark := newMark()
				s := b.stream(wire.ExecRequest{
					Argv:   []string{"sh", "-c", `trap '' HUP; setsid "$0" wait "$1" & echo done`, helper, mark},
					TTY:    &wire.TTY{},
					Detach: detach,
				})
				if res := s.exit(); res.ExitCode != 0 || res.Survivors != 1 || res.DeathProved == detach || s.stdout.String() != "done\r\n" {
					t.Errorf("got %+v, %q", res, s.stdout.String())
				}
				if left := len(carrying(mark)); (left > 0) != detach {
					t.Errorf("%d processes are left", left)
				}
				b.killAll(mark)
			})
		})
	}
}

// Controls that arrive while a command ends touch nothing that is closed
// already, and no control comes after the exit.
func TestControlsWhileACommandEnds(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		for range 30 {
			s := b.stream(wire.ExecRequest{Argv: []string{"true"}, TTY: &wire.TTY{}})
			stop := make(chan struct{})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
					}
					if s.out.WriteControl(wire.Control{Type: "resize", Rows: 5, Cols: 6}) != nil ||
						s.out.WriteControl(wire.Control{Type: "signal", Signal: "WINCH"}) != nil ||
						s.out.WriteFrame(wire.StreamStdin, []byte("x")) != nil {
						return
					}
				}
			}()
			s.exit()
			close(stop)
			<-stopped
		}
	})
}
