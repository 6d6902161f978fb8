package session

import (
	"cmp"
	"context"
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

// session is a session: its present shell, and the request that opened it.
type session struct {
	box      *core.Sandbox
	request  *wire.OpenSessionRequest
	redactor *core.Redactor
	turn     chan struct{} // holds a value while no caller uses the shell
	stop     chan struct{} // gets a value to interrupt the command that runs

	mu      sync.Mutex
	shell   *shell // nil once the last one has ended and was released
	summary wire.Session
	busy    bool // a command runs
}

// duration converts a checked timeout, which is in seconds.
func duration(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// describe returns the current summary, without secrets.
func (s *session) describe() *wire.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.summary
	r.Cwd = wire.OSString(s.redactor.Text(string(r.Cwd)))
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

// acquire waits until no other caller uses the shell.
func (s *session) acquire(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return &wire.Error{Code: wire.CodeGone, Object: s.request.SessionID, Message: "cannot wait for the session: the client has gone"}
	}
}

func (s *session) release() { s.turn <- struct{}{} }

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
	s.shell, s.summary.ExitCode, s.summary.Cwd = h, nil, wire.OSString(cwd.Text)
	s.mu.Unlock()
	if err = h.boot(duration(q.StartupTimeout)); err == nil {
		err = s.startup(ctx, h)
	}
	if err != nil {
		s.endShell(true)
	}
	h.process.Denied.Take() // these belong to no command of a client
	return err
}

// boot makes the shell put its descriptors in place.
func (h *shell) boot(limit time.Duration) error {
	word := h.expect()
	_, _ = h.input.WriteString(bootLine(word))
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-h.reportCame:
			r, ok := h.reported()
			if !ok {
				continue
			}
			h.bash = r.flags == "bash"
			h.drain()
			h.output.begin(lateRecord()) // drops the prompt, and the shell's messages about the missing terminal
			return nil
		case <-h.process.Done:
			status := "exit status " + strconv.Itoa(h.process.Status.ExitStatus())
			if h.process.Status.Signaled() {
				status = unix.SignalName(h.process.Status.Signal())
			}
			return &wire.Error{Code: wire.CodeStart, Message: "cannot start the session: its shell has ended with " + status,
				Hint: "it must be a POSIX shell that reads commands from its standard input and takes the option -i"}
		case <-timer.C:
			return &wire.Error{Code: wire.CodeTimeout, Message: "cannot start the session: its shell does not answer",
				Hint: "it must be a POSIX shell that reads commands from its standard input and takes the option -i"}
		}
	}
}

// startup runs the startup commands. It fails with the first of them that fails.
func (s *session) startup(ctx context.Context, h *shell) error {
	limit := duration(s.request.StartupTimeout)
	for _, text := range s.request.StartupCommands {
		rec := newRecord(s.request.MaxOutputLines, defaultOutput, 0, "")
		out, err := h.do(ctx, command{text: text, timeout: limit, record: rec})
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
			h.output.begin(lateRecord()) // completes the record
			e := &wire.Error{Code: wire.CodeConflict, Object: "startup_commands",
				Message: "Startup command '" + core.ShortName(text) + "' failed with exit code " + status}
			if out.timedOut {
				e.Hint = "it took longer than " + limit.String() + ", the startup timeout"
			} else if printed := strings.TrimSpace(rec.text()); printed != "" {
				e.Hint = "it printed: " + strings.ReplaceAll(core.ShortName(printed), "`", "'") // no field of a spec
			}
			return e
		}
		h.settleJobs()
	}
	h.output.begin(lateRecord())
	return nil
}

// endShell releases a shell that has ended. With kill, it kills a shell that has not.
func (s *session) endShell(kill bool) (killed int, proved bool) {
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
	<-h.dead
	code := spawn.ExitCode(h.process.Status)
	s.mu.Lock()
	s.shell, s.summary.ExitCode = nil, &code
	s.mu.Unlock()
	h.release()
	return killed + h.killed, h.proved
}

// run runs one command. The caller has acquired the session.
func (s *session) run(ctx context.Context, q *wire.RunSessionRequest, stdin []byte) (*wire.RunSessionResult, error) {
	s.mu.Lock()
	h := s.shell
	s.mu.Unlock()
	if h == nil || h.ended() {
		s.endShell(false)
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
	out, err := h.do(ctx, command{text: string(q.Command), stdin: stdin, record: rec, stop: s.stop,
		timeout: duration(cmp.Or(q.Timeout, own.CommandTimeout))})
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

// result returns the result of a command. If the shell had to be killed, it starts
// another.
func (s *session) result(ctx context.Context, h *shell, out outcome, rec *record, q *wire.RunSessionRequest) *wire.RunSessionResult {
	jobs := 0
	if out.reported {
		jobs = h.settleJobs()
	}
	late := lateRecord()
	h.output.begin(late) // completes the record
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
		s.summary.Cwd = wire.OSString(text.Truncate(h.cwd, unix.PathMax))
		s.mu.Unlock()
	} else {
		r.ExitCode = spawn.ExitCode(h.process.Status)
		if h.process.Status.Signaled() {
			r.Signal = unix.SignalName(h.process.Status.Signal())
		}
		s.endShell(false)
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
		r.Note = "the shell stopped answering, and was killed with all its state"
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

// account fills in the resources that a command used, and returns the limits that it
// reached. It may count the use of a short command with the next one.
func (s *session) account(h *shell, r *wire.RunSessionResult) (b core.Bounds) {
	group := h.process.Mark.Stats()
	if h.ended() {
		<-h.dead
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
	short := r.DurationUS < spawn.FirstSample.Microseconds() && group.CPU == nil && !h.ended()
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

// cpu returns the processor time that the shell and the children it has waited for
// used or, if a control group counts it, that of its whole tree.
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
		for _, text := range q.ShutdownCommands { // the session closes even if one fails
			out, err := h.do(ctx, command{text: text, timeout: duration(q.CommandTimeout), record: newRecord(0, 0, 0, "")})
			if err != nil || !out.reported {
				break
			}
		}
		limit := duration(q.TerminationTimeout)
		_ = h.input.SetWriteDeadline(time.Now().Add(limit))
		_, _ = h.input.WriteString("\\exit 0\n")
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-h.process.Done:
		case <-timer.C:
		}
	}
	res.Killed, res.DeathProved = s.endShell(true)
	res.Session = *s.describe()
	return res
}
