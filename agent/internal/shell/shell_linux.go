package shell

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of shells.
const (
	// maxShells is how many there may be at a time, including those that have ended.
	maxShells = 32
	// keptOutput is how much of the end of a shell's output is stored, in bytes.
	keptOutput = 1 << 20
	// maxShellWait is how long a read may wait for output.
	maxShellWait = time.Minute
	// moreOutput is how long it then waits for more to go with the first.
	moreOutput = 5 * time.Millisecond
)

// closeGrace is how long a shell has to end by itself when it is closed.
var closeGrace = 5 * time.Second

// shell is a shell on a terminal, and its output.
type shell struct {
	table    *Table
	box      *core.Sandbox
	running  string // its id in the registry
	process  *spawn.Process
	stdio    *spawn.Stdio
	input    *ptyInput
	redactor *core.Redactor
	ended    chan struct{} // closed when its whole tree and its output have ended

	saving  sync.Mutex // held while the record is written
	removed bool       // the record must not be written again

	mu      sync.Mutex
	summary wire.Shell
	killed  int  // processes of its tree, after its own end
	proved  bool // that its whole tree is dead
	output  core.Ring
	changed core.Change
}

// start starts the shell of a checked request.
func (t *Table) start(id string, q *wire.OpenShellRequest, cwd core.Path, dir beneath.Dir) (*shell, error) {
	env, secrets, werr := t.box.WithSecrets(q.Env, q.SecretEnv)
	if werr != nil {
		return nil, werr
	}
	q.Env = env
	hidden, werr := t.box.Redactor(slices.Concat(q.RedactValues, secrets), q.Redaction)
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
		output:  core.Ring{Limit: keptOutput, Characters: true},
		summary: wire.Shell{ShellID: id, Cwd: wire.OSString(cwd.Text), Cols: q.Cols, Rows: q.Rows, State: "running", StartedAt: core.UnixTime(p.Started)},
	}
	sh.save()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		decoder := &text.Decoder{Dst: sh}
		hiding := hidden.Writer(decoder)
		core.Drain(hiding, s.Terminal)
		_ = hiding.Close()
		_ = decoder.Close()
	}()
	go sh.await(drained)
	return sh, nil
}

// Write adds redacted text to the output.
func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Notify()
	return s.output.Write(p)
}

// await waits for the end of the shell, then ends its tree and its output.
func (s *shell) await(drained <-chan struct{}) {
	<-s.process.Done
	killed, proved := s.box.Trees.Kill(s.process.Mark)
	s.box.Release(s.running, s.process, proved)
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
	s.changed.Notify()
	s.mu.Unlock()
	s.save()
	close(s.ended)
}

// redactedSummary returns the summary without secrets. s.mu is held.
func (s *shell) redactedSummary() wire.Shell {
	r := s.summary
	r.RedactionMatches, r.Blocked = s.redactor.Matches()
	r.Cwd = wire.OSString(s.redactor.Text(string(r.Cwd)))
	return r
}

// describe returns the current summary, without secrets.
func (s *shell) describe() wire.Shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redactedSummary()
}

// isRunning reports whether the shell's own process still runs.
func (s *shell) isRunning() bool {
	select {
	case <-s.process.Done:
		return false
	default:
		return true
	}
}

// awaitOutput returns when end characters were printed, or when the shell or ctx has
// ended.
func (s *shell) awaitOutput(ctx context.Context, end int64) {
	for {
		s.mu.Lock()
		if s.output.End() >= end || s.summary.State != "running" {
			s.mu.Unlock()
			return
		}
		changed := s.changed.Wait()
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
	_ = s.box.Reaper.Signal(s.process, s.process.PID, unix.SIGCONT) // a stopped shell cannot end
}

// close ends the shell, by SIGHUP first, and returns when its whole tree has ended.
func (s *shell) close() *wire.CloseShellResult {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	again := time.AfterFunc(closeGrace/5, s.hangUp) // a shell that has just begun may have missed the first
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
	return &wire.CloseShellResult{Shell: s.redactedSummary(), Closed: true, Killed: s.killed, DeathProved: s.proved}
}

// maxShellRecord bounds a shell's record, in bytes.
const maxShellRecord = 64 << 10

// save writes the summary to disk if that is possible. A shell does not depend on it.
func (s *shell) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.removed {
		return
	}
	summary := s.describe()
	if text, err := json.MarshalIndent(summary, "", "  "); err == nil {
		_ = core.SaveState(s.table.state, recordName(summary.ShellID), text)
	}
}

// removeRecord removes the record for good.
func (s *shell) removeRecord() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.removed = true
	if dir := s.table.state.Dir(); dir.Valid() {
		_ = unix.Unlinkat(dir.FD(), recordName(s.describe().ShellID), 0)
	}
}

func recordName(id string) string { return id + ".json" }

// Sweep removes the records of an agent that was killed: its shells have ended with
// it. Files that are not records stay.
func Sweep(dir beneath.Dir) {
	f, err := dir.List()
	if err != nil {
		return
	}
	defer f.Close()
	var old []string
	for {
		names, err := f.Readdirnames(core.NamesAtOnce)
		for _, name := range names {
			if strings.HasPrefix(name, core.StatePrefix) || isShellRecord(dir, name) {
				old = append(old, name)
			}
		}
		if err != nil {
			break
		}
	}
	for _, name := range old {
		_ = unix.Unlinkat(dir.FD(), name, 0)
	}
}

// isShellRecord reports whether a file is what save writes.
func isShellRecord(dir beneath.Dir, name string) bool {
	id, ok := strings.CutSuffix(name, ".json")
	if !ok || !core.StateName(id) {
		return false
	}
	f, err := dir.OpenFile(name, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxShellRecord {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxShellRecord))
	var r wire.Shell
	return err == nil && json.Unmarshal(text, &r) == nil && r.ShellID == id && r.State != "" && r.Cols > 0 && r.Rows > 0
}
