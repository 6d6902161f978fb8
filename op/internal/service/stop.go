package service

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// ServiceStopInput names the service to stop.
type ServiceStopInput struct{ ServiceName }

// ServiceStopOutput is a service at its end.
type ServiceStopOutput struct {
	ServiceOutput
	// SurvivorsKilled counts processes that TERM did not end; DeathProved says
	// that none is left. Neither says anything of one that had ended before.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
}

// Desc describes the operation service_stop.
func (ServiceStopInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_stop", CLI: []string{"service", "stop"}, Summary: "Stop a service, with all that it has started",
		Doc: `Stop a service: TERM to all of its processes, and KILL to those that are left
after 5 seconds. The answer says how many had to be killed, and whether it is
proved that none is left. One that has ended already is left as it is. Its logs
can still be read.`,
		Examples: "  paddock service stop --sandbox ID web",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
	}
}

// Do runs the operation.
func (in ServiceStopInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceStopOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := stays(env, in.InSandbox); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.StopService, wire.ServiceRequest{ServiceName: in.Name})
		if err != nil && ctx.Err() != nil {
			// It is being stopped; what takes its time is not waited for.
			_, _, killErr := s.KillTree(ctx, "service", in.Name)
			err = errors.Join(err, killErr)
		}
		if err != nil {
			return registry.Refusal("stop service "+in.Name, err)
		}
		out = ServiceStopOutput{ServiceOutput: newServiceOutput(r.Service), SurvivorsKilled: r.Killed, DeathProved: r.DeathProved}
		return nil
	})
	return out, err
}

// Render writes the output for people.
func (out ServiceStopOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s%s\n", out.line(), output.Proof(out.SurvivorsKilled, out.DeathProved || out.State != "stopped"))
	return err
}
