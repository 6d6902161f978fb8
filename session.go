package paddock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/wire"
)

// SessionOptions say how a session is opened. The zero value is a bash, or the
// sandbox's /bin/sh, in the workspace.
type SessionOptions struct {
	// ID names the session in the sandbox. Default: a random one.
	ID string
	// Shell is the shell and its arguments; it must be a POSIX shell. An empty list
	// that is not nil is an error. Default: /bin/bash, else /bin/sh.
	Shell []string
	// Dir is where the shell starts, a directory of the workspace. Default: the
	// workspace itself.
	Dir string
	// Env overrides variables of the sandbox's base environment, as "K=V".
	Env []string
	// SecretEnv names secrets of [Sandbox.SetSecrets] that become variables; Env overrides them.
	SecretEnv []string
	// Startup are commands that each new shell runs first. If one fails, the
	// session does not open. Shutdown are run when the session is closed.
	Startup, Shutdown []string
	// CommandTimeout is how long a command may run before it is ended with everything
	// it has started (30 s). StartupTimeout applies to the start of the shell and to
	// each startup command (30 s), and TerminationTimeout to the shell's end (10 s).
	// 0: the default.
	CommandTimeout, StartupTimeout, TerminationTimeout time.Duration
	// MaxLines and MaxBytes bound the stored output of a command, both streams
	// together; the rest is counted. 0: 100 lines, 1 MiB. At most 2 MiB.
	MaxLines, MaxBytes int64
	// Redact are values that are replaced by [REDACTED] in everything that is printed.
	Redact []string
}

// Session is a shell that stays open: its directory, variables, functions and options
// persist from one command to the next. All methods may be called concurrently;
// commands wait for each other.
type Session struct {
	sandbox *Sandbox
	id      string
	command time.Duration // the default timeout of a command
	startup time.Duration // how long a restart may take
	end     time.Duration // how long the close may take
	turn    chan struct{} // holds one token while no command runs
	kept    wire.Kept     // only the holder of the token may use it
}

// SessionCommand is a command for a session's shell.
type SessionCommand struct {
	// Text is what the shell runs: any number of lines.
	Text string
	// Stdin is its whole standard input. nil: empty.
	Stdin []byte
	// Timeout, MaxLines and MaxBytes, if not 0, replace the session's own.
	Timeout            time.Duration
	MaxLines, MaxBytes int64
	// TailBytes is how many bytes of the end of the output are stored too, if these
	// bounds have cut it: at most 2 MiB. 0: none.
	TailBytes int64
	// Raw leaves the output unchanged. Otherwise what is not UTF-8 becomes U+FFFD.
	Raw bool
}

// sessionGrace is added to a timeout before a sandbox whose agent does not answer is
// stopped: interrupting takes some seconds, and a new shell may have to be started.
const sessionGrace = 15 * time.Second

