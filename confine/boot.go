package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Descriptors that a backend hands to the agent it starts, beside standard
// input (empty), output (empty) and error (the agent's own log).
const (
	// ControlFD is one end of a socket pair. The host side sends a Boot
	// message; the agent answers with a Booted one. From then on the socket is a
	// lifeline: when the host side's end closes, the agent ends, and every
	// process of the sandbox with it.
	ControlFD = 3
	// ListenFD is a listening stream socket for package wire's requests.
	ListenFD = 4
)

// Plan.Files come over the control socket before the Boot message, as
// SCM_RIGHTS of at most MaxFiles descriptors with each byte FilesMark, with
// which no message begins: it would be longer than one may be.
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

// Bounds of a Boot and of a Booted message, in bytes.
const (
	maxBoot   = 4 << 20
	maxBooted = 64 << 10
)

// Boot is what an agent is started with.
type Boot struct {
	Protocol int    // wire.Version of the host side
	Build    string // wire.Build of the host side
	// Plan comes without what only people read. It is nil where a message of
	// another version was read: the two above can be told all the same.
	Plan *Plan
}

// Booted is the agent's answer: the walls stand and requests are accepted, or
// the one step that failed.
type Booted struct {
	Protocol int
	Build    string
	Failed   *Error
	Skipped  []*Error // optional steps
}

// errFormat is a message that was not made by this package.
var errFormat = errors.New("it is of another version's format")

// Write sends the message whole.
func (b *Boot) Write(w io.Writer) error {
	c := newWriter()
	number(c, &b.Protocol)
	text(c, &b.Build)
	c.plan(b.Plan)
	return c.send(w, maxBoot)
}

// ReadBoot reads what [Boot.Write] wrote, and nothing beyond it.
func ReadBoot(r io.Reader) (*Boot, error) {
	c, err := receive(r, maxBoot)
	if err != nil {
		return nil, err
	}
	b := &Boot{Plan: &Plan{}}
	number(c, &b.Protocol)
	text(c, &b.Build)
	if c.bad {
		return nil, errFormat
	}
	if c.plan(b.Plan); c.bad || c.in != "" {
		b.Plan = nil
	}
	return b, nil
}

// Write sends the message whole.
func (b *Booted) Write(w io.Writer) error {
	c := newWriter()
	c.booted(b)
	return c.send(w, maxBooted)
}

// ReadBooted reads what [Booted.Write] wrote, and nothing beyond it.
func ReadBooted(r io.Reader) (*Booted, error) {
	c, err := receive(r, maxBooted)
	if err != nil {
		return nil, err
	}
	b := &Booted{}
	if c.booted(b); c.bad || c.in != "" {
		return nil, errFormat
	}
	return b, nil
}

func (c *coder) booted(b *Booted) {
	number(c, &b.Protocol)
	text(c, &b.Build)
	each := func(c *coder, e **Error) {
		if c.reading {
			*e = &Error{}
		}
		c.failure(*e)
	}
	var failed []*Error
	if b.Failed != nil {
		failed = []*Error{b.Failed}
	}
	if list(c, &failed, each); len(failed) > 0 {
		b.Failed = failed[0]
	}
	list(c, &b.Skipped, each)
}

// A message is its length, as four bytes, and as many bytes.
const prefix = 4

func newWriter() *coder { return &coder{out: make([]byte, prefix, 16<<10)} }

func (c *coder) send(w io.Writer, most int) error {
	n := len(c.out) - prefix
	if n > most {
		return fmt.Errorf("its %d bytes are more than %d", n, most)
	}
	binary.BigEndian.PutUint32(c.out, uint32(n))
	_, err := w.Write(c.out)
	return err
}

func receive(r io.Reader, most int64) (*coder, error) {
	var head [prefix]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > most {
		return nil, errFormat
	}
	var b strings.Builder
	if _, err := io.CopyN(&b, r, n); err != nil {
		return nil, err
	}
	return &coder{reading: true, in: b.String()}, nil
}

// Isolation is what the plan holds, less what its skipped steps gave.
func (p *Plan) Isolation(skipped []*Error) policy.Isolation {
	holds := p.Holds
	for _, s := range skipped {
		if s.Op == string(OpSysctl) && s.Object == "user/max_user_namespaces" {
			holds.NestedUserns = "seccomp"
		}
	}
	return holds
}
