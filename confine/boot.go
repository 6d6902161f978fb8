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
	// FirstFile is the first of Plan.Files, in order.
	FirstFile = 5
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
