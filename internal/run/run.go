package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
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
	// Timeout is how long the agent was told to let the command run. An agent that
	// has not answered Grace later costs the sandbox its life. 0: no limit.
	Timeout time.Duration
	// Grace is how long the agent may take beyond Timeout, or after it was told to
	// kill the command, before the sandbox is stopped.
	Grace time.Duration
	// Stdin is the standard input. nil: empty.
	Stdin io.Reader
	// Stdout and Stderr take the output. nil: dropped. They are not touched once the
	// run has ended. Where both are the same value, its Write is never called
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
	// Result is the agent's answer, which the wire client has checked for sense,
	// or what is known where the sandbox had to be stopped. nil: the agent gave no
	// answer, and Err says why.
	Result *wire.ExecResult
	// StdoutBytes and StderrBytes count what was printed. Where both streams go
	// into one writer, StdoutBytes counts them together.
	StdoutBytes, StderrBytes int64
	// Cause is why the command was killed; nil where it was not, or had ended
	// successfully before.
	Cause error
	// Err is why there is no Result, or why the output was not copied whole.
	Err error
}

// answer is what the agent said in the end.
type answer struct {
	result wire.ExecResult
	err    error
}

// Start asks the agent to start the command. ctx ends the command through
// the agent, which proves its death, and not by dropping the connection: the
// connection gets a context of its own, and what is being started when ctx
// ends gets the time to have started.
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

// Signal sends the command a signal by its name. A command that has just ended is
// no error: nobody can avoid that race.
func (r *Run) Signal(name string) error { return r.unlessEnded(r.process.Signal(name)) }

// Resize sets the size of the command's terminal. A command that has just ended is
// no error.
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

// release gives back what the run held. Shutting the gates first keeps a
// late frame away from the caller's writers. It waits for writes in progress,
// but not for one that blocks.
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

// kill has the agent kill the command's tree, and stops the sandbox where
// the agent does not say in time that it has done so.
func (r *Run) kill(answers <-chan answer, cause error) {
	// An agent that does not read must not keep this from going on.
	go func() { _ = r.process.Signal("SIGKILL") }()
	timer := time.NewTimer(r.command.Grace)
	defer timer.Stop()
	select {
	case a := <-answers:
		r.settle(a, cause)
	case <-timer.C:
		r.stopSandbox(wire.ExecResult{ExitCode: -int(syscall.SIGKILL)}, cause)
	}
}

// stopSandbox ends the sandbox from outside, and with it the command, which ended
// as result says.
func (r *Run) stopSandbox(result wire.ExecResult, cause error) {
	death, err := r.command.Stop()
	result.DurationMS, result.DeathProved = time.Since(r.began).Milliseconds(), death.Proved
	r.end(&result, cause, errors.Join(cmp.Or(r.stdout.err(), r.stderr.err()), err))
}

// settle takes the agent's answer. One with an id was given by the agent even
// where an error comes with it: a stream then was not copied whole.
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

// end notes the outcome, with what the host side has counted itself.
func (r *Run) end(result *wire.ExecResult, cause, err error) {
	r.outcome = Outcome{Result: result, StdoutBytes: r.stdout.count.Load(), Cause: cause, Err: err}
	if r.stderr != r.stdout {
		r.outcome.StderrBytes = r.stderr.count.Load()
	}
}
