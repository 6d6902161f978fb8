package op

import (
	"cmp"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// BoundTime returns l, or the operator's limit where that is no longer: a ceiling's
// limits.timeout holds for each command and each shell below it, whatever they ask for.
func (e *Env) BoundTime(l registry.TimeLimit) registry.TimeLimit {
	if e.Ceiling == nil || e.Ceiling.Limits.Timeout == 0 {
		return l
	}
	if most := time.Duration(e.Ceiling.Limits.Timeout); l.Span == 0 || l.Span >= most {
		return registry.TimeLimit{Span: most, From: registry.FromOperator}
	}
	return l
}

// BoundSession returns the options of a session whose commands, those at its start
// and its end included, have no more time than the operator's limit leaves them.
func (e *Env) BoundSession(o paddock.SessionOptions) paddock.SessionOptions {
	for _, one := range []struct {
		span      *time.Duration
		otherwise time.Duration
	}{
		{&o.CommandTimeout, paddock.DefaultSessionTimeout},
		{&o.StartupTimeout, paddock.DefaultSessionTimeout},
		{&o.TerminationTimeout, paddock.DefaultSessionEnd},
	} {
		*one.span = e.BoundTime(registry.TimeLimit{Span: cmp.Or(*one.span, one.otherwise)}).Span
	}
	return o
}
