package exec

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type LogsInput struct {
	op.InNamed
	ID     string `json:"id,omitempty" arg:"[ID]" help:"one command or service (default: all, each line with its id before it)" max:"64"`
	Follow bool   `json:"follow,omitempty" flag:"follow" short:"f" help:"continue with new output as it comes, until they end or you interrupt"`
}

type LogsOutput struct {
	// Sources are the commands and services whose output was printed.
	Sources []string `json:"sources"`
}

func (LogsInput) Desc() op.Desc {
	return op.Desc{
		Name: "logs", CLI: []string{"logs"},
		Summary: "Print what runs in the background of a sandbox has printed",
		Doc: `Print the output of commands that "paddock exec -d" has started, and of services, from
the beginning. With an ID, or the name of a service, it is that output alone, as it is.
Without, each line has the id before it; with --follow lines of all come as they are
printed, until all that run now have ended; it does not wait for later commands.

At least the last 4 MiB of each stream are stored. What is not stored any more is counted
on standard error. The output ends with the sandbox's run.`,
		Examples: `  paddock logs web
  paddock logs --follow web e7`,
		Local:   true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true},
		Streams: op.Streams{Out: true},
	}
}

// Do prints what is stored, and follows it if the input asks for that.
func (in LogsInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out LogsOutput, err error) {
	if stream.Stdout == nil {
		return out, &paddock.Error{Message: "cannot print the output as one JSON object", Hint: "leave out --json, or read one command: paddock exec output --json"}
	}
	out.Sources = []string{}
	err = in.With(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		all, err := sources(ctx, h)
		if err != nil {
			return err
		}
		if in.ID == "" {
			for _, s := range all {
				out.Sources = append(out.Sources, s.id)
			}
			return in.all(ctx, all, stream)
		}
		for _, s := range all {
			if s.id == in.ID {
				out.Sources = append(out.Sources, s.id)
				p := printed{stdout: stream.Stdout, stderr: stream.Stderr, notes: stream.Stderr}
				_, err := p.copy(ctx, s, in.Follow, stream)
				return err
			}
		}
		return unknownExec("cannot read the output of "+text.Escape(in.ID)+": no command in the background and no service has that id", in.Sandbox)
	})
	return out, err
}

// sources returns the commands in the background, oldest first, and the services.
func sources(ctx context.Context, h *registry.Sandbox) (all []source, err error) {
	execs, err := h.Sandbox.Execs(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range execs {
		all = append(all, source{x.ID, h.Exec(x.ID).Read})
	}
	services, err := wire.Call(ctx, h.Client(), wire.ListServices, wire.ListServicesRequest{})
	if err != nil {
		return nil, registry.Refusal("list the services", err)
	}
	for _, s := range services.Services {
		all = append(all, service(h, s))
	}
	return all, nil
}

// service returns a service as a source. It ends when the service does, or is started again.
func service(h *registry.Sandbox, s wire.Service) source {
	return source{s.ServiceName, func(ctx context.Context, from paddock.ExecCursors, wait time.Duration) (paddock.ExecOutput, error) {
		r, err := wire.Call(ctx, h.Client(), wire.ReadService, wire.ReadServiceRequest{ServiceName: s.ServiceName, StdoutCursor: from.Stdout, StderrCursor: from.Stderr,
			MaxBytes: wire.MaxStreamRead, WaitMS: min(wait.Milliseconds(), wire.MaxReadWaitMS)})
		if err != nil {
			return paddock.ExecOutput{}, registry.Refusal("read the logs of service "+s.ServiceName, err)
		}
		out := paddock.ExecOutput{ExecStatus: paddock.ExecStatus{ID: s.ServiceName}, Stdout: r.Stdout.Data, Stderr: r.Stderr.Data,
			StdoutDropped: r.Stdout.DroppedBytes, StderrDropped: r.Stderr.DroppedBytes, Next: paddock.ExecCursors{Stdout: r.Stdout.NextCursor, Stderr: r.Stderr.NextCursor}}
		if r.StartedAt != s.StartedAt {
			return paddock.ExecOutput{Next: from, Complete: true}, nil
		}
		out.Complete = r.State != registry.Running && !r.Stdout.More && !r.Stderr.More
		return out, nil
	}}
}

// all prints several sources, each line with the id before it: one after the other or, if they
// are followed, all at once.
func (in LogsInput) all(ctx context.Context, all []source, stream *op.Stream) error {
	ctx, stop := stream.UntilInterrupted(ctx)
	defer stop()
	var turn sync.Mutex
	width := 0
	for _, s := range all {
		width = max(width, len(s.id))
	}
	var group sync.WaitGroup
	errs := make([]error, len(all))
	for i, s := range all {
		prefix := text.Escape(s.id)
		for len(prefix) < width {
			prefix += " "
		}
		stdout, stderr := &lines{to: stream.Stdout, turn: &turn, prefix: prefix + " | "}, &lines{to: stream.Stderr, turn: &turn, prefix: prefix + " | "}
		p := printed{stdout: stdout, stderr: stderr, notes: &lines{to: stream.Stderr, turn: &turn}}
		show := func(wait time.Duration) {
			_, errs[i] = p.pass(ctx, s, wait)
			errs[i] = errors.Join(errs[i], stdout.Close(), stderr.Close())
			if errs[i] != nil && !errors.Is(errs[i], context.Canceled) {
				stop() // standard output is closed, or the sandbox has ended
			}
		}
		if in.Follow {
			group.Go(func() { show(time.Minute) })
		} else {
			show(0)
		}
	}
	group.Wait()
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, context.Canceled) })...)
}

// Render writes nothing: the output was passed through.
func (LogsOutput) Render(io.Writer) error { return nil }
