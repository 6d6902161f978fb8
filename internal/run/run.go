// Package run is the internal part of the library: a started command and its watchdog,
// hints about failures that a command's output suggests, and, only on Linux, the default
// backend and its state directory.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/wire"
)

// startWait is how long an agent may take to start a command.
const startWait = 30 * time.Second

// Command is a command to start, and what it needs of its sandbox.
type Command struct {
	Client  *wire.Client
	Request wire.ExecRequest
	// Timeout is how long the command may run. If the agent has not answered Grace
	// later, the sandbox is stopped. 0: no limit.
	Timeout time.Duration
	// Grace is how long the agent may take beyond Timeout, or after it was told to
	// kill the command, before the sandbox is stopped.
	Grace time.Duration
	// Stdin is the standard input. nil: empty.
	Stdin io.Reader
	// Stdout and Stderr get the output. nil: dropped. They are not used once the
	// run has ended. If both are the same value, its Write is never called
	// concurrently.
	Stdout, Stderr io.Writer
	// Inside are closed when the command has ended.
	Inside []io.Closer
	// Stop ends the sandbox from outside.
	Stop func() (backend.Death, error)
}

// Run is a started command and the watchdog over it.
type Run struct {
	command        Command
	process        *wire.Process
	stdout, stderr *gate
	began          time.Time
	cancel         context.CancelFunc // of the connection
	done           chan struct{}
	outcome        Outcome
}

// Outcome is how a command ended.
type Outcome struct {
	// Result is the agent's answer, which the wire client has checked for
	// plausibility. If the sandbox had to be stopped, it has the known facts. nil: the
	// agent gave no answer, and Err says why.
	Result *wire.ExecResult
	// StdoutBytes and StderrBytes count what was printed. If both streams go
	// into one writer, StdoutBytes counts them together.
	StdoutBytes, StderrBytes int64
	// Cause is why the command was killed; nil if it was not, or had ended
	// successfully before.
	Cause error
	// Err is why there is no Result, or why not all of the output was copied.
	Err error
}

// answer is the agent's answer at the end of a command.
type answer struct {
	result wire.ExecResult
	err    error
}

// Start asks the agent to start the command. If ctx ends, the agent is asked to kill the
// command, and proves its death. Closing the connection would give no proof, so the
// connection has a separate context, and a command that is starting when ctx ends gets the
// time to finish its start.
func Start(ctx context.Context, c Command) (*Run, error) {
	stdout := newGate("output", c.Stdout)
	stderr := stdout
	if !wire.SameWriter(c.Stdout, c.Stderr) {
		stderr = newGate("error output", c.Stderr)
	}
	conn, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answered := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		select {
		case <-answered:
		case <-time.After(c.Grace):
			cancel()
		}
	})
	patience := time.AfterFunc(startWait, cancel)
	began := time.Now()
	process, err := c.Client.Start(conn, c.Request, wire.Streams{Stdin: c.Stdin, Stdout: stdout, Stderr: stderr})
	close(answered)
	late := !patience.Stop()
	release()
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if late {
			err = errors.New("the agent did not answer")
		}
		return nil, err
	}
	r := &Run{command: c, process: process, stdout: stdout, stderr: stderr, began: began, cancel: cancel, done: make(chan struct{})}
	go r.watch(ctx)
	return r, nil
}

// Done returns a channel that is closed when the command has ended and its
// output is written.
func (r *Run) Done() <-chan struct{} { return r.done }

// Outcome returns how the command ended. Call it once Done is closed.
func (r *Run) Outcome() Outcome { return r.outcome }

// Signal sends the command a signal by its name. It is not an error if the command has
// just ended, because a caller cannot avoid that race.
func (r *Run) Signal(name string) error { return r.unlessEnded(r.process.Signal(name)) }

// SignalGroup is Signal for the command's whole process group.
func (r *Run) SignalGroup(name string) error { return r.unlessEnded(r.process.SignalGroup(name)) }

// Resize sets the size of the command's terminal. It is not an error if the command has
// just ended.
func (r *Run) Resize(rows, cols uint16) error { return r.unlessEnded(r.process.Resize(rows, cols)) }

func (r *Run) unlessEnded(err error) error {
	select {
	case <-r.done:
		return nil
	default:
		return err
	}
}

// watch waits for the command's end and makes sure that there is one.
func (r *Run) watch(ctx context.Context) {
	defer close(r.done)
	defer r.release()
	answers := make(chan answer, 1)
	go func() {
		res, err := r.process.Wait()
		answers <- answer{res, err}
	}()
	var deadline <-chan time.Time
	if timeout := r.command.Timeout; timeout > 0 && timeout < math.MaxInt64-r.command.Grace {
		timer := time.NewTimer(timeout + r.command.Grace - time.Since(r.began))
		defer timer.Stop()
		deadline = timer.C
	}
	select {
	case a := <-answers:
		r.settle(a, nil)
	case <-deadline:
		r.stopSandbox(wire.ExecResult{TimedOut: true}, nil)
	case <-ctx.Done():
		r.kill(answers, ctx.Err())
	case <-r.stdout.failed:
		r.expect(answers)
	case <-r.stderr.failed:
		r.expect(answers)
	}
}

