package paddock

import (
	"context"
	"errors"
	"io"
	"math"
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
// connection gets a context of its own, and what is being started when ctx
// ends gets the time to have started.
func startRun(ctx context.Context, s *Sandbox, req wire.ExecRequest, timeout time.Duration, st streams, inside []io.Closer) (*run, error) {
	conn, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answered := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		select {
		case <-answered:
		case <-time.After(Grace):
			cancel()
		}
	})
	patience := time.AfterFunc(startWait, cancel)
	began := time.Now()
	process, err := s.client.Start(conn, req, wire.Streams{Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr})
	close(answered)
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
	go r.watch(ctx, timeout)
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
func (r *run) watch(ctx context.Context, timeout time.Duration) {
	defer close(r.done)
	defer r.release()
	answers := make(chan answer, 1)
	go func() {
		res, err := r.process.Wait()
		answers <- answer{res, err}
	}()
	var deadline <-chan time.Time
	if timeout > 0 && timeout < math.MaxInt64-Grace {
		timer := time.NewTimer(timeout + Grace - time.Since(r.began))
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
