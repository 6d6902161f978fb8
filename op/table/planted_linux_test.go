package table

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/policy"
)

// What commands plant is told to the operator and put on record, however the
// sandbox ends and whoever had opened it.
func TestPlantedIsToldToTheOperator(t *testing.T) {
	const plant = "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit && echo x > .envrc"
	plantIn := func(t *testing.T, env *op.Env, where string) {
		well[exec.ExecAnswer](t, env, "exec", fields{"command": plant, "sandbox": where})
	}
	for name, plants := range map[string]func(t *testing.T, env *op.Env){
		"sandbox_delete": func(t *testing.T, env *op.Env) {
			plantIn(t, env, "")
			well[sandbox.SandboxDeleteOutput](t, env, "sandbox_delete", fields{"sandbox": "default"})
		},
		"the end of the door": func(t *testing.T, env *op.Env) {
			plantIn(t, env, "")
			if err := env.Sandboxes.Close(); err != nil {
				t.Error(err)
			}
		},
		"run": func(t *testing.T, env *op.Env) {
			well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-c", plant}})
		},
		"execute": func(t *testing.T, env *op.Env) {
			env.Default.Commands = &policy.Commands{Allow: []string{"mkdir", "touch"}}
			well[exec.ExecuteOutput](t, env, "execute", fields{"command": []string{"mkdir -p .git/hooks .envrc && touch .git/hooks/pre-commit"}})
		},
		"session_close": func(t *testing.T, env *op.Env) {
			well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s", "open_files": 99})
			well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": plant})
			well[session.SessionCloseOutput](t, env, "session_close", fields{"session_id": "s"})
		},
		"the end of the sessions": func(t *testing.T, env *op.Env) {
			well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s", "open_files": 99})
			well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": plant})
			if err := env.Sessions.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := lasting(t)
			var mu sync.Mutex
			var told []op.Planted
			env.Planted = func(p op.Planted) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, p)
			}
			env.Audit = audit.At(filepath.Join(t.TempDir(), "state", "audit"), audit.Options{})
			defer env.Audit.Close()
			plants(t, env)
			mu.Lock()
			defer mu.Unlock()
			want := []string{".envrc", ".git/hooks"}
			if len(told) != 1 || told[0].Workspace != env.Default.Workspace.Source || told[0].Principal != "ann" || !slices.Equal(slices.Sorted(slices.Values(told[0].Paths)), want) {
				t.Fatalf("the operator is told %+v", told)
			}
			r, err := audit.Open(env.Audit.Dir())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			found := 0
			for e, err := r.Next(); err == nil; e, err = r.Next() {
				if e.Record.Kind != audit.KindPlanted {
					continue
				}
				found++
				if e.Record.Principal != "ann" || e.Record.Sandbox != told[0].Sandbox || !slices.Equal(e.Record.Planted, told[0].Paths) {
					t.Errorf("%+v", e.Record)
				}
			}
			if found != 1 {
				t.Errorf("it is on record %d times", found)
			}
		})
	}
}

// Names that could break a line are quoted, and many are counted.
func TestPlantedNames(t *testing.T) {
	many := make([]string, op.ShownPlanted+3)
	for i := range many {
		many[i] = "f"
	}
	for want, paths := range map[string][]string{
		".git/hooks, .envrc": {".git/hooks", ".envrc"},
		`"a\nb", "c\x1b[m"`:  {"a\nb", "c\x1b[m"},
		strings.Repeat("f, ", op.ShownPlanted-1) + "f and 3 more": many,
	} {
		if got := (op.Planted{Paths: paths}).Names(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if long := (op.Planted{Paths: []string{strings.Repeat("x", 5000)}}).Names(); len(long) > 300 {
		t.Errorf("%d bytes", len(long))
	}
}

// What runs when it is named is apart from what git goes on with by itself, which
// no command of git's shows.
func TestNoteOfPrograms(t *testing.T) {
	const (
		made   = "the commands made or changed "
		run    = ": look before you run it"
		goesOn = ": look at it first, git goes on with it"
	)
	for _, tt := range []struct{ paths, want []string }{
		{nil, nil},
		{[]string{"Makefile", "new/Makefile"}, []string{made + "Makefile, new/Makefile" + run}},
		{[]string{".git/rebase-merge"}, []string{made + ".git/rebase-merge" + goesOn}},
		{[]string{"Makefile", "sub/.git/MERGE_HEAD", "x.git/y"}, []string{made + "Makefile, x.git/y" + run, made + "sub/.git/MERGE_HEAD" + goesOn}},
	} {
		var c paddock.Changes
		for _, path := range tt.paths {
			c.Programs = append(c.Programs, paddock.Change{Path: path})
		}
		if got, want := op.ChangesNote(c), strings.Join(tt.want, "\n"); got != want {
			t.Errorf("%q: %q, want %q", tt.paths, got, want)
		}
	}
}
