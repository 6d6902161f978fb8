package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Descriptors that a backend passes to the agent, besides standard input
// (empty), output (empty) and error (the agent's log).
const (
	// ControlFD is one end of a socket pair. The host side sends a Boot
	// message; the agent answers with a Booted message. After that the socket is
	// a lifeline: when the host side's end closes, the agent ends, and every
	// process of the sandbox with it.
	ControlFD = 3
	// ListenFD is a listening stream socket for package wire's requests.
	ListenFD = 4
)

// Plan.Files are sent over the control socket before the Boot message, as
// SCM_RIGHTS of at most MaxFiles descriptors with each byte FilesMark. No
// message begins with that byte: it would be longer than the bound.
const (
	FilesMark = 'f'
	MaxFiles  = 200 // the kernel takes 253 (SCM_MAX_FD)
)

// ExitUnproved is the exit status of an agent without namespaces that could
// not prove that everything it started has ended.
const ExitUnproved = 3

// The groups below a sandbox's control group.
const (
	AgentGroup = "agent" // the agent and the commands' init
	WorkGroup  = "work"  // holds a group for each command's tree; the limits are set on it
)

// Bounds of a Boot and of a Booted message, in bytes.
const (
	maxBoot   = 4 << 20
	maxBooted = 64 << 10
)

// Boot is the message that an agent is started with.
type Boot struct {
	Protocol int    // wire.Version of the host side
	Build    string // wire.Build of the host side
	// Plan lacks the fields that only people read. It is nil if the message is
	// of another version; the two fields above are readable even then.
	Plan *Plan
}

// ReportUse is the argument that makes an agent tell its owner over the control socket, in one
// byte, when something begins to be done in the sandbox, and when nothing is done any more.
const (
	ReportUse = "report"
	SaysBusy  = 'b'
	SaysIdle  = 'i'
)

// Booted is the agent's answer: either the walls stand and requests are
// accepted, or one step failed.
type Booted struct {
	Protocol int
	Build    string
	Failed   *Error
	Skipped  []*Error // optional steps that failed
}

// errFormat says that a message does not have this package's format.
var errFormat = errors.New("it is of another version's format")

// Write sends the message.
func (b *Boot) Write(w io.Writer) error {
	c := newWriter()
	number(c, &b.Protocol)
	text(c, &b.Build)
	c.plan(b.Plan)
	return c.send(w, maxBoot)
}

// ReadBoot reads one message of [Boot.Write], and nothing after it.
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

// Write sends the message.
func (b *Booted) Write(w io.Writer) error {
	c := newWriter()
	c.booted(b)
	return c.send(w, maxBooted)
}

// ReadBooted reads one message of [Booted.Write], and nothing after it.
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

// booted writes or reads a Booted.
func (c *coder) booted(b *Booted) {
	number(c, &b.Protocol)
	text(c, &b.Build)
	each := func(c *coder, p **Error) {
		if c.reading {
			*p = &Error{}
		}
		e := *p
		text(c, &e.Stage)
		text(c, &e.Op)
		text(c, &e.Object)
		number(c, &e.Errno)
		text(c, &e.Cause)
		text(c, &e.Hint)
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

// prefix is the size of a message's length, which comes before its bytes.
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

// Isolation returns the plan's isolation, given that these optional steps failed.
func (p *Plan) Isolation(skipped []*Error) policy.Isolation {
	holds := p.Holds
	for _, s := range skipped {
		if s.Op == string(OpSysctl) && s.Object == "user/max_user_namespaces" {
			holds.NestedUserns = "seccomp"
		}
	}
	return holds
}
