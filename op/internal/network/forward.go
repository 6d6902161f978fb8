package network

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type PortPublishInput struct {
	Where
	Ports []string `json:"ports" arg:"PORT..." help:"the port inside that a server listens on, alone (3000) for any free port of the host, or after the host's (8080:3000)" max:"64"`
}

// PortPublishOutput has the ports of the sandbox that are published.
type PortPublishOutput struct {
	Sandbox   string                  `json:"sandbox"`
	Published []paddock.PublishedPort `json:"published"`
}

func (PortPublishInput) Desc() op.Desc {
	return op.Desc{
		Name: "port_publish", CLI: []string{"forward"}, Summary: "Publish ports of a running sandbox on this host",
		Doc: `Let programs of this host, such as a browser, reach servers in a running sandbox. The
host listens on a loopback address of the sandbox's own, 127.x.y.z, and each connection
goes through the agent to that port of the sandbox's loopback: behind every wall, also
without a network. The server may be started later; until then connections are reset.

The answer has a URL for each port. On the command line PORT is 3000 for any free port
of the host, 8080:3000, or 127.0.0.1:8080:3000 with an address of the host. On the command line the ports are published until a
signal, or until the sandbox ends; in a server until the sandbox ends, and only ports
that the operator gave ("paddock mcp --publish 3000", or any).`,
		Examples: `  paddock forward web 3000
  paddock forward web 8080:3000 127.0.0.1:5432:5432`,
		Hints:   op.Hints{Idempotent: true},
		Streams: op.Streams{Out: true},
	}
}

// Do publishes the ports. A server keeps them as long as the sandbox lives; else they stay until
// a signal.
func (in PortPublishInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out PortPublishOutput, err error) {
	kept := env.Sandboxes != nil
	if !kept && stream.Stdout == nil {
		return out, &paddock.Error{Message: "cannot forward ports: the output is one JSON object", Hint: "leave out --json"}
	}
	if len(in.Ports) == 0 {
		hint := "paddock forward " + policy.ShellWord(cmp.Or(in.Sandbox, "NAME")) + " 8000"
		if kept {
			hint = "name one: 3000, or 8080:3000"
		}
		return out, &policy.FieldError{Field: "ports", Reason: "it is missing", Hint: hint}
	}
	for i, text := range in.Ports {
		_, err := policy.ParsePublish(text)
		if err == nil {
			err = env.MayPublish(text)
		}
		if err != nil {
			return out, aboutPort(err, i)
		}
	}
	err = in.in(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		out.Sandbox = h.Called()
		out.Published, err = publish(h, in.Ports, told(stream.Stderr))
		if err != nil || kept {
			return err
		}
		shown := out
		out.Published = []paddock.PublishedPort{} // at the end none is
		if err := shown.Render(stream.Stdout); err != nil {
			return err
		}
		if err := op.TellLost(stream.Stderr, policy.Isolation{Lost: h.Isolation().Lost}); err != nil {
			return err
		}
		return await(ctx, h, stream.Signals)
	})
	if err != nil {
		return PortPublishOutput{}, err
	}
	return out, nil
}

// aboutPort lets an error about a port that is published name entry i of the input.
func aboutPort(err error, i int) error {
	for _, wrong := range policy.FieldErrors(err) {
		wrong.Field = fmt.Sprintf("ports[%d]", i)
	}
	return err
}

// publish publishes ports, all or none. Those that this process publishes already stay as they
// are.
func publish(h *registry.Sandbox, texts []string, failed func(error)) (list []paddock.PublishedPort, err error) {
	var made []*paddock.Publication
	for n, text := range texts {
		asked, err := policy.ParsePublish(text)
		if err != nil {
			return nil, err
		}
		before := h.Isolation().Published
		if i := slices.IndexFunc(before, func(p paddock.PublishedPort) bool {
			return !asked.IP.IsValid() && p.Port == asked.Guest && (asked.Host == 0 || strings.HasSuffix(p.Address, fmt.Sprintf(":%d", asked.Host)))
		}); i >= 0 {
			list = append(list, before[i])
			continue
		}
		p, err := h.Publish(text, failed)
		if err != nil {
			for _, p := range made {
				p.Close()
			}
			return nil, aboutPort(err, n)
		}
		made, list = append(made, p), append(list, p.PublishedPort)
	}
	return list, nil
}

// told returns a function that writes each reason once in a row, for connections that could not
// be joined.
func told(w io.Writer) func(error) {
	if w == nil {
		return nil
	}
	reasons := make(chan string, 1)
	reasons <- ""
	return func(err error) {
		last := <-reasons
		if err.Error() != last {
			last = err.Error()
			_, _ = fmt.Fprintf(w, "paddock: a connection was reset: %s\n", last)
		}
		reasons <- last
	}
}

// await waits for a signal, or for the end of the sandbox, which is an error.
func await(ctx context.Context, h *registry.Sandbox, signals <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.Done():
			return paddock.ErrClosed // WithSandbox tells why
		case name := <-signals:
			if slices.Contains([]string{"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"}, name) {
				return nil
			}
		}
	}
}

func (out PortPublishOutput) Render(w io.Writer) error {
	for _, p := range out.Published {
		if _, err := fmt.Fprintf(w, "%s  port %d of sandbox %s\n", p.URL, p.Port, out.Sandbox); err != nil {
			return err
		}
	}
	return nil
}
