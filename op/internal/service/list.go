package service

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ServiceListInput struct {
	op.InSandbox
}

type ServiceListOutput struct {
	Services []ServiceOutput `json:"services"`
	// NotShown counts those for which the answer has no room.
	NotShown int `json:"not_shown,omitempty"`
}

func (ServiceListInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_list", CLI: []string{"service", "list"}, Summary: "List the services of a sandbox",
		Doc:      "List the services of a sandbox with their state: running ones first, then those that have ended.",
		Examples: "  paddock service list web",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do asks the agent for its services.
func (in ServiceListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceListOutput, err error) {
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.ListServices, wire.ListServicesRequest{})
		if err != nil {
			return registry.Refusal("list the services", err)
		}
		out.Services = []ServiceOutput{}
		out.take(r.Services, env.Budget)
		return nil
	})
	return out, err
}

// take adds services, running ones first, as many as the budget has room for.
func (out *ServiceListOutput) take(list []wire.Service, budget int) {
	for _, running := range []bool{true, false} {
		for _, r := range list {
			if (r.State == registry.Running) != running {
				continue
			}
			one := newServiceOutput(r)
			if budget > 0 {
				if budget -= 2 * (text.JSONSize(string(one.Command)) + text.JSONSize(string(one.Cwd)) + 400); budget <= 0 {
					out.NotShown++
					budget = 1
					continue
				}
			}
			out.Services = append(out.Services, one)
		}
	}
}

func (out ServiceListOutput) Render(w io.Writer) error {
	if len(out.Services) == 0 {
		_, err := fmt.Fprintln(w, "there are no services")
		return err
	}
	return output.Table(w, func(row output.Row) {
		for _, s := range out.Services {
			row("%s\t%s", s.line(), text.Truncate(strings.ReplaceAll(string(s.Command), "\n", " "), 80))
		}
		if out.NotShown > 0 {
			row("and %d more", out.NotShown)
		}
	})
}
