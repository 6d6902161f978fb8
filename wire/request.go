package wire

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"
)

// envOwner names the request in the error about its environment.
func (*ExecRequest) envOwner() string { return "exec" }

// Redactions gives the values and the rules for what no answer to the request may tell.
func (r *ExecRequest) Redactions() ([]string, RedactRules) { return r.RedactValues, r.Redaction }

// Redactions gives the values and the rules for what no answer to the request may tell.
func (q *OpenShellRequest) Redactions() ([]string, RedactRules) { return q.RedactValues, q.Redaction }

// Redactions gives the values and the rules for what no answer to the request may tell.
func (q *StartServiceRequest) Redactions() ([]string, RedactRules) {
	return q.RedactValues, q.Redaction
}

// checkText refuses text that JSON cannot carry: encoding would replace the
// bytes in silence, and another command would run than the one asked for.
func (r *ExecRequest) checkText() error {
	return cmp.Or(
		checkUTF8("command", r.Command),
		checkUTF8("argv", r.Argv...),
		checkUTF8("cwd", r.Cwd),
		checkUTF8("env", slices.Collect(maps.Keys(r.Env))...),
		checkUTF8("env", slices.Collect(maps.Values(r.Env))...),
		checkUTF8("stdin", r.Stdin),
	)
}

func checkUTF8(field string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			e := Errorf(CodeBadRequest, "cannot send the request: %s is not valid UTF-8", field)
			e.Object = field
			return e
		}
	}
	return nil
}
