package op

import (
	"errors"
	"reflect"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/privilege"
)

// Outcomer is an output that tells of a failure by itself, where doors see no
// error: outcome is "ok", "error" or "denied", text says why.
type Outcomer interface {
	Outcome() (outcome, text string)
}

// outcome puts into r how an operation ended.
func outcome(r *audit.Record, out any, err error, denied bool) {
	r.Outcome = audit.OutcomeOK
	if told, ok := out.(Outcomer); ok {
		r.Outcome, r.Error = told.Outcome()
	}
	if err != nil {
		r.Outcome, r.Error = audit.OutcomeError, err.Error()
		if without := (*privilege.Denied)(nil); denied || errors.As(err, &without) {
			r.Outcome = audit.OutcomeDenied
		}
	}
	if s, ok := out.(Statuser); ok && err == nil {
		status := s.ExitStatus()
		r.Exit = &status
	}
	for _, d := range denialsIn(out) {
		r.Denials = append(r.Denials, audit.Denial{Layer: d.Layer, Rule: d.Rule, Object: d.Object})
	}
}

// denialsIn are the refusals that an output tells of: no operation has to
// remember to put them on record.
func denialsIn(out any) []paddock.Denial {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Struct {
		return nil
	}
	f := v.FieldByName("Denials")
	if !f.IsValid() || !f.CanInterface() {
		return nil
	}
	denials, _ := f.Interface().([]paddock.Denial)
	return denials
}
