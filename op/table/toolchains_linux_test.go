//go:build linux

package table

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

// Below a ceiling toolchains are shown as the door says: the operator's to the operator's models,
// and to the principal of a token those that its ceiling allows.
func TestToolchainsBelowACeiling(t *testing.T) {
	env := lasting(t)
	ws := env.Default.Workspace.Source
	home := filepath.Join(ws, "home") // in a directory that other identities can reach
	t.Setenv("HOME", home)
	t.Setenv("CARGO_HOME", "")
	t.Setenv("RUSTUP_HOME", "")
	testkit.Write(t, home+"/.cargo/bin/own-cargo", "#!/bin/sh\necho cargo\n", 0o755)
	testkit.Write(t, home+"/.rustup/toolchains/x", "", 0o644)
	testkit.Write(t, ws+"/app/keep", "", 0o644)
	env.Default.Workspace.Source = ws + "/app"
	env.Options.Path = home + "/.cargo/bin:" + home + "/bin:/usr/bin:/bin"
	app := []policy.Place{{Source: ws + "/app", Mode: "rw"}}
	for name, tt := range map[string]struct {
		ceiling *policy.Ceiling
		holds   bool // the door asks the ceiling
		input   fields
		want    bool
	}{
		"the operator":              {nil, false, nil, true},
		"the operator's models":     {&policy.Ceiling{Workspace: app}, false, nil, true},
		"left out":                  {&policy.Ceiling{Workspace: app}, false, fields{"no_toolchains": true}, false},
		"a token's principal":       {&policy.Ceiling{Workspace: app}, true, nil, false},
		"its ceiling allows them":   {&policy.Ceiling{Workspace: app, Mounts: []policy.Place{{Source: home + "/.cargo"}, {Source: home + "/.rustup"}}}, true, nil, true},
		"its ceiling allows a part": {&policy.Ceiling{Workspace: app, Mounts: []policy.Place{{Source: home + "/.cargo"}}}, true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			env.Ceiling, env.Options.Toolchains = tt.ceiling, func(paddock.Mount) bool { return true }
			if tt.holds {
				env.Options.Toolchains = tt.ceiling.Holds
			}
			input := fields{"argv": []string{"sh", "-c", "own-cargo || echo none"}, "workspace": ws + "/app"}
			plan := fields{"workspace": ws + "/app"}
			for key, value := range tt.input {
				input[key], plan[key] = value, value
			}
			out, err := try[exec.RunOutput](t.Context(), t, env, "run", input)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(out.Stdout); got == "cargo" != tt.want || (len(out.Isolation.Toolchains) > 0) != tt.want {
				t.Errorf("%s; toolchains %+v", got, out.Isolation.Toolchains)
			}
			p, err := try[sandbox.PlanOutput](t.Context(), t, env, "plan", plan)
			if err != nil {
				t.Fatal(err)
			}
			if (len(p.Plan.Holds.Toolchains) > 0) != tt.want || tt.ceiling != nil && len(p.Plan.LeftOut) > 0 {
				t.Errorf("the plan has %+v, without %+v", p.Plan.Holds.Toolchains, p.Plan.LeftOut)
			}
		})
	}
	env.Ceiling, env.Options.Toolchains = nil, func(paddock.Mount) bool { return true }
	out, err := try[exec.ExecuteOutput](t.Context(), t, env, "execute", fields{"command": "env", "workspace": ws + "/app"})
	if err != nil || !strings.Contains(out.Stdout, "PATH=") || strings.Contains(out.Stdout, "cargo") || strings.Contains(out.Stdout, "RUSTUP") {
		t.Errorf("execute: %+v, %v", out, err)
	}
}
