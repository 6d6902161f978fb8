package paddock

import (
	"cmp"
	"context"
	"errors"
	"syscall"
	"time"
)

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

// shutGates waits for writes in progress, but not for one that blocks.
func (r *run) shutGates() {
	ctx, cancel := context.WithTimeout(context.Background(), Grace/10)
	defer cancel()
	r.streams.stdout.close(ctx)
	r.streams.stderr.close(ctx)
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
	r.err = errors.Join(cause, cmp.Or(r.streams.stdout.err(), r.streams.stderr.err()), err)
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
	if r.streams.stderr != r.streams.stdout {
		r.result.StderrBytes = r.streams.stderr.count.Load()
	}
	r.result.Isolation = r.sandbox.Isolation()
}
