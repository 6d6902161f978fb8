package paddock

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// Cmd is a command to be run in a sandbox. Its fields and methods are those
// of os/exec as far as a wall allows; what differs is said here. A Cmd can be
// started once. Set the fields before that; after it, Wait, Signal and Resize
// may be called concurrently.
type Cmd struct {
	// Args holds the command and its arguments. A command without a slash is
	// looked up in the PATH that it is given, inside the sandbox.
	Args []string
	// Env is the whole environment as "K=V"; of a repeated key the last one
	// counts. nil: the sandbox's base environment with Spec.Env laid over it.
	Env []string
	// AddEnv is laid over Env, or over what takes its place, as "K=V".
	AddEnv []string
	// Dir is the working directory inside, relative to the workspace or
	// absolute. Default: the workspace.
	Dir string
	// Stdin is the standard input. nil: empty. Wait does not wait for it: a
	// command that ends early leaves the rest unread, and what was read ahead
	// (256 KiB at most) is lost.
	Stdin io.Reader
	// Stdout and Stderr take the output as it comes. nil: dropped. Where both
	// are the same value, its Write is never called concurrently, and on Linux, with an
	// agent on this host, without TTY and Spec.Redaction, it gets what both streams print
	// in the order in which it was printed. A Write
	// that fails is to the command what a closed pipe is: it gets SIGPIPE, 2
	// seconds later SIGKILL, and Wait returns the failure. A Write that blocks
	// holds up the command and Wait, except past Timeout or ctx's end.
	Stdout, Stderr io.Writer
	// Timeout is how long the command may run until its whole tree is killed.
	// 0: as long as it likes. [Sandbox.Command] sets it from Spec.Limits. An
	// agent that has not answered 2 seconds after it costs the sandbox its
	// life: everything in it is stopped from outside.
	Timeout time.Duration
	// TTY gives the command a terminal of this size, made inside the sandbox.
	// Its output arrives on Stdout, and Stderr stays empty. nil: no terminal.
	TTY *TTY
	// Detach lets processes that the command leaves behind live on until the
	// sandbox closes. By default they are killed when the command exits.
	Detach bool

	sandbox *Sandbox
	ctx     context.Context
	run     *run        // nil until started
	outBuf  *Capture    // what Output or CombinedOutput keeps of Stdout
	errBuf  *Capture    // what Output keeps of Stderr
	pipes   []io.Closer // the caller's ends, closed by Wait
	inside  []io.Closer // our ends, closed when the command has ended
	waited  bool
}

// Command prepares a command. When ctx ends before the command does, the
// command's whole tree is killed, and Wait returns an error that wraps
// ctx.Err(). As with os/exec, a nil ctx is a mistake and panics.
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

// Start starts the command and does not wait for it. A command that does not
// exist is [ErrNotFound] and one that cannot be executed [ErrNotExecutable];
// a sandbox that has ended is [ErrClosed]. After success Wait must be called.
func (c *Cmd) Start() error {
	if c.run != nil {
		return errors.New("cannot start the command: it was started before")
	}
	r, err := c.start()
	if err != nil {
		c.closeAll()
		return err
	}
	c.run = r
	return nil
}

func (c *Cmd) start() (*run, error) {
	req, err := c.request()
	if err != nil {
		return nil, err
	}
	if err := c.ctx.Err(); err != nil {
		return nil, agentError("start "+strconv.Quote(c.Args[0]), err)
	}
	r, err := startRun(c.ctx, c.sandbox, req, c.Timeout, c.streams(), c.inside)
	return r, c.sandbox.explainMissing(err, c.Args[0], c.Dir)
}

// streams wraps the caller's writers, so that they are not touched after Wait
// has returned. A writer used for both streams gets one wrapper.
func (c *Cmd) streams() streams {
	s := streams{stdin: c.Stdin, stdout: newGate("output", c.Stdout)}
	if wire.SameWriter(c.Stdout, c.Stderr) {
		s.stderr = s.stdout
	} else {
		s.stderr = newGate("error output", c.Stderr)
	}
	return s
}

// block replaces what was captured of an output that a rule has ended.
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
// returns nil for exit status 0 and an [*ExitError] for every other end of a
// command.
func (c *Cmd) Wait() error {
	if c.run == nil {
		return errors.New("cannot wait for the command: it was not started")
	}
	if c.waited {
		return errors.New("cannot wait for the command: Wait was called before")
	}
	c.waited = true
	<-c.run.done
	c.closeAll()
	result, err := c.run.result, c.run.err
	if result != nil {
		c.block(result.Blocked)
		result.StdoutTruncated = c.outBuf != nil && c.outBuf.Truncated()
		result.StderrTruncated = c.errBuf != nil && c.errBuf.Truncated()
		if !result.Success() {
			result.Denials = c.sandbox.guess(result.Denials, result.ExitCode, c.said(result), c.String())
		}
	}
	if result == nil || result.Success() {
		return err
	}
	return &ExitError{Result: result, cause: err}
}

// said is what was kept of the command's error output, where anything was printed there;
// else the end of its output, into which it may have been led. Of one writer for both it
// is all that was kept.
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
			return lastWords(k.Bytes())
		}
	}
	return nil
}

// Result is how the command ended. It is nil before Wait has returned, and
// where the end is not known because the sandbox broke.
func (c *Cmd) Result() *Result {
	if c.run == nil {
		return nil
	}
	select {
	case <-c.run.done:
		return c.run.result
	default:
		return nil
	}
}

// Signal sends a signal, "INT" or "SIGINT", to the command. With a terminal
// it goes to the terminal's foreground process group.
func (c *Cmd) Signal(name string) error {
	if c.run == nil {
		return errors.New("cannot signal the command: it was not started")
	}
	return c.run.signal(name)
}

// Resize tells a command with a terminal the terminal's new size.
func (c *Cmd) Resize(rows, cols uint16) error {
	if c.run == nil || c.TTY == nil {
		return errors.New("cannot resize the terminal: the command has none")
	}
	if err := c.run.process.Resize(rows, cols); err != nil && !c.run.ended() {
		return agentError("resize the terminal", err)
	}
	return nil
}

// String is the command and its arguments, for people: nothing is quoted.
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
