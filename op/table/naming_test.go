package table

import (
	"errors"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/policy"
)

// An error names what was written: the flag, the field, or the key of a file.
func TestErrorsNameWhatWasWritten(t *testing.T) {
	flag := func(f op.Field) string { return "--" + f.Flag }
	for name, tt := range map[string]struct {
		input     string
		e         policy.FieldError
		cli, json string
	}{
		"the workspace": {`{"workspace":"/"}`, policy.FieldError{Field: "workspace.source", Value: "/", Reason: "no"},
			`cannot use --workspace "/": no`, `cannot use workspace "/": no`},
		"the directory that one is in": {`{}`, policy.FieldError{Field: "workspace.source", Value: ".", Reason: "no"},
			`cannot use --workspace ".": no`, `cannot use workspace.source ".": no`},
		"a mount by its source": {`{"ro":["/a:/x"],"rw":["b"]}`, policy.FieldError{Field: "mounts[0].source", Value: "/d/b", Reason: "no"},
			`cannot use --rw "/d/b": no`, `cannot use rw "/d/b": no`},
		"a mount by its target": {`{"ro":["/a:/x"],"rw":["b"]}`, policy.FieldError{Field: "mounts[1].target", Value: "/x", Reason: "no"},
			`cannot use --ro "/x": no`, `cannot use ro "/x": no`},
		"a mount of the file": {`{"ro":["/a:/x"],"spec_file":"s.yaml"}`, policy.FieldError{Field: "mounts[0].source", Value: "/other", Reason: "no"},
			`s.yaml: cannot use mounts[0].source "/other": no`, `s.yaml: cannot use mounts[0].source "/other": no`},
		"a limit of the file": {`{"memory":"1GiB","spec_file":"s.yaml"}`, policy.FieldError{Field: "limits.processes", Value: "1", Reason: "no"},
			`s.yaml: cannot use limits.processes "1": no`, `s.yaml: cannot use limits.processes "1": no`},
		"a limit over the file's": {`{"memory_high":"1GiB","spec_file":"s.yaml"}`, policy.FieldError{Field: "limits.memory_high", Value: "1GiB", Reason: "it is more than limits.memory"},
			`cannot use --memory-high "1GiB": it is more than --memory`, `cannot use memory_high "1GiB": it is more than memory`},
		"the bound of output": {`{"max_output":"1TiB"}`, policy.FieldError{Field: "limits.output", Reason: "no"}, `cannot use --max-output: no`, `cannot use max_output: no`},
		"a variable":          {`{"env":["A=1","B=2"]}`, policy.FieldError{Field: "env.B", Reason: "no"}, `cannot use --env B: no`, `cannot use env.B: no`},
		"one that is passed":  {`{"env":["A=1"],"env_pass":["B"]}`, policy.FieldError{Field: "env.B", Reason: "no"}, `cannot use --env-pass B: no`, `cannot use env_pass.B: no`},
		"an entry unseen":     {`{"env":["A=1","B"]}`, policy.FieldError{Field: "env[1]", Reason: "no"}, `cannot use --env number 2: no`, `cannot use env[1]: no`},
		"an entry":            {`{"allow_degraded":["x"]}`, policy.FieldError{Field: "allow_degraded[0]", Value: "x", Reason: "no"}, `cannot use --allow-degraded "x": no`, `cannot use allow_degraded[0] "x": no`},
		"a rule":              {`{"redact":["x"]}`, policy.FieldError{Field: "redaction[0].type", Value: "x", Reason: "no"}, `cannot use --redact "x": no`, `cannot use redact "x": no`},
		"options of a backend": {`{"user":"1"}`, policy.FieldError{Field: "docker", Reason: "no"},
			`cannot use --user: no`, `cannot use user: no`},
		"the engine":               {`{"engine":"x"}`, policy.FieldError{Field: "docker.binary", Value: "x", Reason: "no"}, `cannot use --engine "x": no`, `cannot use engine "x": no`},
		"a setting of codex":       {`{"codex_config":["a.b=1"]}`, policy.FieldError{Field: "codex.config_overrides.a.b", Reason: "no"}, `cannot use --codex-config a.b: no`, `cannot use codex_config.a.b: no`},
		"a setting of the file's":  {`{"codex_config":["a.b=1"],"spec_file":"s.yaml"}`, policy.FieldError{Field: "codex.config_overrides.n", Reason: "no"}, `s.yaml: cannot use codex.config_overrides.n: no`, `s.yaml: cannot use codex.config_overrides.n: no`},
		"a setting by the ceiling": {`{"codex_config":["n=1"]}`, policy.FieldError{Field: "codex.config_overrides.n", Value: "n", Reason: "no"}, `cannot use --codex-config n: no`, `cannot use codex_config.n: no`},
		"a variable's odd name":    {`{"env":["A B=1"]}`, policy.FieldError{Field: `env."A B"`, Reason: "no"}, `cannot use --env "A B": no`, `cannot use env."A B": no`},
		"a variable without name":  {`{"env":["=1"]}`, policy.FieldError{Field: `env.""`, Reason: "no"}, `cannot use --env "": no`, `cannot use env."": no`},
		"a name like an index":     {`{"env":["A[0]=1"]}`, policy.FieldError{Field: `env."A[0]"`, Reason: "no"}, `cannot use --env "A[0]": no`, `cannot use env."A[0]": no`},
		"a file and no field":      {`{"spec_file":"s.yaml"}`, policy.FieldError{Field: "PADDOCK_STATE_DIR", Reason: "no"}, `cannot use PADDOCK_STATE_DIR: no`, `cannot use PADDOCK_STATE_DIR: no`},
		"a file and a flag":        {`{"spec_file":"s.yaml"}`, policy.FieldError{Field: "--workspace", Reason: "no"}, `cannot use --workspace: no`, `cannot use --workspace: no`},
		"the operator's":           {`{}`, policy.FieldError{Field: "limits.memory", Reason: "no"}, `cannot use limits.memory: no`, `cannot use limits.memory: no`},
		"a configuration's":        {`{"config":"c.json"}`, policy.FieldError{Field: "limits.memory", Reason: "no"}, `c.json: cannot use limits.memory: no`, `c.json: cannot use limits.memory: no`},
		"a line of a file":         {`{"memory":"1"}`, policy.FieldError{Field: "limits.memory", Reason: "no", File: "s.yaml", Line: 2}, `s.yaml:2: cannot use limits.memory: no`, `s.yaml:2: cannot use limits.memory: no`},
		"what no field sets":       {`{}`, policy.FieldError{Field: "commands.allow", Reason: "no"}, `cannot use commands.allow: no`, `cannot use commands.allow: no`},
		"no field at all":          {`{}`, policy.FieldError{Field: "PADDOCK_STATE_DIR", Reason: "no"}, `cannot use PADDOCK_STATE_DIR: no`, `cannot use PADDOCK_STATE_DIR: no`},
		"an input that is no":      {`nonsense`, policy.FieldError{Field: "limits.memory", Reason: "no"}, `cannot use limits.memory: no`, `cannot use limits.memory: no`},
	} {
		t.Run(name, func(t *testing.T) {
			for want, say := range map[*string]func(op.Field) string{&tt.cli: flag, &tt.json: op.JSONName} {
				e := tt.e
				op.Of[exec.RunInput]().NameFields(errors.Join(errors.New("another"), &e), []byte(tt.input), say)
				if got := e.Error(); got != *want {
					t.Errorf("%q, want %q", got, *want)
				}
			}
		})
	}
}
