package op

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// ServiceStartInput asks for a command that outlives the call.
type ServiceStartInput struct {
	InSandbox
	Name         string           `json:"name" flag:"name" arg:"NAME" help:"a name for the service" min:"1" max:"64"`
	Command      string           `json:"command,omitempty" flag:"command" arg:"TEXT" help:"what to run, as a text for /bin/sh" max:"131072"`
	Argv         []string         `json:"argv,omitempty" arg:"COMMAND..." help:"what to run, as a program and its arguments, without a shell" max:"4096"`
	Cwd          string           `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"where it runs, in the workspace (default: the workspace)" max:"4096"`
	Env          Variables        `json:"env,omitempty" flag:"env" arg:"K=V" help:"environment variables to add" secret:"env"`
	SecretEnv    []string         `json:"secret_env,omitempty" flag:"secret-env" arg:"NAME" help:"secrets of secret_set that are given as environment variables of the same name" max:"64"`
	ReadyPort    *uint64          `json:"ready_port,omitempty" flag:"ready-port" arg:"PORT" help:"it is ready when it accepts connections on this port of 127.0.0.1" min:"1" max:"65535"`
	ReadyHTTP    string           `json:"ready_http,omitempty" flag:"ready-http" arg:"URL" help:"it is ready when this URL (http://127.0.0.1:PORT/…) is answered with a status from 200 to 399" max:"4096"`
	ReadyFile    string           `json:"ready_file,omitempty" flag:"ready-file" arg:"PATH" help:"it is ready when there is something at this path, relative to the workspace" max:"4096"`
	ReadyCommand string           `json:"ready_command,omitempty" flag:"ready-command" arg:"TEXT" help:"it is ready when this command for /bin/sh succeeds" max:"32768"`
	Timeout      *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"how long it may take to be ready, at most 10m (default: 30s)"`
}

// ServiceNameInput names a service.
type ServiceNameInput struct {
	InSandbox
	Name string `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
}

