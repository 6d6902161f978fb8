package service

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ServiceStopInput struct{ ServiceName }

type ServiceStopOutput struct {
	ServiceOutput
	op.Death // means nothing for a service that had ended before
}

func (ServiceStopInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_stop", CLI: []string{"service", "stop"}, Summary: "Stop a service, with everything that it has started",
		Doc: `Stop a service: all of its processes get TERM, and those that are left after 5
seconds get KILL. The answer says how many had to be killed, and whether it is proved
that none is left. A service that has already ended stays as it is. The logs can
still be read.`,
		Examples: "  paddock service stop web site",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
	}
}

func (in ServiceStopInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceStopOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.StopService, wire.ServiceRequest{ServiceName: in.Name})
		if err != nil && ctx.Err() != nil {
			// The agent is stopping it. Do not wait for processes that ignore TERM.
			_, _, killErr := s.KillTree(ctx, "service", in.Name)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return registry.Refusal("stop service "+in.Name, err)
		}
		out = ServiceStopOutput{ServiceOutput: newServiceOutput(r.Service), Death: op.NewDeath(r.Killed, r.DeathProved)}
		return nil
	})
	return out, err
}

func (out ServiceStopOutput) Render(w io.Writer) error {
	death := out.Death
	death.DeathProved = death.DeathProved || out.State != "stopped"
	_, err := fmt.Fprintf(w, "%s%s\n", out.line(), death.Proof())
	return err
}
