// Package network has the operations on the network of a running sandbox whose mode is
// "allow": which hosts its commands can reach (show), other rules (set), and what they asked
// for (log).
package network

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// Where names a running sandbox.
type Where struct {
	Sandbox string `json:"sandbox,omitempty" arg:"NAME" complete:"sandbox" help:"which sandbox (default: the one over the workspace)" cli:"a running sandbox, by name or id" max:"64"`
}

// in runs do in the sandbox. A single call does not open one, which would end with it.
func (w Where) in(ctx context.Context, env *op.Env, do func(context.Context, *registry.Sandbox) error) error {
	if w.Sandbox == "" && env.Sandboxes == nil {
		return op.Unnamed("sandbox")
	}
	return env.WithSandbox(ctx, op.InSandbox{Sandbox: w.Sandbox}, do)
}

type NetworkShowInput struct {
	Where
	Observed bool `json:"observed,omitempty" flag:"observed" help:"print what was reached as rules of a spec, commented out, the rarest first"`
}

// NetworkOutput is which hosts a sandbox can reach, and what it has used.
type NetworkOutput struct {
	Sandbox string `json:"sandbox"`
	egress.State
	// Observed is what was reached, if the input asks for it.
	Observed []paddock.Observed `json:"observed,omitempty"`
	// Published are the ports of the sandbox that the host listens for.
	Published []paddock.PublishedPort `json:"published,omitempty"`

	observed bool
}

func (NetworkShowInput) Desc() op.Desc {
	return op.Desc{
		Name: "network_show", CLI: []string{"network", "show"}, Summary: "Show which hosts a sandbox can reach",
		Doc: `Show the rules of a running sandbox whose network is "allow", as the process has them
that holds its connections, how many are open, and what commands have sent and
received; and which of its ports are published. With --observed, print what they have reached, as rules.
"paddock network log" shows each connection and each refusal.`,
		Examples: `  paddock network show web
  paddock network show --observed web`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true, Control: true},
	}
}

// Do asks the process that holds the network.
func (in NetworkShowInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out NetworkOutput, err error) {
	err = in.in(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		if out, err = show(ctx, h); err == nil && in.Observed {
			out.Observed, out.Lost, err = h.Sandbox.Observed(ctx)
			out.observed = true
		}
		return err
	})
	return out, err
}

func show(ctx context.Context, h *registry.Sandbox) (NetworkOutput, error) {
	published, err := h.Published()
	if err != nil {
		return NetworkOutput{}, err
	}
	state, err := h.Network(ctx)
	if iso := h.Isolation(); err != nil && !policy.ByName(iso.Network) && len(published) > 0 { // it has no rules, and ports all the same
		state.Network.Mode, err = iso.Network, nil
	}
	if err != nil {
		return NetworkOutput{}, err
	}
	return NetworkOutput{Sandbox: h.Called(), State: state, Published: published}, nil
}

func (out NetworkOutput) Render(w io.Writer) error {
	if out.observed {
		_, err := io.WriteString(w, op.ObservedSpec(out.Observed, out.Lost)+"\n")
		return err
	}
	var b strings.Builder
	n := out.Network
	published := func() {
		for _, p := range out.Published {
			fmt.Fprintf(&b, "  published %s, which leads to port %d\n", p.URL, p.Port)
		}
	}
	if !policy.ByName(n.Mode) {
		fmt.Fprintf(&b, "sandbox %s, network %s\n", out.Sandbox, text.OrNone(n.Mode))
		published()
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "sandbox %s, network %s, revision %d: %d of %d connections open\n", out.Sandbox, n.Mode, out.Revision, out.Open, n.Limits.Connections)
	if len(n.Allow)+len(n.HostPorts) == 0 {
		b.WriteString("no host can be reached\n")
	}
	WriteRules(&b, n)
	published()
	fmt.Fprintf(&b, "since its start: %d connections, %d refused, %s sent, %s received\n", out.Connections, out.Denied, policy.Size(out.Sent), policy.Size(out.Received))
	if n.Limits.BytesOut > 0 {
		fmt.Fprintf(&b, "it may send %s\n", n.Limits.BytesOut)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteRules writes which hosts are open and which are closed, a line each.
func WriteRules(b *strings.Builder, n policy.Network) {
	_ = output.Table(b, func(row output.Row) { // a Builder cannot fail
		for _, rule := range n.Allow {
			row("  open\t%s\t%s", rule.Host, Opening(rule))
		}
		if len(n.HostPorts) > 0 {
			row("  open\t%s\t%s, of this host's own loopback", policy.HostName, Ports(n.HostPorts))
		}
		for _, deny := range n.Deny {
			row("  closed\t%s\t%s", deny.Host, text.OrDash(text.Escape(deny.Reason)))
		}
	})
}

// Ports returns ports for people.
func Ports(ports []policy.Port) string {
	words := make([]string, len(ports))
	for i, port := range ports {
		words[i] = strconv.FormatUint(uint64(port), 10)
	}
	return strings.Join(words, ", ")
}

// requests returns for people which requests a rule lets through.
func requests(h policy.HTTPRule) string {
	methods, paths := "every method", "every path"
	if len(h.Methods) > 0 {
		methods = strings.Join(h.Methods, ", ")
	}
	if len(h.Paths) > 0 {
		paths = strings.Join(h.Paths, ", ")
	}
	return methods + " of " + text.Escape(paths)
}

// Opening returns for people what a rule opens of its host: ports, requests, and which header
// gets a secret.
func Opening(rule policy.NetworkRule) string {
	text := Ports(rule.Ports)
	for _, h := range rule.HTTP {
		text += "; " + requests(h)
	}
	if s := rule.Secret; s != nil {
		text += "; " + s.Header + " gets " + s.Name
	}
	return text
}
