// Package service has the operations on services: commands that keep running in a sandbox,
// with readiness, status and logs. The agent keeps them; this package checks inputs, waits,
// and bounds answers.
package service

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

const serviceDoc = `A service is a command that keeps running after the call that started it: a
server, a database, a watcher. Commands and services of a sandbox share its loopback
network: exec can reach what listens on 127.0.0.1 there, and the outside only what is
published. A service ends with its sandbox.`

// ServiceOutput is the output of service_start and service_status.
type ServiceOutput struct {
	Name       string          `json:"name"`
	State      string          `json:"state"` // running, exited (by itself), failed (before it was ready) or stopped
	Ready      bool            `json:"ready"`
	Command    osstring.String `json:"command"`
	Cwd        osstring.String `json:"cwd"`
	StartedAt  time.Time       `json:"started_at"`
	ReadyAt    *time.Time      `json:"ready_at,omitempty"`
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
	ExitCode   *int            `json:"exit_code,omitempty"`   // if it has ended; -N if signal N ended it
	StopReason string          `json:"stop_reason,omitempty"` // process_exited_before_ready, readiness_timeout, sigterm or sigkill
	// LogTail is the end of its output, if it is not ready or ended by itself.
	LogTail string `json:"log_tail,omitempty"`
}

// maxShown bounds a command in an answer, in bytes.
const maxShown = 500

func newServiceOutput(r wire.Service) ServiceOutput {
	out := ServiceOutput{Name: r.ServiceName, State: r.State, Ready: r.ReadyAt != nil && r.State == registry.Running, Command: osstring.String(text.Truncate(r.Command, maxShown)),
		Cwd: r.Cwd, StartedAt: wire.Time(r.StartedAt), ReadyAt: registry.MomentOr(r.ReadyAt), EndedAt: registry.MomentOr(r.EndedAt), ExitCode: r.ExitCode}
	if r.StopReason != nil {
		out.StopReason = *r.StopReason
	}
	return out
}

// line returns the state in one line.
func (out ServiceOutput) line() string {
	text := "service " + out.Name + ": " + out.State
	switch {
	case out.Ready:
		text += ", ready"
	case out.State == registry.Running:
		text += ", not ready yet"
	}
	if out.ExitCode != nil {
		text += ", " + registry.EndedHow(*out.ExitCode)
	}
	if out.StopReason != "" && !strings.HasSuffix(text, " by "+strings.ToUpper(out.StopReason)) {
		text += " (" + out.StopReason + ")"
	}
	return text
}

// Render writes the state, and the end of the logs if the service failed.
func (out ServiceOutput) Render(w io.Writer) error {
	text := out.line() + "\n"
	if out.LogTail != "" {
		text += "its last lines:\n" + strings.TrimSuffix(out.LogTail, "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// How much the output of a failed service has of its logs.
const (
	logTailLines = 20
	logTailChars = 2000
	// readyEvery is the interval of checks for readiness, in milliseconds.
	readyEvery = 50
)

// serviceOutput returns a service's state, with the end of its logs if it failed.
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
	out.LogTail = text.Tail(text.RenderTerminal(logs.Stdout), logTailChars/2) + text.Tail(text.RenderTerminal(logs.Stderr), logTailChars/2)
	return out, nil
}

// ServiceName names a service.
type ServiceName struct {
	op.InSandbox
	Name string `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
}
