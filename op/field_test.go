package op

import (
	"testing"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Errors in a spec file name its line, unless the input sets the same field.
func TestErrorsNameTheLine(t *testing.T) {
	file, err := specfile.Parse("s.yaml", []byte("network: none\nlimits:\n  memory: 1GiB\nmounts:\n  - {source: /a}\nenv: {A: b}\ncodex:\n  config_overrides: {n: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		input string
		field string
		want  string
	}{
		"a key":                 {`{}`, "network", "s.yaml:1: cannot use network: no"},
		"a limit":               {`{}`, "limits.memory", "s.yaml:3: cannot use limits.memory: no"},
		"what is missing in it": {`{}`, "limits.swap", "s.yaml:2: cannot use limits.swap: no"},
		"an entry":              {`{"ro":["/b"]}`, "mounts[0].source", "s.yaml:5: cannot use mounts[0].source: no"},
		"a variable":            {`{"env":["B=1"]}`, "env.A", "s.yaml:6: cannot use env.A: no"},
		"a setting":             {`{"codex_config":["m=1"]}`, "codex.config_overrides.n", "s.yaml:8: cannot use codex.config_overrides.n: no"},
		"a flag's":              {`{"network":"x"}`, "network", "cannot use --network: no"},
		"a flag's variable":     {`{"env":["A=1"]}`, "env.A", "cannot use --env A: no"},
		"a flag's setting":      {`{"codex_config":["n=1"]}`, "codex.config_overrides.n", "cannot use --codex-config n: no"},
		"a flag's entry":        {`{"ssh_keys":["x"]}`, "ssh_agent.keys[0]", "cannot use --ssh-key number 1: no"},
		"what is nowhere":       {`{}`, "hostname", "cannot use --hostname: no"},
		"a flag":                {`{}`, "--workspace", "cannot use --workspace: no"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &policy.FieldError{Field: tt.field, Reason: "no"}
			LocateFields(e, []byte(tt.input), file)
			NameFields(SpecFields(), e, []byte(tt.input), func(f Field) string { return "--" + f.Flag })
			if e.Error() != tt.want {
				t.Errorf("%q, want %q", e, tt.want)
			}
		})
	}
}

// An error of a project's file also says how to start without the file.
func TestErrorsNameTheWayAroundAProject(t *testing.T) {
	file, err := specfile.ParseProject(".paddock.yaml", []byte("\nlimits: {tmp: 2GiB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const around = "--no-project-file leaves out the project's file"
	for _, tt := range []struct{ input, hint, want string }{
		{`{}`, "use level full", "use level full; " + around},
		{`{}`, "", around},
		{`{"tmp":"2GiB"}`, "use level full", "use level full"},
	} {
		e := &policy.FieldError{Field: "limits.tmp", Reason: "no", Hint: tt.hint}
		LocateFields(e, []byte(tt.input), file)
		if hint := FlagHint(e.Hint); hint != tt.want {
			t.Errorf("%s: %q, want %q", tt.input, hint, tt.want)
		}
	}
}
