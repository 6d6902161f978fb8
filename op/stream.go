package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// beatEvery is how often who listens hears of work that goes on: clients give up
// on what they do not hear of.
const beatEvery = 2 * time.Second

// Beat tells of work that takes as long as it takes, until stop is called: the
// seconds so far, of total where that is known, and what message says.
func (s *Stream) Beat(total time.Duration, message func() string) (stop func()) {
	if s == nil || s.Progress == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from, tick := time.Now(), time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Progress(time.Since(from).Seconds(), total.Seconds(), message())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// InterruptedError is the error of a sandbox that a signal ended while it was starting.
type InterruptedError struct {
	Name   string // SIGINT
	Number int
}

// Error names the signal.
func (i *InterruptedError) Error() string { return "interrupted by " + i.Name }

// lateError is a start that took longer than its caller waits.
type lateError struct{ limit registry.TimeLimit }

// Error says how long it was, and who says so.
func (l *lateError) Error() string { return "its time was up (" + l.limit.Told() + ")" }

// Is makes errors.Is(err, paddock.ErrTimeout) work.
func (l *lateError) Is(target error) bool { return target == paddock.ErrTimeout }

// ending are the signals that end what is starting.
var ending = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGTERM": 15}

// OpenFor opens a sandbox for one command, which has so long. The start has as long,
// and a signal that asks for the end ends it: there is no command yet to get it. Other
// signals wait for the command.
func (e *Env) OpenFor(ctx context.Context, spec policy.Spec, l registry.TimeLimit, stream *Stream) (*paddock.Sandbox, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bounded := ctx
	if l.Span > 0 {
		var end context.CancelFunc
		bounded, end = context.WithTimeoutCause(ctx, l.Span, &lateError{l})
		defer end()
	}
	stop := stream.whileStarting(cancel)
	sandbox, err := e.Open(bounded, spec)
	stop()
	cause := context.Cause(bounded)
	late, interrupted := (*lateError)(nil), (*InterruptedError)(nil)
	switch {
	case errors.As(cause, &interrupted) && err == nil:
		return nil, errors.Join(cause, sandbox.Close())
	case err == nil || !errors.As(cause, &late) && interrupted == nil || errors.Is(err, cause):
		return sandbox, err
	}
	return nil, fmt.Errorf("%w: %w", err, cause) // of a step that does not say what ended it
}

// EarlySignals returns, once, the signals that came before there was a command to get
// them.
func (s *Stream) EarlySignals() []string {
	early := s.early
	s.early = nil
	return early
}

// whileStarting takes the caller's signals until stop is called.
func (s *Stream) whileStarting(cancel context.CancelCauseFunc) (stop func()) {
	if s.Signals == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case name := <-s.Signals:
				if number, ends := ending[name]; ends {
					cancel(&InterruptedError{name, number})
				} else {
					s.early = append(s.early, name)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
