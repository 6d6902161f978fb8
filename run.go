package paddock

import (
	"context"
	"errors"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// Grace is how long the agent may take beyond a command's timeout, or after
// it was told to kill a command, before the host side stops the whole sandbox.
const Grace = 2 * time.Second

// startWait is how long an agent may take to start a command.
const startWait = 30 * time.Second

// streams are a command's three, with gates before the caller's writers.
type streams struct {
	stdin          io.Reader
	stdout, stderr *gate
}

// run is a started command and what watches over it. Its fields are written
// before done is closed and only read afterwards.
type run struct {
	sandbox *Sandbox
	process *wire.Process
	streams streams
	inside  []io.Closer
	began   time.Time
	stopCtx context.CancelFunc

	done   chan struct{}
	result *Result
	err    error
}

// answer is what the agent said in the end.
type answer struct {
	result wire.ExecResult
	err    error
}

// startRun asks the agent to start the command. ctx ends the command through
// the agent, which proves its death, and not by dropping the connection: the
// connection gets a context of its own.
func startRun(ctx context.Context, s *Sandbox, req wire.ExecRequest, st streams, inside []io.Closer) (*run, error) {
	conn, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, cancel)
	patience := time.AfterFunc(startWait, cancel)
	began := time.Now()
	process, err := s.client.Start(conn, req, wire.Streams{Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr})
	late := !patience.Stop()
	release()
	if err != nil {
		cancel()
		return nil, startError(ctx, req.Argv[0], err, late)
	}
	r := &run{
		sandbox: s, process: process, streams: st, inside: inside,
		began: began, stopCtx: cancel, done: make(chan struct{}),
	}
	go r.watch(ctx, req.TimeoutSeconds)
	return r, nil
}

func startError(ctx context.Context, name string, err error, late bool) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if late {
		err = errors.New("the agent did not answer")
	}
	return agentError("start "+strconv.Quote(name), err)
}

// watch waits for the command's end and makes sure that there is one.
func (r *run) watch(ctx context.Context, timeout *float64) {
	defer close(r.done)
	defer r.release()
	answers := make(chan answer, 1)
	go func() {
		res, err := r.process.Wait()
		answers <- answer{res, err}
	}()
	var deadline <-chan time.Time
	if timeout != nil {
		timer := time.NewTimer(time.Until(r.began.Add(time.Duration(*timeout*float64(time.Second)) + Grace)))
		defer timer.Stop()
		deadline = timer.C
	}
	select {
	case a := <-answers:
		r.settle(a, nil)
	case <-deadline:
		r.overrule(syscall.Signal(0), nil)
	case <-ctx.Done():
		r.kill(answers, ctx.Err())
	case <-r.streams.stdout.failed:
		r.expect(answers)
	case <-r.streams.stderr.failed:
		r.expect(answers)
	}
}

// expect gives a command whose output nobody takes the time to act on the
// SIGPIPE that the wire client has sent it.
func (r *run) expect(answers <-chan answer) {
	select {
	case a := <-answers:
		r.settle(a, nil)
	case <-time.After(Grace):
		r.kill(answers, nil)
	}
}

// release gives back what the run held. Shutting the gates first keeps a
// late frame away from the caller's writers.
func (r *run) release() {
	r.shutGates()
	_ = r.process.Close()
	r.stopCtx()
	for _, c := range r.inside {
		_ = c.Close()
	}
}

// shutGates waits for a Write in progress, but not for one that blocks.
func (r *run) shutGates() {
	idle := make(chan struct{})
	r.streams.stdout.shut.Store(true)
	r.streams.stderr.shut.Store(true)
	go func() {
		defer close(idle)
		for _, g := range []*gate{r.streams.stdout, r.streams.stderr} {
			g.mu.Lock()
			//lint:ignore SA2001 taking the lock is the wait
			g.mu.Unlock()
		}
	}()
	select {
	case <-idle:
	case <-time.After(Grace / 10):
	}
}

// kill has the agent kill the command's tree, and stops the sandbox where
// the agent does not say in time that it has done so.
func (r *run) kill(answers <-chan answer, cause error) {
	// An agent that does not read must not keep this from going on.
	go func() { _ = r.process.Signal("SIGKILL") }()
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case a := <-answers:
		r.settle(a, cause)
	case <-timer.C:
		r.overrule(syscall.SIGKILL, cause)
	}
}

// overrule stops the sandbox from outside. Signal 0 stands for a timeout.
func (r *run) overrule(signal syscall.Signal, cause error) {
	death, err := r.sandbox.stop()
	r.result = &Result{Duration: time.Since(r.began), DeathProved: death.Proved}
	if signal == 0 {
		r.result.TimedOut, r.result.ExitCode = true, TimeoutStatus
	} else {
		r.result.ExitCode, r.result.Signal = -int(signal), nameSignal(signal)
	}
	r.complete()
	r.err = errors.Join(cause, r.streams.stdout.err(), r.streams.stderr.err(), err)
}

// settle takes the agent's answer. One with an id was given by the agent even
// where an error comes with it: a stream then was not copied whole.
func (r *run) settle(a answer, cause error) {
	if a.err != nil && a.result.ID == "" {
		r.err = errors.Join(cause, agentError("run the command", a.err))
		return
	}
	r.result = newResult(a.result)
	r.complete()
	if cause != nil && r.result.Success() {
		cause = nil // it had ended before the kill reached it
	}
	r.err = errors.Join(cause, a.err)
}

// complete adds what the host side knows itself.
func (r *run) complete() {
	r.result.StdoutBytes = r.streams.stdout.count.Load()
	r.result.StderrBytes = r.streams.stderr.count.Load()
	r.result.Isolation = r.sandbox.Isolation()
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// signal is not an error for a command that has just ended: nobody can avoid
// that race.
func (r *run) signal(name string) error {
	if !isSignal(name) {
		return &Error{Message: "cannot signal the command: there is no signal " + strconv.Quote(name), Code: wire.CodeBadRequest}
	}
	if err := r.process.Signal(name); err != nil && !r.ended() {
		return agentError("signal the command", err)
	}
	return nil
}
