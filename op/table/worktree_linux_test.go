package table

import (
	"errors"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/policy"
)

// Below a ceiling the repository of a linked worktree comes in where the ceiling holds
// it, and else the workspace is refused.
func TestWorktreeBelowACeiling(t *testing.T) {
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skip("git is not there to work with")
	}
	env := lasting(t)
	ws, home := env.Default.Workspace.Source, t.TempDir()
	t.Setenv("HOME", home)
	hostGit(t, ws, home, "git init -q main; git -C main commit -q --allow-empty -m first; git -C main worktree add -q ../wt; git -C main worktree add -q ../other; mkdir plain")
	wt, common := filepath.Join(ws, "wt"), filepath.Join(ws, "main", ".git")
	for _, tt := range []struct {
		places []string // that may be a workspace
		mounts []policy.Place
		own    string // the repository of the operator's own workspace
		status string
	}{
		{[]string{ws}, nil, "", ""},
		{[]string{wt}, []policy.Place{{Source: common, Mode: "rw"}}, "", ""},
		{[]string{wt}, []policy.Place{{Source: common, Mode: "ro"}}, "", "the ceiling does not allow"},
		{[]string{wt}, nil, "", "the ceiling does not allow"},
		{[]string{wt}, nil, common, ""},
		{[]string{wt}, nil, ws, "the ceiling does not allow"},
	} {
		env.Ceiling, env.Repository = &policy.Ceiling{Mounts: tt.mounts}, tt.own
		for _, at := range tt.places {
			env.Ceiling.Workspace = append(env.Ceiling.Workspace, policy.Place{Source: at, Mode: "rw"})
		}
		out, err := try[exec.RunOutput](t.Context(), t, env, "run", fields{"argv": []string{"git", "log", "--format=%s"}, "workspace": wt})
		refused := (*policy.CeilingError)(nil)
		switch {
		case tt.status == "" && (err != nil || out.Stdout != "first\n"):
			t.Errorf("%q, %q: %v, %+v", tt.places, tt.mounts, err, out)
		case tt.status != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tt.status)):
			t.Errorf("%q, %q: %v", tt.places, tt.mounts, err)
		}
	}
	// The model cannot mount it elsewhere.
	plain := filepath.Join(ws, "plain")
	env.Ceiling, env.Repository = &policy.Ceiling{Workspace: []policy.Place{{Source: wt, Mode: "rw"}, {Source: plain, Mode: "rw"}}}, common
	mount := fields{"argv": []string{"sh", "-c", "cd /repo && echo x >evil; rm -rf worktrees/other; for f in gitdir HEAD; do echo x >worktrees/other/$f; done; mkdir worktrees/new"},
		"workspace": plain, "rw": []string{common + ":/repo"}}
	refused := (*policy.CeilingError)(nil)
	if out, err := try[exec.RunOutput](t.Context(), t, env, "run", mount); !errors.As(err, &refused) {
		t.Errorf("%+v, %v", out, err)
	}
	// Where the ceiling has it, what leads to other worktrees stays as it is, wherever it
	// is mounted.
	env.Ceiling.Mounts = []policy.Place{{Source: common, Mode: "rw"}}
	if out, err := try[exec.RunOutput](t.Context(), t, env, "run", mount); err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	hostGit(t, ws, home, "test -e main/.git/evil; test ! -e main/.git/worktrees/new; git -C other log -1 --format=%s; git -C other status --short; test $(cat main/.git/worktrees/other/gitdir) = $PWD/other/.git")
	// Nothing of the host comes into a spec that nobody has written there.
	spec, err := op.OperatorSpec(policy.Spec{Workspace: policy.Workspace{Source: wt}})
	if err != nil || len(spec.Mounts) != 0 {
		t.Errorf("%+v, %v", spec.Mounts, err)
	}
}
