package wire

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"
)

// envOwner names the request in the error about its environment.
func (*ExecRequest) envOwner() string { return "exec" }

// Redactions gives the values that no answer to the request may tell.
func (r *ExecRequest) Redactions() []string { return r.RedactValues }

// Redactions gives the values that no answer to the request may tell.
func (q *OpenShellRequest) Redactions() []string { return q.RedactValues }

// Redactions gives the values that no answer to the request may tell.
func (q *StartServiceRequest) Redactions() []string { return q.RedactValues }

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
