package paddock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/wire"
)

// Cmd is a command to run in a sandbox. Its fields and methods are those of
// os/exec as far as possible; the comments say what differs. A Cmd can be
// started once. Set the fields before that. Afterwards Wait, Signal and Resize
// may be called concurrently.
type Cmd struct {
	// Args holds the command and its arguments. A command without a slash is
	// looked up in the PATH that it is given, inside the sandbox.
	Args []string
	// Env is the whole environment as "K=V"; if a key is repeated, the last one
	// counts. nil: the sandbox's base environment, overridden by Spec.Env.
	Env []string
	// AddEnv overrides variables of Env, or of its default, as "K=V".
	AddEnv []string
	// SecretEnv names secrets of [Sandbox.SetSecrets] that become variables; Env and AddEnv
	// override them.
	SecretEnv []string
	// Dir is the working directory inside, relative to the workspace or
	// absolute. Default: the workspace.
	Dir string
	// Stdin is the standard input. nil: empty. Wait does not wait for it: if the
	// command ends early, the rest is not read, and what was read in advance
	// (256 KiB at most) is lost.
	Stdin io.Reader
	// Stdout and Stderr get the output as it comes. nil: dropped. If both are the
	// same value, its Write is never called concurrently. On Linux, with an agent on
	// this host, without TTY and Spec.Redaction, that writer gets the output of both
	// streams in the order in which it was printed. If a Write fails, the command
	// gets SIGPIPE, as with a closed pipe, and 2 seconds later SIGKILL, and Wait
	// returns the failure. A Write that blocks also blocks the command and Wait, but
	// not beyond Timeout or ctx's end.
	Stdout, Stderr io.Writer
	// Timeout is how long the command may run until its whole tree is killed.
	// 0: without limit. [Sandbox.Command] sets it from Spec.Limits. If the agent has
	// not answered 2 seconds after it, the whole sandbox is stopped from outside.
	Timeout time.Duration
	// TTY gives the command a terminal of this size, made inside the sandbox.
	// Its output arrives on Stdout, and Stderr stays empty. nil: no terminal.
	TTY *TTY
	// Detach lets processes that the command leaves behind continue until the
	// sandbox closes. By default they are killed when the command exits.
	Detach bool

	sandbox     *Sandbox
	ctx         context.Context
	run         *run.Run // nil until started
	mark        uint64   // the last record of the network before the start
	ended       sync.Once
	result      *Result
	err         error
	outBuf      *Capture    // what Output or CombinedOutput has captured of Stdout
	errBuf      *Capture    // what Output has captured of Stderr
	unexplained bool        // its own failure is not explained, as it explains another one
	pipes       []io.Closer // the caller's ends, closed by Wait
	inside      []io.Closer // our ends, closed when the command has ended
	waited      bool
}

// Command prepares a command. When ctx ends before the command does, the
// command's whole tree is killed, and Wait returns an error that wraps
// ctx.Err(). As with os/exec, a nil ctx panics.
func (s *Sandbox) Command(ctx context.Context, name string, args ...string) *Cmd {
	if ctx == nil {
		panic("paddock: nil Context")
	}
	return &Cmd{
		Args:    append([]string{name}, args...),
		Timeout: time.Duration(s.spec.Limits.Timeout),
		sandbox: s,
		ctx:     ctx,
	}
}

// Run starts the command and waits for its end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Start starts the command and does not wait for it. The error is [ErrNotFound] if the
// command does not exist, [ErrNotExecutable] if it cannot be executed, and [ErrClosed] if
// the sandbox has ended. After success Wait must be called.
func (c *Cmd) Start() error {
	if c.run != nil {
		return errors.New("cannot start the command: it was started before")
	}
	req, err := c.request()
	if err == nil {
		what := "start " + strconv.Quote(c.Args[0])
		if err = c.ctx.Err(); err == nil {
			c.mark = c.sandbox.named.mark(c.ctx)
			c.run, err = run.Start(c.ctx, run.Command{Client: &c.sandbox.client, Request: req, Timeout: c.Timeout, Grace: Grace,
				Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Inside: c.inside, Stop: c.sandbox.force})
		}
		if err != nil {
			if err = agentError(what, err); !c.unexplained {
				err = c.sandbox.explainMissing(err, c.Args[0], c.Dir)
			}
		}
	}
	if err != nil {
		c.closeAll()
	}
	return err
}

// explainMissing adds a hint to the error of a command that does not exist, or cannot be
// executed: where its program is, if that is known. dir is the working directory.
func (s *Sandbox) explainMissing(err error, name, dir string) error {
	e, missing := (*Error)(nil), errors.Is(err, ErrNotFound)
	if !missing && !errors.Is(err, ErrNotExecutable) || !errors.As(err, &e) || !missing && e.Hint != "" || s.spec.Commands != nil {
		return err
	}
	if hint := s.hints().MissingProgram(name, dir, !missing); hint != "" {
		return &Error{Message: e.Message, Hint: hint, Code: e.Code}
	}
	return err
}

