package service

import (
	"context"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ServiceStatusInput struct{ ServiceName }

func (ServiceStatusInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_status", CLI: []string{"service", "status"}, Summary: "Report whether a service runs and is ready",
		Doc: `Report whether a service is running, exited (by itself), failed (before it was ready)
or stopped, since when, and with which exit status. If it has failed or exited, the
answer has the last lines of its output.`,
		Examples: "  paddock service status web site",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do asks the agent about the service.
func (in ServiceStatusInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: in.Name})
		if err != nil {
			return registry.Refusal("look at service "+in.Name, err)
		}
		out, err = serviceOutput(ctx, s, r)
		return err
	})
	return out, err
}
