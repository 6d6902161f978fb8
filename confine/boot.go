package confine

import "github.com/paddock-dev/paddock/policy"

// Descriptors that a backend hands to the agent it starts, beside standard
// input (empty), output (empty) and error (the agent's own log).
const (
	// ControlFD is one end of a socket pair. The host side sends a Boot line;
	// the agent answers with a Booted line. From then on the socket is a
	// lifeline: when the host side's end closes, the agent ends, and every
	// process of the sandbox with it.
	ControlFD = 3
	// ListenFD is a listening stream socket for package wire's requests.
	ListenFD = 4
)

// Plan.Files come over the control socket before the Boot line, as SCM_RIGHTS
// of at most MaxFiles descriptors with each byte FilesMark.
const (
	FilesMark = 'f'
	MaxFiles  = 200 // the kernel takes 253 (SCM_MAX_FD)
)

// ExitUnproved is the exit status of an agent without namespaces that could
// not prove the end of all that it started.
const ExitUnproved = 3

// The groups in a sandbox's own control group.
const (
	AgentGroup = "agent" // the agent and the commands' init
	WorkGroup  = "work"  // a group for each command's tree; the limits are on it
)

// MaxBoot bounds a Boot or Booted line, in bytes.
const MaxBoot = 4 << 20

// Boot is what an agent is started with.
type Boot struct {
	Protocol int    `json:"protocol"` // wire.Version of the host side
	Build    string `json:"build"`    // wire.Build of the host side
	Plan     *Plan  `json:"plan"`
}

// Booted is the agent's answer: the walls stand and requests are accepted, or
// the one step that failed.
type Booted struct {
	Protocol int      `json:"protocol"`
	Build    string   `json:"build"`
	Failed   *Error   `json:"failed,omitempty"`
	Skipped  []*Error `json:"skipped,omitempty"` // optional steps
}

// Bare is the plan without what only people read, as it crosses to the new process.
func (p *Plan) Bare() *Plan {
	bare := *p
	bare.Setup, bare.Spawn = bareSteps(p.Setup), bareSteps(p.Spawn)
	return &bare
}

func bareSteps(steps []Step) []Step {
	bare := make([]Step, len(steps))
	for i, s := range steps {
		s.Why = ""
		bare[i] = s
	}
	return bare
}

// Isolation is what the plan holds, less what its skipped steps gave.
func (p *Plan) Isolation(skipped []*Error) policy.Isolation {
	holds := p.Holds
	for _, s := range skipped {
		if s.Op == string(OpSysctl) {
			holds.NestedUserns = "seccomp"
		}
	}
	return holds
}
