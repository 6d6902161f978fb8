package keep

import (
	"context"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type StartInput struct {
	Name    string       `json:"name" arg:"NAME" complete:"sandbox" help:"the sandbox, by name or id" min:"1" max:"64"`
	Env     op.Variables `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" secret:"env" help:"set an environment variable inside (may be repeated)"`
	EnvPass []string     `json:"env_pass,omitempty" flag:"env-pass" arg:"NAME" help:"pass on a variable of the caller's environment, which must be set (may be repeated)"`
	Quiet   bool         `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print its id alone"`
}

func (StartInput) Desc() op.Desc {
	return op.Desc{
		Name: "start", CLI: []string{"start"},
		Summary: "Start a stopped sandbox again",
		Doc: `Start a sandbox of "paddock create" again that was stopped, whose time was up, or whose
host was restarted: with the same id and name, over the same workspace, and with what
it was created with. What ran in it does not run again, and its /tmp and HOME are new.

Values of variables are not stored: those that it was created with must be given
again, unless the trusted project's file has them. What the host offers now counts: a workspace that has vanished is refused.`,
		Examples: "  paddock start web\n  paddock start web --env-pass TOKEN",
		Local:    true,
		Hints:    op.Hints{LongRunning: true},
	}
}

func (in StartInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (CreateOutput, error) {
	if in.Name == "" {
		return CreateOutput{}, op.Unnamed("name")
	}
	if err := in.Env.Check(); err != nil {
		return CreateOutput{}, err
	}
	vars := map[string]string{}
	for _, name := range in.EnvPass {
		value, ok := env.Lookup(name)
		if !ok {
			return CreateOutput{}, &policy.FieldError{Field: "env_pass", Value: name, Reason: "it is not set in the caller's environment"}
		}
		vars[name] = value
	}
	for _, text := range in.Env {
		name, value, _ := strings.Cut(text, "=")
		vars[name] = value
	}
	if err := in.projectVariables(ctx, env, vars); err != nil {
		return CreateOutput{}, err
	}
	s, err := env.Start(ctx, in.Name, vars)
	if err != nil {
		return CreateOutput{}, err
	}
	out := CreateOutput{ID: s.ID(), Isolation: s.Isolation(), quiet: in.Quiet}
	if in.Name != out.ID {
		out.Name = in.Name
	}
	return out, s.Close() // this only detaches
}

// projectVariables adds the variables that the sandbox was created with and that are not given, if the
// trusted project's file of its workspace has them.
func (in StartInput) projectVariables(ctx context.Context, env *op.Env, vars map[string]string) error {
	k, err := paddock.Find(ctx, in.Name, env.Options)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(k.Variables, func(name string) bool { _, given := vars[name]; return given })
	if len(missing) == 0 {
		return nil
	}
	spec, err := op.SpecInput{Workspace: (*osstring.String)(&k.Spec.Workspace.Source)}.Spec(ctx, env)
	for _, name := range missing {
		if value, ok := spec.Env[name]; ok {
			vars[name] = value
		}
	}
	return err
}
