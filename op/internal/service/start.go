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
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// What a look at a failed service shows of its logs.
const (
	logTailLines = 20
	logTailChars = 2000
	// readyEvery is the time between two looks at readiness, in milliseconds.
	readyEvery = 50
)

// serviceStart starts a service and waits until it is ready. Where its caller
// gives up, nothing of it is left.
func serviceStart(ctx context.Context, env *op.Env, in ServiceStartInput, stream *op.Stream) (out ServiceOutput, err error) {
	q, limit, err := in.request()
	if err != nil {
		return out, err
	}
	if err := stays(env, in.InSandbox); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		if err := s.Unruled("start a service"); err != nil {
			return err
		}
		if q.Env, err = s.Environ(in.Env, in.SecretEnv, nil); err != nil {
			return err
		}
		r, err := startService(ctx, s, q, limit, stream.Progress)
		if err != nil {
			return in.refused(in.taken(err))
		}
		if out, err = serviceOutput(ctx, s, r); err != nil {
			return err
		}
		return out.unready(limit)
	})
	return out, err
}

// request checks what can be checked here, and puts it in the agent's words.
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
		command = "exec " + quoted(in.Argv)
	}
	if strings.IndexByte(command, 0) >= 0 {
		return q, 0, &policy.FieldError{Field: "command", Reason: "it holds a NUL byte"}
	}
	limit, err = op.Span("timeout", in.Timeout, 30*time.Second, op.MaxTimeout)
	err = errors.Join(err, in.Env.Check(), in.checkPaths())
	q = wire.StartServiceRequest{ServiceName: in.Name, Command: command, Cwd: wire.Path(in.Cwd),
		ReadyUnused: true, ReadyTimeoutSeconds: limit.Seconds(), ReadyIntervalMS: readyEvery}
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
	return nil, &policy.FieldError{Field: "ready_" + all[1]["type"], // tcp, which is a port, comes first
		Reason: "another way to see that it is ready is given, too", Hint: "give one of them"}
}

// taken names the field of a readiness that somebody else gives: the service
// would count as ready whatever becomes of it.
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

// startService starts it. The agent waits for its readiness whoever has gone, so
// that a caller who gives up has it ended here.
func startService(ctx context.Context, h *registry.Sandbox, q wire.StartServiceRequest, limit time.Duration, progress func(done, total float64, message string)) (wire.Service, error) {
	if now, err := wire.Call(ctx, h.Client(), wire.StatusService, wire.ServiceRequest{ServiceName: q.ServiceName}); err == nil && now.State == registry.Running {
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
			started = true // perhaps after the look: one more
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serviceOutput is a service's record, with the end of its logs where it failed.
func serviceOutput(ctx context.Context, h *registry.Sandbox, r wire.Service) (ServiceOutput, error) {
	out := newServiceOutput(r)
	if r.State == registry.Running && r.ReadyAt != nil || r.State == "stopped" {
		return out, nil
	}
	tail := int64(logTailLines)
	logs, err := wire.Call(ctx, h.Client(), wire.LogsService, wire.LogsServiceRequest{ServiceName: r.ServiceName, TailLines: &tail})
	if err != nil {
		return out, registry.Refusal("read the logs of service "+r.ServiceName, err)
	}
	out.LogTail = text.LastOf(text.PlainText(logs.Stdout), logTailChars/2) + text.LastOf(text.PlainText(logs.Stderr), logTailChars/2)
	return out, nil
}

// unready is an error where a service that was started is not ready.
func (o ServiceOutput) unready(limit time.Duration) error {
	var why string
	switch {
	case o.State == registry.Running || o.State == "exited" && o.ReadyAt != nil:
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
		hint = "the last that it printed: " + text.FirstOf(lines[strings.LastIndexByte(lines, '\n')+1:], maxShown)
	}
	return &paddock.Error{Message: "cannot start service " + o.Name + ": " + why, Hint: hint, Code: wire.CodeStart}
}
