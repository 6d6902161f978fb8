package session

import (
	"cmp"
	"context"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// session is one shell at a time, and what it was opened with.
type session struct {
	box      *core.Sandbox
	request  *wire.OpenSessionRequest
	redactor *core.Redactor
	turn     chan struct{} // holds one token while nobody uses the shell
	stop     chan struct{} // gets one to interrupt the command that runs

	mu      sync.Mutex
	shell   *shell // nil where the last one has ended and was buried
	summary wire.Session
	busy    bool // a command runs
}

// span converts a checked timeout, which is in seconds.
func span(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// describe returns the summary, as it is now.
func (s *session) describe() *wire.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.summary
	r.Cwd = wire.Path(s.redactor.Text(string(r.Cwd)))
	switch {
	case s.shell == nil || s.shell.ended():
		r.State = "ended"
	case s.busy:
		r.State = "busy"
	default:
		r.State = "ready"
	}
	return &r
}

// take waits for the shell to be free.
func (s *session) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return &wire.Error{Code: wire.CodeGone, Object: s.request.SessionID, Message: "cannot wait for the session: the client has gone"}
	}
}

func (s *session) give() { s.turn <- struct{}{} }

// start starts the shell, and runs the startup commands in it.
func (s *session) start(ctx context.Context) error {
	q := s.request
	cwd, dir, err := s.box.WorkingDirectory(string(q.Cwd))
	if err != nil {
		return err
	}
	defer dir.Close()
	c, werr := shellCommand(s.box, q, s.box.RealPath(cwd))
	if werr != nil {
		return werr
	}
	h, err := startShell(s.box, q.SessionID, c, dir, s.redactor)
	if err != nil {
		return core.StartError(c.Argv[0], c.Dir, err)
	}
	s.mu.Lock()
	s.shell, s.summary.ExitCode, s.summary.Cwd = h, nil, wire.Path(cwd.Text)
	s.mu.Unlock()
	if err = h.boot(span(q.StartupTimeout)); err == nil {
		err = s.startup(ctx, h)
	}
	if err != nil {
		s.bury(true)
	}
	h.process.Denied.Take() // what no command has met
	return err
}

// boot has the shell put its descriptors in place.
func (h *shell) boot(limit time.Duration) error {
	word := h.expect()
	_, _ = h.input.WriteString(bootLine(word))
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-h.heard:
			r, ok := h.reported()
			if !ok {
				continue
			}
			h.bash = r.flags == "bash"
			h.drain()
			h.output.begin(lateRecord()) // the prompt, and what the shell has to say about terminals
			return nil
		case <-h.process.Done:
			return &wire.Error{Code: wire.CodeStart, Message: "cannot start the session: its shell has ended with " + describeStatus(h.process.Status),
				Hint: "it must be a POSIX shell that reads commands from its standard input and takes the option -i"}
		case <-timer.C:
			return &wire.Error{Code: wire.CodeTimeout, Message: "cannot start the session: its shell does not answer",
				Hint: "it must be a POSIX shell that reads commands from its standard input and takes the option -i"}
		}
	}
}

func describeStatus(status unix.WaitStatus) string {
	if status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	return "exit status " + strconv.Itoa(status.ExitStatus())
}

// startup runs the startup commands, of which none may fail.
func (s *session) startup(ctx context.Context, h *shell) error {
	for _, text := range s.request.StartupCommands {
		rec := newRecord(s.request.MaxOutputLines, defaultOutput, 0, "")
		out, err := h.do(ctx, order{text: text, timeout: span(s.request.StartupTimeout), record: rec})
		if err != nil {
			return err
		}
		status := strconv.Itoa(h.state.status)
		if !out.reported {
			status = strconv.Itoa(spawn.ExitCode(h.process.Status))
		}
		if out.timedOut {
			status = "None"
		}
		if status != "0" || !out.reported {
			h.output.begin(lateRecord()) // the record is complete
			return &wire.Error{Code: wire.CodeConflict, Object: "startup_commands", Hint: startupHint(out, s.request.StartupTimeout, rec),
				Message: "Startup command '" + core.ShortName(text) + "' failed with exit code " + status}
		}
		h.settleJobs()
	}
	h.output.begin(lateRecord())
	return nil
}

// startupHint returns why a startup command has failed, as far as it can be seen.
func startupHint(out ending, limit float64, rec *record) string {
	if out.timedOut {
		return "it took longer than " + span(limit).String() + ", the startup timeout"
	}
	if said := strings.TrimSpace(rec.text()); said != "" {
		return "it printed: " + core.ShortName(said)
	}
	return ""
}

