//go:build linux

package wrapper

import (
	"os"
	"strings"

	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// unknown stands where only the wrapper knows.
const unknown = "the wrapper's"

// promised is the isolation as far as Paddock itself keeps it.
func promised(s policy.Spec) policy.Isolation {
	uid := uint32(os.Geteuid())
	i := policy.Isolation{
		Backend: policy.BackendWrapper, Level: "wrapper", Namespaces: []string{}, UIDInside: uid, UIDHost: uid, Identity: unknown,
		Network: unknown, Capabilities: unknown, NoNewPrivs: s.Seccomp != wire.NoFilter, Seccomp: s.Seccomp, Landlock: "none", Cgroup: "none",
		Workspace: unknown, RootFS: unknown, NestedUserns: "seccomp", Death: "descent",
		Lost: []string{"what commands see and change of files is the wrapper's to say; it was not looked at"},
	}
	if keepsKernelFiles(s) {
		i.Landlock = "files of the kernel"
	}
	piped.TellLimits(&i, s.Limits)
	return i
}

// keepsKernelFiles says whether commands are kept from writing what the kernel
// obeys, which root may write behind a wrapper that leaves /proc writable: where
// the agent is this host's own, and its kernel can.
func keepsKernelFiles(s policy.Spec) bool {
	shared := s.Wrapper == nil || s.Wrapper.Agent == "" || s.Wrapper.Agent == policy.AgentShared
	return shared && s.Seccomp != wire.NoFilter && confine.LandlockABI() >= confine.LandlockFilesABI
}

// missing are the namespaces that a wall is made of, with what is open without.
var missing = []struct{ kind, loss string }{
	{"mount", "the wrapper has made no mount namespace: commands see the host's files as they are"},
	{"pid", "the wrapper has made no pid namespace: commands see the host's processes, and signal those of their user"},
	{"net", "the wrapper has made no network namespace: commands use the host's network, and all that listens on it"},
	{"ipc", "the wrapper has made no ipc namespace: commands reach the host's shared memory and message queues"},
}

// seen is the isolation with what the kernel says of the agent, and whether
// that is a process of this host.
func seen(s policy.Spec, r piped.Running) (i policy.Isolation, here bool) {
	i = promised(s)
	look := piped.Look(r)
	if look == nil {
		i.Death = "the agent's word"
		i.Lost = append(i.Lost, "the agent is no process of this host that could be looked at: nothing of the wall is verified",
			"the end of what commands leave behind is the agent's word")
		return i, false
	}
	i.UIDHost, i.UIDInside, i.Namespaces = look.UIDHost, look.UIDInside, look.Namespaces
	i.NoNewPrivs, i.Verified = look.NoNewPrivs, !look.Hidden
	i.Capabilities = "none"
	if look.Capabilities != "" {
		i.Capabilities = look.Capabilities
	}
	if look.Hidden {
		i.Lost = append(i.Lost, "the kernel does not say which namespaces the agent has: nothing of them is verified")
		return i, true
	}
	for _, m := range missing {
		if !look.Has(m.kind) {
			i.Lost = append(i.Lost, m.loss)
		}
	}
	if look.Capabilities != "" && !look.Has("user") {
		i.Lost = append(i.Lost, "commands have capabilities over the host: "+look.Capabilities)
	}
	switch {
	case !look.Has("net"):
		i.Network = "host"
	case len(look.Interfaces) == 0:
		i.Network = "none"
	default:
		i.Network = "its own: " + strings.Join(look.Interfaces, " ")
	}
	return i, true
}
