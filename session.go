package paddock

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// SessionOptions say how a session is opened. The zero value is a bash, or the
// sandbox's /bin/sh, in the workspace.
type SessionOptions struct {
	// ID names the session in the sandbox. Default: a random one.
	ID string
	// Shell is the shell and its arguments; it must be a POSIX shell. Not nil
	// and empty is an error. Default: /bin/bash, else /bin/sh.
	Shell []string
	// Dir is where the shell begins, a directory of the workspace. Default: the
	// workspace itself.
	Dir string
	// Env is laid over the sandbox's base environment, as "K=V".
	Env []string
	// Startup are commands that each new shell runs first; one that fails keeps
	// the session from opening. Shutdown are run when the session is closed.
	Startup, Shutdown []string
	// CommandTimeout ends a command with all it has started (30 s). StartupTimeout
	// bounds the start of the shell and each startup command (30 s), and
	// TerminationTimeout the shell's end (10 s). 0: the default.
	CommandTimeout, StartupTimeout, TerminationTimeout time.Duration
	// MaxLines and MaxBytes bound what is kept of a command's output, both
	// streams together; the rest is counted. 0: 100 lines, 1 MiB. At most 2 MiB.
	MaxLines, MaxBytes int64
	// Redact are values that are replaced by [REDACTED] in all that is printed.
	Redact []string
}

// Session is one shell that stays: its directory, variables, functions and
// options persist from one command to the next. All methods may be called
// concurrently; commands wait for each other.
type Session struct {
	sandbox *Sandbox
	id      string
	command time.Duration // the timeout of a command that has none of its own
	startup time.Duration // what a restart may take
	end     time.Duration // what the close may take
	turn    chan struct{} // holds one token while no command runs
	kept    wire.Kept     // whose turn it is may use it
}

// SessionCommand is a command for a session's shell.
type SessionCommand struct {
	// Text is what the shell runs: any number of lines.
	Text string
	// Stdin is its whole standard input. nil: empty.
	Stdin []byte
	// Timeout, MaxLines and MaxBytes take the place of the session's own where
	// they are not 0.
	Timeout            time.Duration
	MaxLines, MaxBytes int64
	// TailBytes has the end of the output kept too, where these have cut it: so
	// many bytes, at most 2 MiB. 0: none.
	TailBytes int64
	// Raw gives output as it is. Else what is not UTF-8 becomes U+FFFD.
	Raw bool
}

// What is added to a timeout before an agent that does not answer costs the
// sandbox its life: interrupting takes some seconds, and starting a shell anew
// may follow.
const sessionGrace = 15 * time.Second

// OpenSession starts a session. ctx bounds the start alone. A startup command
// that fails is an [*Error] "Startup command '…' failed with exit code N".
func (s *Sandbox) OpenSession(ctx context.Context, opts SessionOptions) (*Session, error) {
	env, err := environment(opts.Env)
	if err != nil {
		return nil, err
	}
	if opts.ID == "" {
		opts.ID = rand.Text()
	}
	q := wire.OpenSessionRequest{
		SessionID: opts.ID, ShellCommand: opts.Shell, Cwd: wire.Path(opts.Dir), Env: env,
		StartupCommands: opts.Startup, ShutdownCommands: opts.Shutdown,
		CommandTimeout: opts.CommandTimeout.Seconds(), StartupTimeout: opts.StartupTimeout.Seconds(), TerminationTimeout: opts.TerminationTimeout.Seconds(),
		MaxOutputLines: opts.MaxLines, MaxOutputBytes: opts.MaxBytes, RedactValues: opts.Redact,
	}
	q.Redaction = s.redaction()
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

// ID is the session's name in its sandbox.
func (n *Session) ID() string { return n.id }

// Run runs a command and returns how it ended, whatever its exit status: an
// error says that it could not be run. Where ctx ends first, the command is
// interrupted as by its timeout, and there is a result beside ctx's error.
//
// A command that ends the shell (exit, exec, set -e) says so in its result;
// after that Run is refused until [Session.Restart].
func (n *Session) Run(ctx context.Context, c SessionCommand) (*SessionResult, error) {
	select {
	case <-n.turn:
	case <-ctx.Done():
		return nil, agentError("run the command", ctx.Err())
	}
	defer func() { n.turn <- struct{}{} }()
	q := c.request(n.id)
	limit := orDefault(c.Timeout, n.command) + n.startup
	var res *SessionResult
	err := n.ask(context.WithoutCancel(ctx), "run the command", limit, func(asked context.Context) error {
		defer context.AfterFunc(ctx, n.interrupt)()
		r, err := n.kept.RunSession(asked, q)
		if err == nil {
			res = newSessionResult(&r, c.Raw)
			res.Isolation = n.sandbox.Isolation()
		}
		return err
	})
	if err == nil && res.ExitCode != 0 {
		said := []byte(res.Stderr())
		if res.StderrBytes == 0 {
			said = lastWords([]byte(res.Stdout()))
		}
		res.Denials = n.sandbox.guess(res.Denials, res.ExitCode, said, c.Text)
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

// interrupt is for who cannot wait: what comes of it, the command's end tells.
func (n *Session) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), sessionGrace)
	defer cancel()
	_ = n.Interrupt(ctx)
}

// Restart gives the session a new shell, and runs its startup commands. A
// command that runs is waited for.
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

// Close runs the shutdown commands, and ends the shell and all it has started.
// A command that runs is interrupted. In a sandbox that has ended there is
// nothing left to close.
func (n *Session) Close() error {
	var proved bool
	err := n.ask(context.Background(), "close the session", n.end, func(ctx context.Context) error {
		r, err := n.sandbox.client.CloseSession(ctx, n.id)
		proved = r.DeathProved
		return err
	})
	<-n.turn // what has run is over
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

// ask calls the agent, which has so long to answer, and some time more: one that
// does not answer costs the sandbox its life.
func (n *Session) ask(ctx context.Context, what string, limit time.Duration, do func(context.Context) error) error {
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	late := make(chan struct{})
	timer := time.AfterFunc(limit+sessionGrace, func() {
		defer close(late)
		_, _ = n.sandbox.stop()
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

// DefaultSessionTimeout is that of a session's commands.
const DefaultSessionTimeout = 30 * time.Second

// DefaultSessionEnd is the time that a session's shell has to end by itself.
const DefaultSessionEnd = 10 * time.Second

// SessionSummary is what a session is now, by the agent's word.
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