// bury gives up a shell that has ended, or that is to end now.
func (s *session) bury(kill bool) (killed int, proved bool) {
	s.mu.Lock()
	h := s.shell
	s.mu.Unlock()
	if h == nil {
		return 0, true
	}
	if kill && !h.ended() {
		killed, _ = s.box.Trees.Kill(h.process.Mark)
	}
	_ = h.input.SetWriteDeadline(time.Unix(1, 0))
	<-h.lives
	code := spawn.ExitCode(h.process.Status)
	s.mu.Lock()
	s.shell, s.summary.ExitCode = nil, &code
	s.mu.Unlock()
	h.release()
	return killed + h.killed, h.proved
}

// run runs one command, whose turn it is.
func (s *session) run(ctx context.Context, q *wire.RunSessionRequest, stdin []byte) (*wire.RunSessionResult, error) {
	s.mu.Lock()
	h := s.shell
	s.mu.Unlock()
	if h == nil || h.ended() {
		s.bury(false)
		id := s.request.SessionID
		return nil, &wire.Error{Code: wire.CodeConflict, Object: id, Message: "session " + id + " is not running: its shell has ended",
			Hint: "restart it, which starts a new shell without the state of the old one"}
	}
	select {
	case <-s.stop:
	default:
	}
	s.setBusy(true)
	defer s.setBusy(false)
	own := s.request
	rec := newRecord(cmp.Or(q.MaxOutputLines, own.MaxOutputLines), cmp.Or(q.MaxOutputBytes, own.MaxOutputBytes, defaultOutput), q.MaxTailBytes, q.Encoding)
	out, err := h.do(ctx, order{text: q.Command, stdin: stdin, record: rec, stop: s.stop,
		timeout: span(cmp.Or(q.Timeout, own.CommandTimeout))})
	if err != nil {
		return nil, err
	}
	return s.result(ctx, h, out, rec, q), nil
}

func (s *session) setBusy(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = busy
	if busy {
		s.summary.Commands++
	}
}

// result tells how a command ended, and starts another shell where the
// command has cost the session its own.
func (s *session) result(ctx context.Context, h *shell, out ending, rec *record, q *wire.RunSessionRequest) *wire.RunSessionResult {
	jobs := 0
	if out.reported {
		jobs = h.settleJobs()
	}
	late := lateRecord()
	h.output.begin(late) // lets go of what was held back
	r := &wire.RunSessionResult{SessionID: s.request.SessionID, Encoding: q.Encoding, Output: rec.output(),
		TimedOut: out.timedOut, Interrupted: out.interrupted, DurationUS: out.took.Microseconds(),
		TotalLines: rec.totalLines, StdoutBytes: rec.total[stdoutStream], StderrBytes: rec.total[stderrStream],
		TruncatedByLines: rec.byLines, TruncatedByBytes: rec.byBytes, Jobs: jobs,
		RedactionMatches: rec.matches, Blocked: rec.blocked,
		SurvivorsKilled: out.killed, DeathProved: out.proved, StateKept: out.reported, ShellEnded: !out.reported}
	r.TotalBytes = r.StdoutBytes + r.StderrBytes
	if q.MaxTailBytes > 0 {
		r.Tail, r.OmittedBytes = rec.end()
	}
	if out.late.total[0]+out.late.total[1] > 0 {
		r.Late, r.LateBytes = out.late.output(), out.late.total[0]+out.late.total[1]
	}
	b := s.account(h, r)
	if out.rescued {
		r.Note = "a function with the name builtin was removed: the session cannot work beside it"
	}
	if out.reported {
		r.ExitCode = h.state.status
		s.mu.Lock()
		s.summary.Cwd = wire.Path(text.Truncate(h.cwd, unix.PathMax))
		s.mu.Unlock()
	} else {
		r.ExitCode = spawn.ExitCode(h.process.Status)
		if h.process.Status.Signaled() {
			r.Signal = unix.SignalName(h.process.Status.Signal())
		}
		s.bury(false)
		if out.broken || out.timedOut || out.interrupted {
			s.replace(ctx, r)
		}
	}
	if r.Denials = s.box.Denials(h.process, b); out.timedOut {
		r.ExitCode = 124
		r.Denials = append(r.Denials, wire.Denial{Layer: "limit", Rule: "timeout", Hint: "give it more time, with timeout"})
	}
	r.Cwd = s.describe().Cwd
	return r
}

