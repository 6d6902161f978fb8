package op

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// Below a ceiling the repository of a linked worktree comes in where the ceiling holds
// it, and else the workspace is refused.
func TestWorktreeBelowACeiling(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	env := lasting(t)
	ws, home := env.Default.Workspace.Source, t.TempDir()
	t.Setenv("HOME", home)
	host(t, ws, home, "git init -q main; git -C main commit -q --allow-empty -m first; git -C main worktree add -q ../wt")
	wt, common := filepath.Join(ws, "wt"), filepath.Join(ws, "main", ".git")
	for _, tt := range []struct {
		places []string // that may be a workspace
		mounts []policy.Place
		status string
	}{
		{[]string{ws}, nil, ""},
		{[]string{wt}, []policy.Place{{Source: common, Mode: "rw"}}, ""},
		{[]string{wt}, []policy.Place{{Source: common, Mode: "ro"}}, "the ceiling does not allow"},
		{[]string{wt}, nil, "the ceiling does not allow"},
	} {
		env.Ceiling = &policy.Ceiling{Mounts: tt.mounts}
		for _, at := range tt.places {
			env.Ceiling.Workspace = append(env.Ceiling.Workspace, policy.Place{Source: at, Mode: "rw"})
		}
		out, err := try[RunOutput](t.Context(), t, env, "run", fields{"argv": []string{"git", "log", "--format=%s"}, "workspace": wt})
		refused := (*policy.CeilingError)(nil)
		switch {
		case tt.status == "" && (err != nil || out.Stdout != "first\n"):
			t.Errorf("%q, %q: %v, %+v", tt.places, tt.mounts, err, out)
		case tt.status != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tt.status)):
			t.Errorf("%q, %q: %v", tt.places, tt.mounts, err)
		}
	}
	// Who starts a server there has it in the ceiling of its models.
	spec, err := OperatorSpec(policy.Spec{Workspace: policy.Workspace{Source: wt}})
	if err != nil || len(spec.Mounts) != 1 || spec.Mounts[0].Source != common {
		t.Errorf("%+v, %v", spec.Mounts, err)
	}
}