// block replaces the captured output, if a rule has ended it.
func (c *Cmd) block(rule string) {
	if rule == "" {
		return
	}
	text := []byte(redact.BlockedText(rule))
	for i, w := range []io.Writer{c.Stdout, c.Stderr} {
		if k := keptBy(w); k != nil && (i == 0 || !wire.SameWriter(w, c.Stdout)) {
			k.Replace(text)
			text = nil
		}
	}
}

// Wait waits for the command to end and for its output to be written. It
// returns nil for exit status 0 and an [*ExitError] if the command ended in any
// other way.
func (c *Cmd) Wait() error {
	if c.run == nil {
		return errors.New("cannot wait for the command: it was not started")
	}
	if c.waited {
		return errors.New("cannot wait for the command: Wait was called before")
	}
	c.waited = true
	<-c.run.Done()
	c.closeAll()
	result, err := c.end()
	if result != nil {
		c.block(result.Blocked)
		result.StdoutTruncated = c.outBuf != nil && c.outBuf.Truncated()
		result.StderrTruncated = c.errBuf != nil && c.errBuf.Truncated()
		result.Denials = append(result.Denials, c.sandbox.networkDenials(c.ctx, c.mark)...)
		if !result.Success() && !c.unexplained {
			result.Denials = c.sandbox.hints().Denials(result.Denials, result.ExitCode, c.said(result), c.String())
		}
	}
	if result == nil || result.Success() {
		return err
	}
	return &ExitError{Result: result, cause: err}
}

// said returns the stored error output of the command. If that is empty, it returns the end
// of the output, to which the command may have redirected its errors. If one writer gets
// both streams, it returns all that this writer has stored.
func (c *Cmd) said(r *Result) []byte {
	for _, w := range []io.Writer{c.Stderr, c.errBuf} {
		if k := keptBy(w); k != nil && r.StderrBytes > 0 {
			return k.Bytes()
		}
	}
	for _, w := range []io.Writer{c.Stdout, c.outBuf} {
		if k := keptBy(w); k != nil && r.StderrBytes == 0 {
			if wire.SameWriter(w, c.Stderr) {
				return k.Bytes()
			}
			return run.LastWords(k.Bytes())
		}
	}
	return nil
}

// end returns the result of a command that has ended, and any other error.
func (c *Cmd) end() (*Result, error) {
	c.ended.Do(func() {
		out := c.run.Outcome()
		if out.Result == nil {
			c.err = errors.Join(out.Cause, agentError("run the command", out.Err))
			return
		}
		c.result = newResult(*out.Result)
		c.result.StdoutBytes, c.result.StderrBytes = out.StdoutBytes, out.StderrBytes
		c.result.Isolation = c.sandbox.Isolation()
		c.err = errors.Join(out.Cause, out.Err)
	})
	return c.result, c.err
}

// Result returns how the command ended. It is nil before Wait has returned, and
// if the end is not known because the sandbox broke.
func (c *Cmd) Result() *Result {
	if c.run == nil {
		return nil
	}
	select {
	case <-c.run.Done():
		result, _ := c.end()
		return result
	default:
		return nil
	}
}

// Signal sends a signal, "INT" or "SIGINT", to the command, not to its children.
// With a terminal it goes to the terminal's foreground process group.
func (c *Cmd) Signal(name string) error { return c.signal(name, (*run.Run).Signal) }

// SignalGroup sends a signal to the command's process group, as a terminal does for a key.
func (c *Cmd) SignalGroup(name string) error { return c.signal(name, (*run.Run).SignalGroup) }

func (c *Cmd) signal(name string, send func(*run.Run, string) error) error {
	if c.run == nil {
		return errors.New("cannot signal the command: it was not started")
	}
	if !run.IsSignal(name) {
		return &Error{Message: "cannot signal the command: there is no signal " + strconv.Quote(name), Code: wire.CodeBadRequest}
	}
	if err := send(c.run, name); err != nil {
		return agentError("signal the command", err)
	}
	return nil
}

// Resize changes the size of a command's terminal.
func (c *Cmd) Resize(rows, cols uint16) error {
	if c.run == nil || c.TTY == nil {
		return errors.New("cannot resize the terminal: the command has none")
	}
	if err := c.run.Resize(rows, cols); err != nil {
		return agentError("resize the terminal", err)
	}
	return nil
}

// String returns the command and its arguments, for people, without quotes.
func (c *Cmd) String() string { return strings.Join(c.Args, " ") }

