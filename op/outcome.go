package op

import (
	"errors"
	"reflect"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/privilege"
)

// outcome puts into r how an operation ended.
func outcome(r *audit.Record, out any, err error, denied bool) {
	r.Outcome = audit.OutcomeOK
	if err != nil {
		r.Error = err.Error()
	} else {
		r.Error = ErrorIn(out)
	}
	for _, d := range denialsIn(out) {
		denied = denied || r.Error != "" && d.Layer == "command"
		r.Denials = append(r.Denials, audit.Denial{Layer: d.Layer, Rule: d.Rule, Object: d.Object})
	}
	switch without := (*privilege.Denied)(nil); {
	case denied || errors.As(err, &without):
		r.Outcome = audit.OutcomeDenied
	case r.Error != "":
		r.Outcome = audit.OutcomeError
	}
	if s, ok := out.(Statuser); ok && err == nil {
		status := s.ExitStatus()
		r.Exit = &status
	}
}

// ErrorIn is the error that an output tells of itself, where a contract has
// errors as answers: the text in its field Error.
func ErrorIn(out any) string {
	text := ""
	switch e := told(out, "Error").(type) {
	case string:
		text = e
	case *string:
		if e != nil {
			text = *e
		}
	}
	return text
}

// denialsIn are the refusals that an output tells of: no operation has to
// remember to put them on record.
func denialsIn(out any) []paddock.Denial {
	denials, _ := told(out, "Denials").([]paddock.Denial)
	return denials
}

// told is what an output has in a field, nil where it has none of that name.
func told(out any, name string) any {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Struct {
		return nil
	}
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInterface() {
		return nil
	}
	return f.Interface()
}
