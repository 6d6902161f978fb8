// Package service has the operations on services: commands that run on in a sandbox,
// with readiness, status and logs. The agent keeps them; this side checks the input,
// waits, and bounds what is answered.
package service

import (
	"context"
	"errors"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const serviceDoc = `A service is a command that runs on when the call that started it has returned:
a server, a database, a watcher. Commands and services of one sandbox share its
loopback network: what listens on 127.0.0.1 is reached there by exec, and not
from outside. It ends with its sandbox.`

// Desc describes the operation service_start.
func (ServiceStartInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_start", CLI: []string{"service", "start"}, Summary: "Start a service, and wait until it is ready",
		Doc: serviceDoc + `

The call returns when the service is ready: when a port accepts connections
(ready_port), a URL is answered (ready_http), a file is there (ready_file) or a
command succeeds (ready_command); with none of them, at once. A port or URL that is
answered before the service is started is refused: another would be taken for it.
Where it ends before, or is not ready within timeout, it is ended, and the error comes with the
last lines it printed. One that has ended may be started again under its name,
with new logs. A sandbox runs 64 at most.

On the command line --sandbox names a sandbox that runs.`,
		Examples: `  # in a sandbox that another paddock keeps
  paddock service start --sandbox ID --name web --ready-port 8000 -- python3 -m http.server 8000`,
		Profile: op.ProfileWorkspace, Hints: op.Hints{Destructive: true, LongRunning: true},
	}
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

// Desc describes the operation service_status.
func (ServiceStatusInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_status", CLI: []string{"service", "status"}, Summary: "Say whether a service runs and is ready",
		Doc: `Say whether a service is running, exited (by itself), failed (before it was
ready) or stopped, since when, and with which exit status. Where it has failed or
exited, the answer has the last lines that it printed.`,
		Examples: "  paddock service status --sandbox ID web",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Desc describes the operation service_list.
func (ServiceListInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_list", CLI: []string{"service", "list"}, Summary: "List the services of a sandbox",
		Doc:      "List the services of a sandbox with their state: those that run, then those that have ended.",
		Examples: "  paddock service list --sandbox ID",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Desc describes the operation service_logs.
func (ServiceLogsInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_logs", CLI: []string{"service", "logs"}, Summary: "Read what a service has printed",
		Doc: `Read the end of what a service has printed: the last lines (tail) of each
stream, as far as they fit into limit. It works while the service runs and after
it has ended, until it is started again. The last 4 MiB of a stream are kept.
stdout_truncated and stderr_truncated say that something before is left out.`,
		Examples: "  paddock service logs --sandbox ID --tail 20 web",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// ServiceStartInput asks for a command that outlives the call.
type ServiceStartInput struct {
	op.InSandbox
	Name         string           `json:"name" flag:"name" arg:"NAME" help:"a name for the service" min:"1" max:"64"`
	Command      string           `json:"command,omitempty" flag:"command" arg:"TEXT" help:"what to run, as a text for /bin/sh" max:"131072"`
	Argv         []string         `json:"argv,omitempty" arg:"COMMAND..." help:"what to run, as a program and its arguments, without a shell" max:"4096"`
	Cwd          string           `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"where it runs, in the workspace (default: the workspace)" max:"4096"`
	Env          op.Variables     `json:"env,omitempty" flag:"env" arg:"K=V" help:"environment variables to add" secret:"env"`
	SecretEnv    []string         `json:"secret_env,omitempty" flag:"-" help:"secrets of secret_set that are given as environment variables of the same name" max:"64"`
	ReadyPort    *uint64          `json:"ready_port,omitempty" flag:"ready-port" arg:"PORT" help:"it is ready when it accepts connections on this port of 127.0.0.1" min:"1" max:"65535"`
	ReadyHTTP    string           `json:"ready_http,omitempty" flag:"ready-http" arg:"URL" help:"it is ready when this URL (http://127.0.0.1:PORT/…) is answered with a status from 200 to 399" max:"4096"`
	ReadyFile    string           `json:"ready_file,omitempty" flag:"ready-file" arg:"PATH" help:"it is ready when there is something at this path, relative to the workspace" max:"4096"`
	ReadyCommand string           `json:"ready_command,omitempty" flag:"ready-command" arg:"TEXT" help:"it is ready when this command for /bin/sh succeeds" max:"32768"`
	Timeout      *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"how long it may take to be ready, at most 10m (default: 30s)"`
}

// ServiceListInput names the sandbox whose services are listed.
type ServiceListInput struct {
	op.InSandbox
}

// ServiceStatusInput names the service to look at.
type ServiceStatusInput struct{ ServiceName }

// ServiceStopInput names the service to stop.
type ServiceStopInput struct{ ServiceName }

// ServiceName names a service.
type ServiceName struct {
	op.InSandbox
	Name string `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
}

// ServiceLogsInput asks for what a service has printed.
type ServiceLogsInput struct {
	op.InSandbox
	Name  string  `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
	Tail  *uint64 `json:"tail,omitempty" flag:"tail" arg:"N" help:"the last lines of each stream (default: 100)" max:"100000"`
	Limit *uint64 `json:"limit,omitempty" flag:"limit" arg:"N" help:"characters of output to return at most, the last ones (default: 16000)" min:"1" max:"4194304"`
	Plain *bool   `json:"plain,omitempty" flag:"plain" help:"return text as a person would read it, without control sequences (default: true)"`
}

// checkPaths refuses paths that cannot be in the workspace.
func (in ServiceStartInput) checkPaths() error {
	return errors.Join(op.CheckGiven("cwd", in.Cwd), op.CheckGiven("ready_file", in.ReadyFile))
}

// refused is what the agent said, with the field that it is about.
func (in ServiceStartInput) refused(err error) error {
	var own *wire.Error
	if errors.As(err, &own) && own.Object == "readiness" {
		for field, value := range map[string]string{"ready_http": in.ReadyHTTP, "ready_file": in.ReadyFile, "ready_command": in.ReadyCommand} {
			if value != "" { // one of them is given at most
				return &policy.FieldError{Field: field, Value: value, Reason: strings.Replace(own.Message, "readiness url", "it", 1)}
			}
		}
	}
	return registry.Refusal("start service "+in.Name, err)
}

// stays refuses, where nothing outlives the call, to look for services in a
// sandbox that would be made for it.
func stays(e *op.Env, where op.InSandbox) error {
	if where.Sandbox != "" || e.Sandboxes != nil {
		return nil
	}
	return &policy.FieldError{Field: "sandbox", Reason: "it is missing: services end with their sandbox, and one of this call's own would end with it",
		Hint: "name a sandbox that runs, see paddock list"}
}

// Do runs the operation.
func (in ServiceStatusInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := stays(env, in.InSandbox); err != nil {
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

// Do runs the operation.
func (in ServiceListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceListOutput, err error) {
	if err := stays(env, in.InSandbox); err != nil {
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

// Do runs the operation.
func (in ServiceLogsInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceLogsOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := stays(env, in.InSandbox); err != nil {
		return out, err
	}
	tail := int64(op.OrCount(in.Tail, 100))
	limit := int(op.OrCount(in.Limit, op.ShellChars))
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.LogsService, wire.LogsServiceRequest{ServiceName: in.Name, TailLines: &tail})
		if err != nil {
			return registry.Refusal("read the logs of service "+in.Name, err)
		}
		out = newServiceLogs(r, in.Plain == nil || *in.Plain, limit, env.Room(limit))
		return nil
	})
	return out, err
}
