package paddock

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/internal/namedhosts"
	"github.com/paddock-dev/paddock/internal/origins"
	"github.com/paddock-dev/paddock/policy"
)

// maxNamed is how many hosts that the workspace names are told.
const maxNamed = 8

// AllowFrom adds rules to a spec for the hosts from which the caller's own package managers download:
// "apt", "cargo", "go", "npm" and "pip", as far as Options.Path names them. Each is executed on the
// host, in an empty directory of the state directory and with the configuration of the user and the
// system alone, so nothing of the workspace is obeyed, nor what others could put into a directory
// above. For tools that the caller has configured, the spec gets variables that say so inside, unless
// it sets them.
//
// notes are lines for the user: what was not included, and which hosts the workspace names
// besides. The error of a tool that cannot be asked is a *policy.FieldError.
func AllowFrom(ctx context.Context, spec Spec, opts Options, tools []string) (Spec, []string, error) {
	plain := spec
	plain.Network = Network{}
	_, req, err := opts.request(plain)
	if err != nil {
		return spec, nil, err
	}
	answer, err := origins.Ask(ctx, origins.Request{Tools: tools, Sandbox: req, LookupEnv: os.LookupEnv, Environ: os.Environ()})
	if err != nil {
		return spec, nil, err
	}
	spec.Network = spec.Network.Clone()
	if spec.Network.Mode == "" {
		spec.Network.Mode = policy.NetworkAllow
	}
	spec.Network.Allow = append(spec.Network.Allow, answer.Rules...)
	maps.Copy(answer.Env, spec.Env) // which may set these too
	spec.Env = answer.Env
	named := slices.DeleteFunc(namedhosts.Find(ctx, req.Spec.Workspace.Source), func(n namedhosts.Named) bool {
		return (&policy.Ceiling{NetworkRules: spec.Network.Allow}).Opens([]policy.NetworkRule{n.Rule}) == nil
	})
	notes := answer.Notes
	for _, n := range named[:min(len(named), maxNamed)] {
		notes = append(notes, fmt.Sprintf("%s of the workspace names %s, which stays closed: `network.allow` %s opens it", n.File, n.Rule.Host, policy.ShellWord(n.Rule.String())))
	}
	if more := len(named) - maxNamed; more > 0 {
		notes = append(notes, fmt.Sprintf("files of the workspace name %d more hosts, which stay closed", more))
	}
	return spec, notes, nil
}