// replace starts another shell in place of one that was killed.
func (s *session) replace(ctx context.Context, r *wire.RunSessionResult) {
	r.Note = "the shell did not let itself be interrupted, and was killed with all its state"
	if !r.TimedOut && !r.Interrupted {
		r.Note = "the shell could not be spoken to any more, and was killed with all its state"
	}
	if err := s.start(context.WithoutCancel(ctx)); err != nil {
		r.Note += "; no other could be started: " + s.redactor.Text(err.Error())
		return
	}
	r.ShellEnded, r.Restarted = false, true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.summary.Restarts++
}

// account fills in what was used, and returns which limits were met. What is short
// takes little: it counts with what comes next.
func (s *session) account(h *shell, r *wire.RunSessionResult) (b core.Bounds) {
	group := h.process.Mark.Stats()
	if h.ended() {
		<-h.lives
		group = h.used // its group may be gone
	}
	b.Ended = r.TimedOut || r.Interrupted
	if l := s.request.Limits; l != nil {
		b.Asked = *l
	}
	if p := group.Pids; p != nil {
		b.ForksRefused, h.refused = p.Refused > h.refused, p.Refused
	}
	if m := group.Memory; m != nil {
		r.OOMKilled, h.oomKills = m.OOMKills > h.oomKills, m.OOMKills
		b.OOMKilled = r.OOMKilled
	}
	short := r.DurationUS < spawn.FirstLook.Microseconds() && group.CPU == nil && !h.ended()
	if !short {
		user, system := h.cpu(group)
		r.UserCPUMS, r.SystemCPUMS = max(0, user-h.user), max(0, system-h.system)
		h.user, h.system = max(user, h.user), max(system, h.system)
	}
	if m := group.Memory; m != nil && m.Peak != nil {
		r.PeakMemoryBytes, r.PeakMemorySource = *m.Peak, spawn.SourceGroup
		return b
	}
	if h.peak == 0 || !short {
		h.peak = max(h.peak, s.box.Trees.HighWater(h.process.PID))
	}
	if h.peak > 0 {
		r.PeakMemoryBytes, r.PeakMemorySource = h.peak, "vmhwm"
	}
	return b
}

// cpu returns the processor time that the shell and what it has waited for took, or
// its whole tree where a control group counts that.
func (h *shell) cpu(group cgroup.Stats) (user, system int64) {
	if h.ended() {
		u := h.process.Usage
		return u.Utime.Nano() / int64(time.Millisecond), u.Stime.Nano() / int64(time.Millisecond)
	}
	if c := group.CPU; c != nil {
		return c.User.Milliseconds(), c.System.Milliseconds()
	}
	if user, system, ok := h.box.Trees.CPU(h.process.PID); ok {
		return user, system
	}
	return h.user, h.system
}

// close runs the shutdown commands, asks the shell to end, and ends it.
func (s *session) close(ctx context.Context) *wire.CloseSessionResult {
	q := s.request
	s.mu.Lock()
	h := s.shell
	s.mu.Unlock()
	res := &wire.CloseSessionResult{Closed: true, DeathProved: true}
	if h != nil && !h.ended() {
		for _, text := range q.ShutdownCommands { // of which none can keep the session open
			out, err := h.do(ctx, order{text: text, timeout: span(q.CommandTimeout), record: newRecord(0, 0, 0, "")})
			if err != nil || !out.reported {
				break
			}
		}
		h.leave(span(q.TerminationTimeout))
	}
	res.Killed, res.DeathProved = s.bury(true)
	res.Session = *s.describe()
	return res
}

// leave asks the shell to end, and waits so long for it.
func (h *shell) leave(limit time.Duration) {
	_ = h.input.SetWriteDeadline(time.Now().Add(limit))
	_, _ = h.input.WriteString("\\exit 0\n")
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.process.Done:
	case <-timer.C:
	}
}

// decodeStdin returns a command's standard input.
func decodeStdin(q *wire.RunSessionRequest) ([]byte, error) {
	if q.Encoding != "base64" {
		return []byte(q.Stdin), nil
	}
	raw, err := base64.StdEncoding.DecodeString(q.Stdin)
	if err != nil {
		return nil, core.BadField("stdin", "stdin must be base64")
	}
	return raw, nil
}
