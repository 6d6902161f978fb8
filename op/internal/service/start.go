package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type ServiceStartInput struct {
	op.InSandbox
	Name         string           `json:"name" flag:"name" arg:"NAME" help:"a name for the service" min:"1" max:"64"`
	Command      osstring.String  `json:"command,omitempty" flag:"command" arg:"TEXT" help:"what to run, as shell text for /bin/sh" max:"131072"`
	Argv         osstring.List    `json:"argv,omitempty" arg:"COMMAND..." help:"what to run, as a program with arguments, without a shell" max:"4096"`
	Cwd          osstring.String  `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"its directory, in the workspace (default: the workspace)" max:"4096"`
	Env          op.Variables     `json:"env,omitempty" flag:"env" arg:"K=V" help:"environment variables to add" secret:"env"`
	SecretEnv    []string         `json:"secret_env,omitempty" flag:"secret-env" arg:"KEY" help:"names of secrets (secret_set) to pass as environment variables" cli:"pass this secret (paddock secret set) as an environment variable (may be repeated)" max:"64"`
	ReadyPort    *uint64          `json:"ready_port,omitempty" flag:"ready-port" arg:"PORT" help:"it is ready when it accepts connections on this port of 127.0.0.1" min:"1" max:"65535"`
	ReadyHTTP    string           `json:"ready_http,omitempty" flag:"ready-http" arg:"URL" help:"it is ready when this URL (http://127.0.0.1:PORT/…) is answered with a status from 200 to 399" max:"4096"`
	ReadyFile    osstring.String  `json:"ready_file,omitempty" flag:"ready-file" arg:"PATH" help:"it is ready when this path exists, relative to the workspace" max:"4096"`
	ReadyCommand osstring.String  `json:"ready_command,omitempty" flag:"ready-command" arg:"TEXT" help:"it is ready when this shell text succeeds, run by /bin/sh" max:"32768"`
	Timeout      *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"how long it may take to become ready, at most 10m (default: 30s)"`
}

func (ServiceStartInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_start", CLI: []string{"service", "start"}, Summary: "Start a service, and wait until it is ready",
		Doc: serviceDoc + `

The call returns when the service is ready: when a port accepts connections
(ready_port), a URL is answered (ready_http), a file exists (ready_file) or a command
succeeds (ready_command); with none of them, after half a second in which it has not
failed. A port or URL that is answered
before the service is started is refused, since something else answers there. If the
service exits before it is ready, or is not ready within --timeout, it is ended, and the
error has the last lines of its output. A service that has ended can be started again
with the same name; its logs are then new. A sandbox can run 64 services.`,
		Examples: `  # in a sandbox of "paddock create"
  paddock service start web --name site --ready-port 8000 -- python3 -m http.server 8000`,
		Profile: op.ProfileWorkspace, Hints: op.Hints{Destructive: true, LongRunning: true},
	}
}

// Do starts a service and waits until it is ready. If the call is cancelled, nothing of the
// service is left.
func (in ServiceStartInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out ServiceOutput, err error) {
	q, limit, err := in.request()
	if err != nil {
		return out, err
	}
	if err := in.Need(env); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		if err := s.Unruled("start a service"); err != nil {
			return err
		}
		if err := s.CheckSecrets(ctx, in.SecretEnv); err != nil {
			return err
		}
		r, err := startService(ctx, s, q, limit, stream.Progress)
		if err == nil && q.Readiness == nil {
			r, err = watched(ctx, s, r)
		}
		if err != nil {
			return in.refused(in.taken(err))
		}
		if out, err = serviceOutput(ctx, s, r); err != nil {
			return err
		}
		return out.unready(limit, q.Readiness != nil)
	})
	return out, err
}

// request checks the input and returns the request to the agent, and the time limit.
func (in ServiceStartInput) request() (q wire.StartServiceRequest, limit time.Duration, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return q, 0, err
	}
	command := in.Command
	switch {
	case in.Command != "" && len(in.Argv) > 0:
		return q, 0, &policy.FieldError{Field: "command", Reason: "argv is given, too", Hint: "give one of the two"}
	case in.Command == "" && len(in.Argv) == 0:
		return q, 0, &policy.FieldError{Field: "command", Reason: "there is nothing to run"}
	case len(in.Argv) > 0:
		words := make([]string, 0, len(in.Argv))
		for _, arg := range in.Argv {
			words = append(words, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
		}
		command = osstring.String("exec " + strings.Join(words, " "))
	}
	if strings.IndexByte(string(command), 0) >= 0 {
		return q, 0, &policy.FieldError{Field: "command", Reason: "it holds a NUL byte"}
	}
	limit, err = op.DurationWithin("timeout", in.Timeout, 30*time.Second, op.MaxTimeout)
	err = errors.Join(err, in.Env.Check(), op.CheckGiven("cwd", in.Cwd), op.CheckGiven("ready_file", in.ReadyFile))
	q = wire.StartServiceRequest{ServiceName: in.Name, Command: command, Cwd: in.Cwd,
		Env: registry.Environ(in.Env, nil), SecretEnv: in.SecretEnv, ReadyUnused: true, ReadyTimeoutSeconds: limit.Seconds(), ReadyIntervalMS: readyEvery}
	if err == nil {
		q.Readiness, err = in.readiness()
	}
	return q, limit, err
}

// readiness returns the agent's condition for readiness, or nil.
func (in ServiceStartInput) readiness() (json.RawMessage, error) {
	var all []map[string]string
	add := func(kind, field, value string) {
		all = append(all, map[string]string{"type": kind, field: value})
	}
	if in.ReadyPort != nil {
		add("tcp", "address", "127.0.0.1:"+strconv.FormatUint(*in.ReadyPort, 10))
	}
	if in.ReadyHTTP != "" {
		add("http", "url", in.ReadyHTTP)
	}
	if in.ReadyFile != "" {
		add("file", "path", string(in.ReadyFile))
	}
	if in.ReadyCommand != "" {
		add("command", "command", string(in.ReadyCommand))
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return json.Marshal(all[0])
	}
	return nil, &policy.FieldError{Field: "ready_" + all[1]["type"], // tcp, which is a port, comes first
		Reason: "another way to see that it is ready is given, too", Hint: "give one of them"}
}

// taken returns the agent's error with the field of a port or URL at which something else
// answers already. The service would count as ready even if it failed.
func (in ServiceStartInput) taken(err error) error {
	own := (*wire.Error)(nil)
	if !errors.As(err, &own) || own.Code != wire.CodeConflict || own.Object != "readiness" {
		return err
	}
	e := &policy.FieldError{Field: "ready_http", Value: in.ReadyHTTP, Reason: "it is answered already, before the service is started",
		Hint: "service_list names the services that run, sandbox_status the commands; end what listens there, or use another port"}
	if in.ReadyPort != nil {
		e.Field, e.Value, e.Reason = "ready_port", strconv.FormatUint(*in.ReadyPort, 10), "something listens on it already, before the service is started"
	}
	return e
}

// refused returns the agent's error with the field that it is about.
func (in ServiceStartInput) refused(err error) error {
	var own *wire.Error
	if errors.As(err, &own) && own.Object == "readiness" {
		for field, value := range map[string]string{"ready_http": in.ReadyHTTP, "ready_file": string(in.ReadyFile), "ready_command": string(in.ReadyCommand)} {
			if value != "" { // at most one is given
				return &policy.FieldError{Field: field, Value: value, Reason: strings.Replace(own.Message, "readiness url", "it", 1)}
			}
		}
	}
	return registry.Refusal("start service "+in.Name, err)
}

// startService starts the service. The agent waits for readiness even if the connection is
// closed, so if the call is cancelled, the service is ended here.
func startService(ctx context.Context, h *registry.Sandbox, q wire.StartServiceRequest, limit time.Duration, progress func(done, total float64, message string)) (wire.Service, error) {
	if now, err := wire.Call(ctx, h.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: q.ServiceName}); err == nil && now.State == registry.Running {
		return now, &paddock.Error{Message: "cannot start service " + q.ServiceName + ": it is running already",
			Hint: "paddock service stop ends it, paddock service logs shows what it prints", Code: wire.CodeConflict}
	}
	if err := ctx.Err(); err != nil {
		return wire.Service{}, err
	}
	type answer struct {
		r   wire.Service
		err error
	}
	done := make(chan answer, 1)
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+2*registry.EndTime)
	go func() {
		defer cancel()
		r, err := wire.Call(asked, h.Client(), wire.StartService, q)
		done <- answer{r, err}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		select {
		case a := <-done:
			return a.r, a.err
		case <-tick.C:
			if progress != nil {
				progress(time.Since(began).Seconds(), limit.Seconds(), "service "+q.ServiceName+" is not ready yet")
			}
		case <-ctx.Done():
		}
	}
	for started := false; ; {
		_, _, err := h.KillTree(ctx, "service", q.ServiceName)
		if err != nil || started {
			return wire.Service{}, errors.Join(ctx.Err(), err)
		}
		select {
		case a := <-done:
			if a.err != nil { // nothing was started
				return wire.Service{}, ctx.Err()
			}
			started = true // perhaps after the kill: kill once more
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// watchTime is how long a service without a condition for readiness is watched, so that one that
// dies at once is not told to run.
const watchTime = 500 * time.Millisecond

// watched returns the service as it is after a short watch, or as soon as it has ended. If the call is
// cancelled, it ends the service.
func watched(ctx context.Context, h *registry.Sandbox, r wire.Service) (wire.Service, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(watchTime); r.State == registry.Running; {
		select {
		case <-tick.C:
			now, err := wire.Call(ctx, h.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: r.ServiceName})
			switch {
			case err == nil:
				r = now
			case ctx.Err() == nil:
				return r, err
			}
		case <-over:
			return r, nil
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			_, _, err := h.KillTree(ctx, "service", r.ServiceName)
			return r, errors.Join(ctx.Err(), err)
		}
	}
	return r, nil
}

// unready returns an error if a service that was started is not ready, or has failed at once;
// checked says that it has a condition for readiness.
func (out ServiceOutput) unready(limit time.Duration, checked bool) error {
	var why string
	switch {
	case out.State == registry.Running || out.State == "exited" && out.ReadyAt != nil && (checked || out.ExitCode == nil || *out.ExitCode == 0):
		return nil
	case !checked && out.ExitCode != nil:
		why = "it ended at once: " + registry.EndedHow(*out.ExitCode)
	case out.StopReason == "readiness_timeout":
		why = fmt.Sprintf("it was not ready within %s, and was ended", policy.Duration(limit))
	case out.ExitCode != nil:
		why = fmt.Sprintf("it ended with status %d before it was ready", *out.ExitCode)
	default:
		why = "it ended before it was ready"
	}
	hint := "it printed nothing"
	if lines := strings.TrimSpace(out.LogTail); lines != "" {
		last := text.Truncate(lines[strings.LastIndexByte(lines, '\n')+1:], maxShown)
		hint = "the last that it printed: " + strings.ReplaceAll(last, "`", "'") // no field of a spec
	}
	return &paddock.Error{Message: "cannot start service " + out.Name + ": " + why, Hint: hint, Code: wire.CodeStart}
}