// release closes the run's connection and gates. It closes the gates first, so that a late
// frame does not reach the caller's writers. It waits for writes in progress, unless one
// blocks.
func (r *Run) release() {
	ctx, cancel := context.WithTimeout(context.Background(), r.command.Grace/10)
	defer cancel()
	r.stdout.close(ctx)
	r.stderr.close(ctx)
	_ = r.process.Close()
	r.cancel()
	for _, c := range r.command.Inside {
		_ = c.Close()
	}
}

// expect gives a command whose output cannot be written the time to act on the
// SIGPIPE that the wire client has sent it.
func (r *Run) expect(answers <-chan answer) {
	select {
	case a := <-answers:
		r.settle(a, nil)
	case <-time.After(r.command.Grace):
		r.kill(answers, nil)
	}
}

// kill has the agent kill the command's tree, and stops the sandbox if the agent does
// not answer in time that it has done so.
func (r *Run) kill(answers <-chan answer, cause error) {
	// In a goroutine, because an agent that does not read must not block this.
	go func() { _ = r.process.SignalGroup("SIGKILL") }()
	timer := time.NewTimer(r.command.Grace)
	defer timer.Stop()
	select {
	case a := <-answers:
		r.settle(a, cause)
	case <-timer.C:
		r.stopSandbox(wire.ExecResult{ExitCode: -int(syscall.SIGKILL)}, cause)
	}
}

// stopSandbox ends the sandbox from outside, and with it the command. result says how
// the command ended.
func (r *Run) stopSandbox(result wire.ExecResult, cause error) {
	death, err := r.command.Stop()
	result.DurationMS, result.DeathProved = time.Since(r.began).Milliseconds(), death.Proved
	r.end(&result, cause, errors.Join(cmp.Or(r.stdout.err(), r.stderr.err()), err))
}

// settle records the agent's answer. If it has an id, the agent has given it even if there
// is an error too: then not all of a stream was copied.
func (r *Run) settle(a answer, cause error) {
	switch {
	case a.err != nil && a.result.ID == "":
		r.end(nil, cause, a.err)
	case a.result.ExitCode == 0 && !a.result.TimedOut:
		r.end(&a.result, nil, a.err) // it had ended before a kill reached it
	default:
		r.end(&a.result, cause, a.err)
	}
}

// end records the outcome, with the counts of the host side itself.
func (r *Run) end(result *wire.ExecResult, cause, err error) {
	r.outcome = Outcome{Result: result, StdoutBytes: r.stdout.count.Load(), Cause: cause, Err: err}
	if r.stderr != r.stdout {
		r.outcome.StderrBytes = r.stderr.count.Load()
	}
}

// gate wraps a caller's writer: it counts bytes, reports the first failure, and can
// be closed so that the writer is not used afterwards.
type gate struct {
	name    string
	w       io.Writer     // nil: drop
	turn    chan struct{} // holds one token during a Write to w
	count   atomic.Int64
	shut    atomic.Bool
	failure atomic.Pointer[error]
	failed  chan struct{} // closed at the first failure
	once    sync.Once
}

func newGate(name string, w io.Writer) *gate {
	return &gate{name: name, w: w, turn: make(chan struct{}, 1), failed: make(chan struct{})}
}

// Write passes p on, or drops it once the gate is closed, so that the result after the
// output is still read.
func (g *gate) Write(p []byte) (int, error) {
	g.count.Add(int64(len(p)))
	if g.w == nil {
		return len(p), nil
	}
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.shut.Load() {
		return len(p), nil
	}
	n, err := g.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, g.report(err)
}

// WithPipe calls move with the caller's writer if that is a file: bulk output then goes from
// pipe to pipe without a copy in this process. See [wire.PipeWriter].
func (g *gate) WithPipe(move func(*os.File) (int, error)) error {
	f, ok := g.w.(*os.File)
	if !ok {
		return nil
	}
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.shut.Load() {
		return nil
	}
	n, err := move(f)
	g.count.Add(int64(n))
	return g.report(err)
}

// close closes the gate. It waits for a Write in progress until ctx ends.
func (g *gate) close(ctx context.Context) {
	g.shut.Store(true)
	select {
	case g.turn <- struct{}{}:
		<-g.turn
	case <-ctx.Done():
	}
}

// report returns a failure of the caller's writer as an error that says what could not be
// done, and closes failed at the first one.
func (g *gate) report(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("cannot write the command's %s: %w", g.name, err)
	g.once.Do(func() {
		g.failure.Store(&err)
		close(g.failed)
	})
	return err
}

// err returns the first failure of the caller's writer.
func (g *gate) err() error {
	if p := g.failure.Load(); p != nil {
		return *p
	}
	return nil
}
