package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type StatsInput struct {
	Names []string `json:"names,omitempty" arg:"[NAME]..." help:"the sandboxes, by name or id (default: all that run)" max:"256"`
}

// Use is what runs in a sandbox. It comes from the agent and is not verified.
type Use struct {
	Commands    int   `json:"commands"`
	Shells      int   `json:"shells"`
	Services    int   `json:"services"`
	Processes   int   `json:"processes"`
	MemoryBytes int64 `json:"memory_bytes"`
	CPUMS       int64 `json:"cpu_ms"` // of what runs now
}

// SandboxUse is the use of one sandbox.
type SandboxUse struct {
	Sandbox string `json:"sandbox"`
	ID      string `json:"id"`
	Use
}

type StatsOutput struct {
	Sandboxes []SandboxUse `json:"sandboxes"`
}

func (StatsInput) Desc() op.Desc {
	return op.Desc{
		Name: "stats", CLI: []string{"stats"},
		Summary: "Show what persistent sandboxes use",
		Doc: `Show how many commands, shells and services run in sandboxes of "paddock create", with
their processes, memory and processor time. The numbers come from inside and are not
verified.`,
		Examples: "  paddock stats\n  paddock stats web --json",
		Local:    true,
		Each:     true,
		Hints:    op.Hints{ReadOnly: true, Idempotent: true, Control: true},
	}
}

// answerTime is how long an agent may take to say what runs in its sandbox.
const answerTime = 5 * time.Second

func (in StatsInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (StatsOutput, error) {
	out := StatsOutput{Sandboxes: []SandboxUse{}}
	all := len(in.Names) == 0
	if all {
		kept, err := paddock.ListLasting(ctx, env.Options)
		if err != nil {
			return out, err
		}
		for _, k := range kept {
			if k.State == paddock.StateRunning || k.State == paddock.StatePaused {
				in.Names = append(in.Names, k.Called())
			}
		}
	}
	var errs []error
	for _, name := range in.Names {
		one, err := statsOf(ctx, name, env)
		switch {
		case err == nil:
			out.Sandboxes = append(out.Sandboxes, one)
		case !all || !errors.Is(err, paddock.ErrClosed): // else it has ended meanwhile
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

func statsOf(ctx context.Context, name string, env *op.Env) (SandboxUse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s, err := paddock.Attach(ctx, name, env.Options)
	if err != nil {
		return SandboxUse{}, err
	}
	use, err := useOf(ctx, s)
	return SandboxUse{name, s.ID(), use}, errors.Join(err, s.Close())
}

// useOf asks the agent what runs.
func useOf(ctx context.Context, s *paddock.Sandbox) (Use, error) {
	var u Use
	now, err := s.Stats(ctx)
	if err != nil {
		return u, err
	}
	for _, tree := range now.Trees {
		switch tree.Kind {
		case "shell", "session":
			u.Shells++
		case "service":
			u.Services++
		default:
			u.Commands++
		}
		u.Processes += max(tree.Processes, 0)
		u.MemoryBytes += max(tree.MemoryBytes, 0)
		u.CPUMS += max(tree.UserCPUMS, 0) + max(tree.SystemCPUMS, 0)
	}
	return u, nil
}

// tell writes the use in one line.
func (u Use) tell(t *output.Teller) {
	t.Line("%s, %s, %s; %s, %s of memory", text.Count(u.Commands, "command"), text.Count(u.Shells, "shell"), text.Count(u.Services, "service"),
		text.Count(u.Processes, "process"), policy.Size(u.MemoryBytes))
}

func (out StatsOutput) Render(w io.Writer) error {
	if len(out.Sandboxes) == 0 {
		_, err := fmt.Fprintln(w, "no sandbox that stays runs")
		return err
	}
	return output.Table(w, func(row output.Row) {
		row("SANDBOX\tCOMMANDS\tSHELLS\tSERVICES\tPROCESSES\tMEMORY\tCPU")
		for _, s := range out.Sandboxes {
			row("%s\t%d\t%d\t%d\t%d\t%s\t%d.%03ds", text.Escape(s.Sandbox), s.Commands, s.Shells, s.Services, s.Processes, policy.Size(s.MemoryBytes), s.CPUMS/1000, s.CPUMS%1000)
		}
	})
}