// closeAll closes both ends of every pipe; os.File allows a second Close.
func (c *Cmd) closeAll() {
	for _, p := range c.pipes {
		_ = p.Close()
	}
	for _, p := range c.inside {
		_ = p.Close()
	}
}

// Output runs the command and returns its standard output. Unlike os/exec it
// keeps at most Limits.Output of the spec (default 1 MiB). If there is more, it
// keeps the head and the tail around a note of how much is left out, and
// Result().StdoutTruncated is set. If the command fails and Stderr was nil, the
// ExitError has standard error, bounded in the same way.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("cannot capture the output: Stdout is set")
	}
	c.outBuf = c.capture()
	c.Stdout = c.outBuf
	if c.Stderr == nil {
		c.errBuf = c.capture()
		c.Stderr = c.errBuf
	}
	err := c.Run()
	if ee := (*ExitError)(nil); errors.As(err, &ee) && c.errBuf != nil {
		ee.Stderr = c.errBuf.Bytes()
	}
	return c.outBuf.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and
// standard error together, bounded as for [Cmd.Output].
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("cannot capture the output: Stdout or Stderr is set")
	}
	c.outBuf = c.capture()
	c.Stdout, c.Stderr = c.outBuf, c.outBuf
	err := c.Run()
	return c.outBuf.Bytes(), err
}

// capture returns a writer with the bound of the spec.
func (c *Cmd) capture() *Capture {
	return &Capture{Max: int64(c.sandbox.spec.Limits.Output)}
}

// StdinPipe returns a pipe to the command's standard input. Closing it ends
// the input; Wait closes it too.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, errors.New("cannot make a pipe: Stdin is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = r
	c.inside = append(c.inside, r)
	c.pipes = append(c.pipes, w)
	return w, nil
}

// StdoutPipe returns a pipe from the command's standard output, which ends
// when the command does. Wait closes it, so read everything first.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	if c.Stdout != nil {
		return nil, errors.New("cannot make a pipe: Stdout is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stdout = w
	c.inside = append(c.inside, w)
	c.pipes = append(c.pipes, r)
	return r, nil
}

// StderrPipe does for standard error what StdoutPipe does for standard output.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	if c.Stderr != nil {
		return nil, errors.New("cannot make a pipe: Stderr is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stderr = w
	c.inside = append(c.inside, w)
	c.pipes = append(c.pipes, r)
	return r, nil
}

// pipe returns a kernel pipe instead of an io.Pipe, because its buffer lets a
// command with little output end before anybody reads.
func (c *Cmd) pipe() (r, w *os.File, err error) {
	if c.run != nil {
		return nil, nil, errors.New("cannot make a pipe: the command was started before")
	}
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	return r, w, nil
}

// request returns the request for the agent.
func (c *Cmd) request() (wire.ExecRequest, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return wire.ExecRequest{}, &Error{Message: "cannot start the command: no command was given", Code: wire.CodeBadRequest}
	}
	for _, arg := range append([]string{c.Dir}, c.Args...) {
		if strings.IndexByte(arg, 0) >= 0 {
			return wire.ExecRequest{}, &Error{
				Message: "cannot start the command: an argument or the directory contains a NUL byte",
				Code:    wire.CodeBadRequest,
			}
		}
	}
	env, err := environment(c.Env)
	if err != nil {
		return wire.ExecRequest{}, err
	}
	added, err := environment(c.AddEnv)
	if err != nil {
		return wire.ExecRequest{}, err
	}
	if env == nil {
		env = added
	} else {
		maps.Copy(env, added)
	}
	if c.Timeout < 0 {
		return wire.ExecRequest{}, &Error{Message: "cannot start the command: its timeout is negative", Code: wire.CodeBadRequest}
	}
	req := wire.ExecRequest{
		Argv: c.Args, Cwd: wire.OSString(c.Dir), Env: env, SecretEnv: c.SecretEnv, ClearEnv: c.Env != nil,
		TTY: c.TTY, Stream: true, Detach: c.Detach,
	}
	if c.Timeout > 0 {
		seconds := c.Timeout.Seconds()
		req.TimeoutSeconds = &seconds
	}
	return req, nil
}

// environment reads "K=V" entries.
func environment(list []string) (map[string]string, error) {
	if list == nil {
		return nil, nil
	}
	env := make(map[string]string, len(list))
	for _, entry := range list {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" || strings.IndexByte(entry, 0) >= 0 {
			// The entry itself may be a secret.
			return nil, &Error{
				Message: "cannot start the command: an entry of its environment is not K=V without NUL bytes",
				Code:    wire.CodeBadRequest,
			}
		}
		env[key] = value
	}
	return env, nil
}
