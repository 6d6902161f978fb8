package network

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type NetworkSetInput struct {
	Where
	Allow     []string        `json:"allow,omitempty" flag:"allow" arg:"HOST[:PORTS]" help:"open this host: api.example.com, *.example.com (names below it), ** (every public name), an IPv4 address or a network; at ports 443 and 80 if none is given (may be repeated)"`
	Deny      []string        `json:"deny,omitempty" flag:"deny" arg:"HOST" help:"close a host that a rule would open (may be repeated)"`
	HostPorts []string        `json:"host_ports,omitempty" flag:"host-port" arg:"PORT" help:"open this port of the host's own loopback, as host.paddock.internal (may be repeated)" within:"host_ports"`
	None      bool            `json:"none,omitempty" flag:"none" help:"close every host"`
	SpecFile  osstring.String `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"begin with the network of a spec file" within:"files"`
	Revision  *uint64         `json:"if_revision,omitempty" flag:"if-revision" arg:"N" help:"replace only the rules of this revision, as network show prints it, and fail if others have changed them since"`
}

func (NetworkSetInput) Desc() op.Desc {
	return op.Desc{
		Name: "network_set", CLI: []string{"network", "set"}, Summary: "Replace the rules of a sandbox's network",
		Doc: `Replace all rules of a running sandbox whose network is "allow" by these: what is not
named is closed, and its connections are cut. All rules change at once, or none if one
cannot be used. A sandbox with network none or host has no rules, and keeps that.

A host for which a rule says which requests may be sent, or has a secret, keeps that here:
--allow names the host alone. The file of --spec can change it; the values of secrets are
those that were read at the start of the sandbox.

Of several who set rules the last one counts. --if-revision replaces only rules that one
has seen: "paddock network show" prints their revision.`,
		Examples: `  paddock network set web --allow api.example.com --allow '*.example.org:8443'
  paddock network set web --if-revision 3 --none`,
		Hints: op.Hints{Destructive: true, Idempotent: true, OpenWorld: true},
	}
}

// NetworkAddInput adds rules.
type NetworkAddInput struct {
	Where
	Allow []string `json:"allow,omitempty" flag:"allow" arg:"HOST[:PORTS]" help:"open this host too: api.example.com, *.example.com (names below it), ** (every public name), an IPv4 address or a network; at ports 443 and 80 if none is given (may be repeated)"`
	Deny  []string `json:"deny,omitempty" flag:"deny" arg:"HOST" help:"close a host that a rule opens (may be repeated)"`
}

func (NetworkAddInput) Desc() op.Desc {
	return op.Desc{
		Name: "network_add", CLI: []string{"network", "add"}, Summary: "Add rules to a sandbox's network",
		Doc: `Add rules to those of a running sandbox whose network is "allow". What is open stays
open, and a rule that is there already is not added again. All rules are added, or none
if one cannot be used.`,
		Examples: `  paddock network add web --allow api.example.com
  paddock network add web --deny telemetry.example.com`,
		Hints: op.Hints{Destructive: true, Idempotent: true, OpenWorld: true},
	}
}

// Do adds the rules. Below a ceiling they must lie in it, and what the operator's spec closes
// stays closed.
func (in NetworkAddInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out NetworkOutput, err error) {
	allow, deny, err := op.NetworkRules(in.Allow, in.Deny)
	if err == nil && len(allow)+len(deny) == 0 {
		err = &policy.FieldError{Field: "allow", Reason: "no rule is given", Hint: "name a host to open"}
	}
	if err == nil {
		err = env.MayOpen(allow, nil)
	}
	if err != nil {
		return out, err
	}
	if env.Ceiling != nil && len(allow) > 0 {
		deny = append(deny, env.DefaultSpec().Network.Deny...)
	}
	err = in.in(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		if err := h.AddNetwork(ctx, allow, deny); err != nil {
			return err
		}
		out, err = show(ctx, h)
		return err
	})
	return out, err
}

// Do replaces the rules. Below a ceiling they must lie in it, and what the operator's spec
// closes stays closed, and its limits hold.
func (in NetworkSetInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out NetworkOutput, err error) {
	network, err := in.network(ctx, env)
	if err != nil {
		return out, err
	}
	err = in.in(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		err := h.ChangeNetwork(ctx, func(now egress.State) (policy.Network, error) {
			if in.Revision != nil && *in.Revision != now.Revision {
				return now.Network, &policy.FieldError{Field: "if_revision", Value: strconv.FormatUint(*in.Revision, 10), Reason: fmt.Sprintf("others have changed the rules since, which are those of revision %d now, and these were not set", now.Revision), Hint: "look at them first: paddock network show " + h.Called()}
			}
			next := network.Clone()
			for i, rule := range next.Allow { // what is about requests stays
				next.Allow[i] = now.Network.Keep(rule)
			}
			if env.Ceiling != nil || next.Limits == (policy.NetworkLimits{}) {
				next.Limits = now.Network.Limits
			}
			return next, env.MayOpen(next.Allow, next.HostPorts)
		})
		if err != nil {
			return err
		}
		out, err = show(ctx, h)
		return err
	})
	return out, err
}

// network returns the rules of the input.
func (in NetworkSetInput) network(ctx context.Context, env *op.Env) (policy.Network, error) {
	network := policy.Network{Mode: policy.NetworkAllow}
	if err := env.MayRead("spec_file", string(in.SpecFile)); err != nil {
		return network, err
	}
	if in.SpecFile != "" {
		spec, err := env.ReadSpec(ctx, "spec_file", string(in.SpecFile))
		if err != nil {
			return network, err
		}
		if mode := spec.Network.Asked(); mode != policy.NetworkAllow {
			return network, &policy.FieldError{Field: "spec_file", Value: string(in.SpecFile), Reason: `its network is not "allow"`, Hint: "name one with rules, or use `network.allow`"}
		}
		network = spec.Network
		network.Publish = nil // those that are published stay
	}
	allow, deny, err := op.NetworkRules(in.Allow, in.Deny)
	if err != nil {
		return network, err
	}
	ports, err := op.HostPorts(in.HostPorts)
	if err != nil {
		return network, err
	}
	network.Allow, network.Deny, network.HostPorts = append(network.Allow, allow...), append(network.Deny, deny...), append(network.HostPorts, ports...)
	switch rules := len(network.Allow)+len(network.Deny)+len(network.HostPorts) > 0; {
	case in.None && (rules || in.SpecFile != ""):
		return network, &policy.FieldError{Field: "none", Reason: "with rules it says two things", Hint: "leave one of the two out"}
	case !in.None && !rules:
		return network, &policy.FieldError{Field: "allow", Reason: "no rule is given, and the rules are replaced as a whole", Hint: "name each host that stays open; `none` closes all of them"}
	}
	if env.Ceiling != nil && len(network.Allow)+len(network.HostPorts) > 0 {
		network.Deny = append(network.Deny, slices.DeleteFunc(slices.Clone(env.DefaultSpec().Network.Deny), func(own policy.NetworkDenial) bool {
			return slices.Contains(network.Deny, own)
		})...)
	}
	return network, nil
}
