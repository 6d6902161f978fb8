package shell

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of shells.
const (
	// maxShells is how many there may be at a time, ended ones included.
	maxShells = 32
	// keptOutput is how much of a shell's output is kept, in bytes.
	keptOutput = 1 << 20
	// maxShellWait is how long a read may wait for output.
	maxShellWait = time.Minute
	// moreOutput is how long it then waits for more to go with the first.
	moreOutput = 5 * time.Millisecond
)

// closeGrace is how long a shell has to end by itself when it is closed.
var closeGrace = 5 * time.Second

// shell is a shell on a terminal, and what it has printed.
type shell struct {
	table    *Table
	box      *core.Sandbox
	running  string // its id in the registry
	process  *spawn.Process
	stdio    *spawn.Stdio
	input    *ptyInput
	redactor *core.Redactor
	ended    chan struct{} // closed when its whole tree and its output have ended

	saving    sync.Mutex // held while the record is written
	forgotten bool       // there is to be none any more

	mu      sync.Mutex
	summary wire.Shell
	killed  int  // of its tree, after its own end
	proved  bool // that nothing of it is left
	output  textRing
	changed chan struct{} // closed at the next change, nil while nobody waits
}

// start starts what a checked request asks for.
func (t *Table) start(id string, q *wire.OpenShellRequest, cwd core.Path, dir beneath.Dir) (*shell, error) {
	hidden, werr := t.box.Redactor(q.RedactValues, q.Redaction)
	if werr != nil {
		return nil, werr
	}
	c, werr := t.command(q, t.box.RealPath(cwd))
	if werr != nil {
		return nil, werr
	}
	s, err := spawn.NewTerminal(wire.TTY{Rows: uint16(q.Rows), Cols: uint16(q.Cols)})
	if err != nil {
		return nil, wire.Errorf(wire.CodeStart, "cannot open the shell: cannot make its terminal: %v", err)
	}
	c.Files, c.DirFD = s.Child[:], dir.FD()
	p, err := t.box.Spawner.Start(c)
	s.CloseChild()
	if err != nil {
		s.CloseAll()
		return nil, core.StartError(c.Argv[0], c.Dir, err)
	}
	p.Terminal = s.Terminal
	sh := &shell{
		table: t, box: t.box, process: p, stdio: s, redactor: hidden, ended: make(chan struct{}),
		running: t.box.Running.Add("shell", id, p),
		input:   newPTYInput(s.Terminal),
		output:  textRing{limit: keptOutput},
		summary: wire.Shell{ShellID: id, Cwd: wire.Path(cwd.Text), Cols: q.Cols, Rows: q.Rows, State: "running", StartedAt: core.UnixTime(p.Started)},
	}
	sh.save()
	drained := make(chan struct{})
	go sh.read(drained)
	go sh.await(drained)
	return sh, nil
}

// read keeps what the terminal prints, until it is closed.
func (s *shell) read(drained chan<- struct{}) {
	defer close(drained)
	text := &core.Decoder{Dst: s}
	hiding := s.redactor.Writer(text)
	core.Drain(hiding, s.stdio.Terminal)
	_ = hiding.Close()
	_ = text.Close()
}

// Write takes redacted text.
func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
	return s.output.Write(p)
}

// tell wakes who waits for a change. s.mu is held.
func (s *shell) tell() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await sees to the shell's end: of itself, then of its tree, then of its
// output.
func (s *shell) await(drained <-chan struct{}) {
	<-s.process.Done
	killed, proved := s.box.Trees.Kill(s.process.Mark)
	s.box.Running.Remove(s.running)
	s.process.Mark.Close()
	select {
	case <-drained:
	case <-time.After(core.OutputGrace): // something unkillable holds the terminal
		_ = s.stdio.Terminal.SetReadDeadline(time.Unix(1, 0))
		<-drained
	}
	s.input.close()
	s.stdio.CloseAll()
	code := spawn.ExitCode(s.process.Status)
	s.mu.Lock()
	s.killed, s.proved = killed, proved
	s.summary.State, s.summary.ExitCode, s.summary.EndedAt = "stopped", &code, core.Now()
	s.tell()
	s.mu.Unlock()
	s.save()
	close(s.ended)
}

// told returns the summary without what is to be hidden. s.mu is held.
func (s *shell) told() wire.Shell {
	r := s.summary
	r.RedactionMatches, r.Blocked = s.redactor.Matches()
	r.Cwd = wire.Path(s.redactor.Text(string(r.Cwd)))
	return r
}

// describe returns the summary, as it is now.
func (s *shell) describe() wire.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told()
}

// isRunning reports whether its own process has not ended.
func (s *shell) isRunning() bool {
	select {
	case <-s.process.Done:
		return false
	default:
		return true
	}
}

// look returns the output from a cursor on. It waits if there is none yet.
func (s *shell) look(ctx context.Context, q *wire.ReadShellRequest) *wire.ReadShellResult {
	if q.WaitMS > 0 {
		wait := min(time.Duration(min(q.WaitMS, maxShellWait.Milliseconds()))*time.Millisecond, maxShellWait)
		ctx, cancel := context.WithTimeout(ctx, wait)
		s.awaitOutput(ctx, q.Cursor+1)
		cancel()
		if q.MaxChars > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), moreOutput)
			s.awaitOutput(ctx, q.Cursor+q.MaxChars)
			cancel()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text, at := s.output.read(q.Cursor, q.MaxChars)
	next := at + int64(utf8.RuneCountInString(text))
	return &wire.ReadShellResult{Shell: s.told(), Cursor: at, NextCursor: next, Output: text,
		Truncated: next < s.output.end, DroppedChars: max(0, at-max(0, q.Cursor))}
}

// awaitOutput returns when so many characters were printed, when the shell or
// ctx has ended.
func (s *shell) awaitOutput(ctx context.Context, end int64) {
	for {
		s.mu.Lock()
		if s.output.end >= end || s.summary.State != "running" {
			s.mu.Unlock()
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hangUp tells the shell that its terminal is gone.
func (s *shell) hangUp() {
	_ = s.box.Reaper.Signal(s.process, s.process.PID, unix.SIGHUP)
	_ = s.box.Reaper.Signal(s.process, s.process.PID, unix.SIGCONT) // a stopped one cannot end
}

// close ends the shell, gently first, and returns when nothing of it is left.
func (s *shell) close() *wire.CloseShellResult {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	again := time.AfterFunc(closeGrace/5, s.hangUp) // a shell that has just begun may have lost the first
	defer again.Stop()
	s.hangUp()
	select {
	case <-s.ended:
	case <-timer.C:
		_ = s.box.Reaper.Signal(s.process, s.process.PID, unix.SIGKILL)
		select {
		case <-s.ended:
		case <-time.After(2 * spawn.KillTimeout): // it cannot be killed, and the result says so
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &wire.CloseShellResult{Shell: s.told(), Closed: true, Killed: s.killed, DeathProved: s.proved}
}