// ServiceLogsInput asks for what a service has printed.
type ServiceLogsInput struct {
	InSandbox
	Name  string  `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
	Tail  *uint64 `json:"tail,omitempty" flag:"tail" arg:"N" help:"the last lines of each stream (default: 100)" max:"100000"`
	Limit *uint64 `json:"limit,omitempty" flag:"limit" arg:"N" help:"characters of output to return at most, the last ones (default: 16000)" min:"1" max:"4194304"`
	Plain *bool   `json:"plain,omitempty" flag:"plain" help:"return text as a person would read it, without control sequences (default: true)"`
}

// What a look at a failed service shows of its logs.
const (
	logTailLines = 20
	logTailChars = 2000
	// readyEvery is the time between two looks at readiness, in milliseconds.
	readyEvery = 50
)

// serviceStart starts a service and waits until it is ready. Where its caller
// gives up, nothing of it is left.
func serviceStart(ctx context.Context, env *Env, in ServiceStartInput, stream *Stream) (out ServiceOutput, err error) {
	q, limit, err := in.request()
	if err != nil {
		return out, err
	}
	if in.Sandbox == "" && env.Sandboxes == nil {
		return out, &policy.FieldError{Field: "sandbox", Reason: "a service would end with this call in a sandbox of its own", Hint: "name one that runs"}
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		if err := s.unruled("start a service"); err != nil {
			return err
		}
		if q.Env, err = s.environ(in.Env, in.SecretEnv, nil); err != nil {
			return err
		}
		q.Redaction = s.rules()
		r, err := s.startService(ctx, q, limit, stream.Progress)
		if err != nil {
			return refusal("start service "+in.Name, err)
		}
		if out, err = s.serviceOutput(ctx, r); err != nil {
			return err
		}
		return out.unready(limit)
	})
	return out, err
}

// request checks what can be checked here, and puts it in the agent's words.
func (in ServiceStartInput) request() (q wire.StartServiceRequest, limit time.Duration, err error) {
	if _, err := nameOr("name", in.Name, false); err != nil {
		return q, 0, err
	}
	command := in.Command
	switch {
	case in.Command != "" && len(in.Argv) > 0:
		return q, 0, &policy.FieldError{Field: "command", Reason: "argv is given, too", Hint: "give one of the two"}
	case in.Command == "" && len(in.Argv) == 0:
		return q, 0, &policy.FieldError{Field: "command", Reason: "there is nothing to run"}
	case len(in.Argv) > 0:
		command = "exec " + quoted(in.Argv)
	}
	if strings.IndexByte(command, 0) >= 0 {
		return q, 0, &policy.FieldError{Field: "command", Reason: "it holds a NUL byte"}
	}
	limit, err = span("timeout", in.Timeout, 30*time.Second, maxTimeout)
	q = wire.StartServiceRequest{ServiceName: in.Name, Command: command, Cwd: wire.Path(in.Cwd),
		ReadyTimeoutSeconds: limit.Seconds(), ReadyIntervalMS: readyEvery}
	if err == nil {
		q.Readiness, err = in.readiness()
	}
	return q, limit, err
}

// quoted is a command for a shell that does nothing but run it.
func quoted(argv []string) string {
	words := make([]string, 0, len(argv))
	for _, arg := range argv {
		words = append(words, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// readiness is what makes the service ready; nil where nothing is asked.
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
		add("file", "path", in.ReadyFile)
	}
	if in.ReadyCommand != "" {
		add("command", "command", in.ReadyCommand)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return json.Marshal(all[0])
	}
	return nil, &policy.FieldError{Field: "ready_" + map[string]string{"http": "http", "file": "file", "command": "command"}[all[1]["type"]],
		Reason: "another way to see that it is ready is given, too", Hint: "give one of them"}
}

// startService starts it. The agent waits for its readiness whoever has gone, so
// that a caller who gives up has it ended here.
func (h *held) startService(ctx context.Context, q wire.StartServiceRequest, limit time.Duration, progress func(done, total float64, message string)) (wire.Service, error) {
	if now, err := wire.Call(ctx, h.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: q.ServiceName}); err == nil && now.State == stateRunning {
		return now, &paddock.Error{Message: "cannot start service " + q.ServiceName + ": it is running already",
			Hint: "service_stop ends it, service_logs shows what it prints", Code: wire.CodeConflict}
	}
	if err := ctx.Err(); err != nil {
		return wire.Service{}, err
	}
	type answer struct {
		r   wire.Service
		err error
	}
	done := make(chan answer, 1)
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+2*endTime)
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
		_, _, err := h.killTree(ctx, "service", q.ServiceName)
		if err != nil || started {
			return wire.Service{}, errors.Join(ctx.Err(), err)
		}
		select {
		case a := <-done:
			if a.err != nil { // nothing was started
				return wire.Service{}, ctx.Err()
			}
			started = true // perhaps after the look: one more
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serviceOutput is a service's record, with the end of its logs where it failed.
func (h *held) serviceOutput(ctx context.Context, r wire.Service) (ServiceOutput, error) {
	out := newServiceOutput(r)
	if r.State == stateRunning && r.ReadyAt != nil || r.State == "stopped" {
		return out, nil
	}
	tail := int64(logTailLines)
	logs, err := wire.Call(ctx, h.Client(), wire.LogsService, wire.LogsServiceRequest{ServiceName: r.ServiceName, TailLines: &tail})
	if err != nil {
		return out, refusal("read the logs of service "+r.ServiceName, err)
	}
	out.LogTail = lastOf(plainText(logs.Stdout), logTailChars/2) + lastOf(plainText(logs.Stderr), logTailChars/2)
	return out, nil
}

// unready is an error where a service that was started is not ready.
func (o ServiceOutput) unready(limit time.Duration) error {
	why := ""
	switch {
	case o.State == stateRunning || o.State == "exited" && o.ReadyAt != nil:
		return nil
	case o.StopReason == "readiness_timeout":
		why = fmt.Sprintf("it was not ready within %s, and was ended", policy.Duration(limit))
	case o.ExitCode != nil:
		why = fmt.Sprintf("it ended with status %d before it was ready", *o.ExitCode)
	default:
		why = "it ended before it was ready"
	}
	hint := "it printed nothing"
	if lines := strings.TrimSpace(o.LogTail); lines != "" {
		hint = "the last that it printed: " + firstOf(lines[strings.LastIndexByte(lines, '\n')+1:], maxShown)
	}
	return &paddock.Error{Message: "cannot start service " + o.Name + ": " + why, Hint: hint, Code: wire.CodeStart}
}

func serviceStatus(ctx context.Context, env *Env, in ServiceNameInput, _ *Stream) (out ServiceOutput, err error) {
	if _, err := nameOr("name", in.Name, false); err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: in.Name})
		if err != nil {
			return refusal("look at service "+in.Name, err)
		}
		out, err = s.serviceOutput(ctx, r)
		return err
	})
	return out, err
}

func serviceStop(ctx context.Context, env *Env, in ServiceNameInput, _ *Stream) (out ServiceStopOutput, err error) {
	if _, err := nameOr("name", in.Name, false); err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.StopService, wire.ServiceRequest{ServiceName: in.Name})
		if err != nil && ctx.Err() != nil {
			// It is being stopped; what takes its time is not waited for.
			_, _, killErr := s.killTree(ctx, "service", in.Name)
			err = errors.Join(err, killErr)
		}
		out = ServiceStopOutput{ServiceOutput: newServiceOutput(r.Service), SurvivorsKilled: r.Killed, DeathProved: r.DeathProved}
		return refusal("stop service "+in.Name, err)
	})
	return out, err
}

func serviceList(ctx context.Context, env *Env, in InSandbox, _ *Stream) (out ServiceListOutput, err error) {
	out.Services = []ServiceOutput{}
	err = env.in(ctx, in, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.ListServices, wire.ListServicesRequest{})
		out.take(r.Services, env.Budget)
		return refusal("list the services", err)
	})
	return out, err
}

func serviceLogs(ctx context.Context, env *Env, in ServiceLogsInput, _ *Stream) (out ServiceLogsOutput, err error) {
	if _, err := nameOr("name", in.Name, false); err != nil {
		return out, err
	}
	tail := int64(orCount(in.Tail, 100))
	limit := int(orCount(in.Limit, shellChars))
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := wire.Call(ctx, s.Client(), wire.LogsService, wire.LogsServiceRequest{ServiceName: in.Name, TailLines: &tail})
		if err != nil {
			return refusal("read the logs of service "+in.Name, err)
		}
		out = newServiceLogs(r, in.Plain == nil || *in.Plain, limit, env.room(limit))
		return nil
	})
	return out, err
}