// OpenSession starts a session. ctx applies only to the start. If a startup command
// fails, the error is an [*Error] "Startup command '…' failed with exit code N".
func (s *Sandbox) OpenSession(ctx context.Context, opts SessionOptions) (*Session, error) {
	env, err := environment(opts.Env)
	if err != nil {
		return nil, err
	}
	if opts.ID == "" {
		opts.ID = rand.Text()
	}
	q := wire.OpenSessionRequest{
		SessionID: opts.ID, ShellCommand: opts.Shell, Cwd: wire.OSString(opts.Dir), Env: env, SecretEnv: opts.SecretEnv,
		StartupCommands: opts.Startup, ShutdownCommands: opts.Shutdown,
		CommandTimeout: opts.CommandTimeout.Seconds(), StartupTimeout: opts.StartupTimeout.Seconds(), TerminationTimeout: opts.TerminationTimeout.Seconds(),
		MaxOutputLines: opts.MaxLines, MaxOutputBytes: opts.MaxBytes, RedactValues: opts.Redact,
	}
	n := &Session{sandbox: s, id: opts.ID, turn: make(chan struct{}, 1), kept: wire.Kept{Client: &s.client}}
	n.command, n.startup = orDefault(opts.CommandTimeout, 30*time.Second), orDefault(opts.StartupTimeout, 30*time.Second)
	n.startup = times(n.startup, len(opts.Startup)+1)
	n.end = orDefault(opts.TerminationTimeout, DefaultSessionEnd) + times(n.command, len(opts.Shutdown))
	n.turn <- struct{}{}
	err = n.ask(ctx, "open the session", n.startup, func(ctx context.Context) error {
		_, err := s.client.OpenSession(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// AttachSession returns the session with this id that another client has opened in the sandbox,
// and its settings. If there is none, errors.Is(err, [ErrNotFound]) is true.
func (s *Sandbox) AttachSession(ctx context.Context, id string) (*Session, SessionOptions, error) {
	list, err := s.client.ListSessions(ctx)
	if err != nil {
		return nil, SessionOptions{}, agentError("look for session "+id, err)
	}
	for _, one := range list {
		if one.SessionID != id {
			continue
		}
		now, seconds := one.Settings, func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
		n := &Session{sandbox: s, id: id, turn: make(chan struct{}, 1), kept: wire.Kept{Client: &s.client},
			command: seconds(now.CommandTimeout), startup: seconds(now.RestartTime), end: seconds(now.CloseTime)}
		n.turn <- struct{}{}
		return n, SessionOptions{ID: id, CommandTimeout: n.command, MaxLines: now.MaxOutputLines, MaxBytes: now.MaxOutputBytes}, nil
	}
	return nil, SessionOptions{}, &Error{Message: "cannot find session " + id + " in sandbox " + s.ID(), Code: wire.CodeNotFound}
}

// Detach leaves the session open, for [Sandbox.AttachSession].
func (n *Session) Detach() {
	select {
	case <-n.turn:
		n.kept.Close()
		n.turn <- struct{}{}
	default: // a command runs
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// times multiplies without overflow.
func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > math.MaxInt64/4/time.Duration(n) {
		return math.MaxInt64 / 4
	}
	return d * time.Duration(n)
}

// ID returns the session's name in its sandbox.
func (n *Session) ID() string { return n.id }

// Run runs a command and returns how it ended, whatever its exit status. An error
// means that it could not be run. If ctx ends first, the command is interrupted as
// by its timeout, and there is a result in addition to ctx's error.
//
// If a command ends the shell (exit, exec, set -e), its result says so; after that
// Run fails until [Session.Restart].
func (n *Session) Run(ctx context.Context, c SessionCommand) (*SessionResult, error) {
	select {
	case <-n.turn:
	case <-ctx.Done():
		return nil, agentError("run the command", ctx.Err())
	}
	defer func() { n.turn <- struct{}{} }()
	q := c.request(n.id)
	limit, mark := orDefault(c.Timeout, n.command)+n.startup, n.sandbox.named.mark(ctx)
	var res *SessionResult
	err := n.ask(context.WithoutCancel(ctx), "run the command", limit, func(asked context.Context) error {
		over, late := make(chan struct{}), make(chan struct{})
		unhook := context.AfterFunc(ctx, func() {
			defer close(late)
			n.interrupt(over)
		})
		r, err := n.kept.RunSession(asked, q)
		close(over)
		if !unhook() {
			<-late // it must not meet the next command
		}
		if err == nil {
			res = newSessionResult(&r, c.Raw)
			res.Isolation = n.sandbox.Isolation()
		}
		return err
	})
	if err == nil {
		res.Denials = append(res.Denials, n.sandbox.networkDenials(ctx, mark)...)
	}
	if err == nil && res.ExitCode != 0 {
		said := []byte(res.Stderr())
		if res.StderrBytes == 0 {
			said = run.LastWords([]byte(res.Stdout()))
		}
		res.Denials = n.sandbox.hints().Denials(res.Denials, res.ExitCode, said, c.Text)
	}
	if err == nil && ctx.Err() != nil && res.Interrupted {
		err = agentError("run the command", ctx.Err())
	}
	return res, err
}

// Interrupt ends the command that runs, if one does, and keeps the session.
func (n *Session) Interrupt(ctx context.Context) error {
	_, err := wire.Call(ctx, &n.sandbox.client, wire.InterruptSession, wire.SessionRequest{SessionID: n.id})
	if err != nil {
		return agentError("interrupt the command", err)
	}
	return nil
}

// interruptAgain is how soon an interrupt is repeated that came before its command.
const interruptAgain = 10 * time.Millisecond

// interrupt interrupts a command that was sent, and may not have arrived yet, unless it is over before. The
// command's end shows whether that worked.
func (n *Session) interrupt(over <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), sessionGrace)
	defer cancel()
	for {
		r, err := wire.Call(ctx, &n.sandbox.client, wire.InterruptSession, wire.SessionRequest{SessionID: n.id})
		if err != nil || r.Interrupted {
			return
		}
		select {
		case <-over:
			return
		case <-time.After(interruptAgain):
		}
	}
}

// Restart starts a new shell for the session, and runs its startup commands. It waits
// for a command that runs.
func (n *Session) Restart(ctx context.Context) error {
	select {
	case <-n.turn:
	case <-ctx.Done():
		return agentError("restart the session", ctx.Err())
	}
	defer func() { n.turn <- struct{}{} }()
	return n.ask(ctx, "restart the session", n.startup, func(ctx context.Context) error {
		_, err := n.sandbox.client.RestartSession(ctx, n.id)
		return err
	})
}

// Close runs the shutdown commands, and ends the shell and everything it has started.
// A command that runs is interrupted. In a sandbox that has ended Close does nothing.
func (n *Session) Close() error {
	var proved bool
	err := n.ask(context.Background(), "close the session", n.end, func(ctx context.Context) error {
		r, err := n.sandbox.client.CloseSession(ctx, n.id)
		proved = r.DeathProved
		return err
	})
	<-n.turn // no command runs any more
	n.kept.Close()
	n.turn <- struct{}{}
	switch {
	case errors.Is(err, ErrClosed):
		return nil
	case err == nil && !proved:
		return &Error{Message: "cannot prove that every process of session " + n.id + " has ended"}
	}
	return err
}

// ask calls the agent. If the agent has not answered within limit and sessionGrace, the
// sandbox is stopped.
func (n *Session) ask(ctx context.Context, what string, limit time.Duration, do func(context.Context) error) error {
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	late := make(chan struct{})
	timer := time.AfterFunc(limit+sessionGrace, func() {
		defer close(late)
		_, _ = n.sandbox.force()
		cancel()
	})
	err := do(asked)
	if !timer.Stop() {
		<-late
		if err != nil {
			err = errors.New("the agent did not answer, and the sandbox was ended")
		}
	}
	if err != nil {
		return agentError(what, err)
	}
	return nil
}

// DefaultSessionTimeout is the default timeout of a session's commands.
const DefaultSessionTimeout = 30 * time.Second

// DefaultSessionEnd is how long a session's shell may take to end by itself.
const DefaultSessionEnd = 10 * time.Second

// SessionSummary is the state of a session, as the agent reports it.
type SessionSummary struct {
	State     string // ready, busy or ended
	Dir       string // of the shell, after the last command
	Commands  int64  // that were run
	Restarts  int64
	StartedAt float64 // seconds since 1970
}

// Summary asks the agent for the session's state.
func (n *Session) Summary(ctx context.Context) (SessionSummary, error) {
	list, err := n.sandbox.client.ListSessions(ctx)
	if err != nil {
		return SessionSummary{}, agentError("look at the session", err)
	}
	for _, s := range list {
		if s.SessionID == n.id {
			return SessionSummary{s.State, string(s.Cwd), s.Commands, s.Restarts, s.StartedAt}, nil
		}
	}
	return SessionSummary{}, &Error{Message: "cannot look at the session: it was closed", Code: wire.CodeNotFound}
}

// SessionResult is how a command in a session ended. The host side itself knows
// Isolation; the rest is what the agent says, checked for plausibility.
type SessionResult struct {
	// ExitCode is the command's status, -N if signal N ended the shell, or
	// [TimeoutStatus] if the command ran out of time.
	ExitCode int
	// Signal is the name of the signal that ended the shell, or empty.
	Signal string
	// TimedOut and Interrupted mean that the command was ended, with everything it
	// had started; the result has the output until then.
	TimedOut, Interrupted bool
	// Output is the stored output, in the order in which it arrived. The order within
	// each stream is exact; between the streams it is approximate.
	Output []SessionChunk
	// Tail is the end of the output if the bounds have cut it and
	// SessionCommand.TailBytes is set; Omitted bytes are missing between Output and
	// Tail.
	Tail    []SessionChunk
	Omitted int64
	// Late is the output of background jobs after the end of the previous command. Of
	// all LateBytes it has at most the first 64 KiB.
	Late      []SessionChunk
	LateBytes int64
	// How much was printed, stored or not, and whether a bound cut it.
	TotalLines, TotalBytes, StdoutBytes, StderrBytes int64
	TruncatedByLines, TruncatedByBytes               bool
	// RedactionMatches counts what the rules of Spec.Redaction have replaced;
	// Blocked names the rule that ended the output, all of which is then
	// replaced by "Output blocked: detected NAME.".
	RedactionMatches map[string]int64
	Blocked          string
	// Duration is how long the command took. UserCPU and SystemCPU are those of the
	// shell and of the children it has waited for, since the previous command.
	Duration, UserCPU, SystemCPU time.Duration
	// PeakMemory is the peak memory since the shell's start, of its whole tree
	// ("cgroup") or of its own process ("vmhwm"), in bytes; 0 if it is not known.
	PeakMemory       int64
	PeakMemorySource string
	// OOMKilled means that a process of the shell's tree was killed for lack of
	// memory, and Denials are refusals to the tree, both since the previous command;
	// see [Result].
	OOMKilled bool
	Denials   []Denial
	// Jobs counts background processes that still run.
	Jobs int
	// SurvivorsKilled counts processes that were killed when the command or the
	// shell was ended; DeathProved says that none of them is left.
	SurvivorsKilled int
	DeathProved     bool
	// StateKept means that the shell is still running with all its state. Otherwise
	// either ShellEnded is set, and no command can run until a restart, or Restarted: a
	// new shell has replaced one that could not be interrupted.
	StateKept, ShellEnded, Restarted bool
	// Dir is the shell's directory after the command.
	Dir string
	// Note describes anything unusual; mostly it is empty.
	Note string
	// Isolation is what held while the command ran, verified from outside.
	Isolation Isolation
}

// SessionChunk is a piece of output.
type SessionChunk struct {
	Stderr bool // false: it is from standard output
	Data   string
}

// Stdout returns the stored standard output.
func (r *SessionResult) Stdout() string { return r.stream(false) }

// Stderr returns the stored standard error.
func (r *SessionResult) Stderr() string { return r.stream(true) }

func (r *SessionResult) stream(stderr bool) string {
	var b strings.Builder
	for _, c := range r.Output {
		if c.Stderr == stderr {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// request returns the request for the agent.
func (c SessionCommand) request(id string) wire.RunSessionRequest {
	q := wire.RunSessionRequest{SessionID: id, Command: wire.OSString(c.Text), Timeout: c.Timeout.Seconds(),
		MaxOutputLines: c.MaxLines, MaxOutputBytes: c.MaxBytes, MaxTailBytes: c.TailBytes, Stdin: string(c.Stdin)}
	if c.Raw {
		q.Encoding = "base64"
		q.Stdin = base64.StdEncoding.EncodeToString(c.Stdin)
	}
	return q
}

// newSessionResult returns the agent's answer, which the wire client has checked, as a
// SessionResult.
func newSessionResult(r *wire.RunSessionResult, raw bool) *SessionResult {
	n := &SessionResult{
		ExitCode: r.ExitCode, TimedOut: r.TimedOut, Interrupted: r.Interrupted,
		LateBytes: r.LateBytes, TotalLines: r.TotalLines, TotalBytes: r.TotalBytes, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		TruncatedByLines: r.TruncatedByLines, TruncatedByBytes: r.TruncatedByBytes,
		RedactionMatches: r.RedactionMatches, Blocked: r.Blocked,
		Duration: milliseconds(r.DurationUS / 1000), UserCPU: milliseconds(r.UserCPUMS), SystemCPU: milliseconds(r.SystemCPUMS),
		PeakMemory: r.PeakMemoryBytes, PeakMemorySource: r.PeakMemorySource, Jobs: r.Jobs,
		OOMKilled: r.OOMKilled, Denials: r.Denials,
		SurvivorsKilled: r.SurvivorsKilled, DeathProved: r.DeathProved,
		StateKept: r.StateKept, ShellEnded: r.ShellEnded, Restarted: r.Restarted, Dir: string(r.Cwd), Note: r.Note,
	}
	n.Duration += time.Duration(r.DurationUS%1000) * time.Microsecond
	n.Signal = run.SignalName(r.ExitCode)
	n.Output, n.Late = sessionChunks(r.Output, raw), sessionChunks(r.Late, false)
	n.Tail, n.Omitted = sessionChunks(r.Tail, raw), r.OmittedBytes
	return n
}

func sessionChunks(list []wire.SessionChunk, raw bool) []SessionChunk {
	chunks := make([]SessionChunk, 0, len(list))
	for _, c := range list {
		data := c.Data
		if raw {
			b, _ := base64.StdEncoding.DecodeString(data) // the client has tried it
			data = string(b)
		}
		chunks = append(chunks, SessionChunk{Stderr: c.Stream == "stderr", Data: data})
	}
	return chunks
}
