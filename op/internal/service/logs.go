package service

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type ServiceLogsInput struct {
	op.InSandbox
	Name  string  `json:"name" arg:"NAME" help:"which service" min:"1" max:"64"`
	Tail  *uint64 `json:"tail,omitempty" flag:"tail" arg:"N" help:"the last lines of each stream (default: 100)" max:"100000"`
	Limit *uint64 `json:"limit,omitempty" flag:"limit" arg:"N" help:"characters of output to return at most, the last ones (default: 16000)" min:"1" max:"4194304"`
	Plain *bool   `json:"plain,omitempty" flag:"plain" help:"return text as a person would read it, without control sequences (default: true)"`
}

type ServiceLogsOutput struct {
	ServiceOutput
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// StdoutTruncated and StderrTruncated report that earlier output is left out.
	StdoutTruncated bool `json:"stdout_truncated"`
	StderrTruncated bool `json:"stderr_truncated"`
}

func (ServiceLogsInput) Desc() op.Desc {
	return op.Desc{
		Name: "service_logs", CLI: []string{"service", "logs"}, Summary: "Read the output of a service",
		Doc: `Read the end of a service's output: the last lines (tail) of each stream, as far as
they fit into limit. It works while the service runs and after it has ended, until it
is started again. The last 4 MiB of each stream are kept. stdout_truncated and
stderr_truncated say that earlier output is left out.`,
		Examples: "  paddock service logs --tail 20 web site",
		Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in ServiceLogsInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out ServiceLogsOutput, err error) {
	if _, err := op.NameOr("name", in.Name, false); err != nil {
		return out, err
	}
	if err := in.Need(env); err != nil {
		return out, err
	}
	tail := int64(op.CountOr(in.Tail, 100))
	limit := int(op.CountOr(in.Limit, op.ShellChars))
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

// newServiceLogs returns the ends of both streams, within the bounds.
func newServiceLogs(r wire.LogsServiceResult, plain bool, limit, room int) ServiceLogsOutput {
	out := ServiceLogsOutput{ServiceOutput: newServiceOutput(r.Service), Stdout: r.Stdout, Stderr: r.Stderr,
		StdoutTruncated: r.StdoutTruncated, StderrTruncated: r.StderrTruncated}
	if plain {
		out.Stdout, out.Stderr = text.RenderTerminal(out.Stdout), text.RenderTerminal(out.Stderr)
	}
	room = min(limit, room)
	// Room that one stream does not need is for the other.
	first := min(text.JSONSize(out.Stdout), max(room/2, room-text.JSONSize(out.Stderr)))
	fit := func(s string, room int) string { return text.Tail(s, len(text.TailWithinJSON(s, room))) }
	a, b := fit(out.Stdout, first), fit(out.Stderr, room-first)
	out.StdoutTruncated = out.StdoutTruncated || len(a) < len(out.Stdout)
	out.StderrTruncated = out.StderrTruncated || len(b) < len(out.Stderr)
	out.Stdout, out.Stderr = a, b
	return out
}

// Tell writes the state, and then the output.
func (out ServiceLogsOutput) Tell(w io.Writer) error {
	if _, err := fmt.Fprintln(w, out.line()); err != nil {
		return err
	}
	return out.Render(w)
}

func (out ServiceLogsOutput) Render(w io.Writer) error {
	for _, s := range []struct {
		name, text string
		cut        bool
	}{{"stdout", out.Stdout, out.StdoutTruncated}, {"stderr", out.Stderr, out.StderrTruncated}} {
		if s.text == "" && !s.cut {
			continue
		}
		cut := ""
		if s.cut {
			cut = " (the end of it)"
		}
		if _, err := fmt.Fprintf(w, "--- %s%s\n%s\n", s.name, cut, strings.TrimSuffix(s.text, "\n")); err != nil {
			return err
		}
	}
	return nil
}
