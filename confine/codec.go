package confine

import (
	"encoding/binary"

	"github.com/paddock-dev/paddock/policy"
)

// coder writes or reads the binary form of the messages to the new process and
// back. Each type has one description of its fields for both directions, so
// that the two cannot disagree: a method takes a pointer, and either writes the
// value or replaces it by the one that it reads.
//
// Numbers are varints. Strings and lists begin with their length. The length of a
// list is increased by one, because 0 stands for a nil list. Reading allocates no
// more than a small multiple of the input, whatever lengths the input announces.
type coder struct {
	reading bool
	out     []byte // written so far
	in      string // still to be read; strings that were read share its memory
	bad     bool   // the input is malformed
}

func (c *coder) uvarint(n uint64) uint64 {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, n)
		return n
	}
	var v uint64
	for i := range min(len(c.in), binary.MaxVarintLen64) {
		b := c.in[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			c.in = c.in[i+1:]
			return v
		}
	}
	c.fail()
	return 0
}

// fail drops the rest of the input, so that every loop ends.
func (c *coder) fail() { c.bad, c.in = true, "" }

func number[T ~int | ~int64 | ~uint32 | ~uint64](c *coder, n *T) {
	v := c.uvarint(uint64(*n))
	if *n = T(v); uint64(*n) != v {
		c.fail()
	}
}

func (c *coder) flag(b *bool) {
	var n uint64
	if *b {
		n = 1
	}
	*b = c.uvarint(n) != 0
}

func text[T ~string](c *coder, s *T) {
	n := c.uvarint(uint64(len(*s)))
	switch {
	case !c.reading:
		c.out = append(c.out, *s...)
	case n > uint64(len(c.in)):
		c.fail()
	default:
		*s, c.in = T(c.in[:n]), c.in[n:]
	}
}

// length writes or reads the length of a list, and reports whether the list is
// not nil.
func (c *coder) length(n int, isNil bool) (int, bool) {
	v := uint64(n) + 1
	if isNil {
		v = 0
	}
	v = c.uvarint(v)
	if c.reading && v > uint64(len(c.in))+1 { // an element takes a byte or more
		c.fail()
		return 0, false
	}
	return int(v) - 1, v > 0
}

func list[T any](c *coder, items *[]T, each func(*coder, *T)) {
	n, ok := c.length(len(*items), *items == nil)
	if !ok {
		return
	}
	const soon = 128 // elements that are allocated before they are read
	if c.reading {
		*items = make([]T, 0, min(n, soon))
	}
	for i := 0; i < n && !c.bad; i++ {
		if c.reading {
			var none T
			*items = append(*items, none)
		}
		each(c, &(*items)[i])
	}
}

func (c *coder) bytes(b *[]byte) {
	n, ok := c.length(len(*b), *b == nil)
	switch {
	case !ok:
	case !c.reading:
		c.out = append(c.out, *b...)
	case n > len(c.in):
		c.fail()
	default:
		*b, c.in = []byte(c.in[:n]), c.in[n:]
	}
}

func (c *coder) texts(m *map[string]string) {
	n, ok := c.length(len(*m), *m == nil)
	if !ok {
		return
	}
	if !c.reading {
		for k, v := range *m {
			text(c, &k)
			text(c, &v)
		}
		return
	}
	*m = map[string]string{}
	for range n {
		var k, v string
		text(c, &k)
		text(c, &v)
		if c.bad {
			return
		}
		(*m)[k] = v
	}
}

// plan omits the fields that only people read.
func (c *coder) plan(p *Plan) {
	number(c, &p.Version)
	list(c, &p.Namespaces, text)
	list(c, &p.UIDs, (*coder).idMap)
	list(c, &p.GIDs, (*coder).idMap)
	list(c, &p.Setup, (*coder).step)
	list(c, &p.Spawn, (*coder).step)
	list(c, &p.Files, text)
	for _, n := range []*uint64{&p.Rlimits.CPUSeconds, &p.Rlimits.FileSize, &p.Rlimits.OpenFiles, &p.Rlimits.Processes, &p.Rlimits.Data} {
		number(c, n)
	}
	list(c, &p.Redaction, func(c *coder, r *policy.Redaction) {
		for _, s := range []*string{&r.Name, &r.Type, &r.Pattern, &r.Strategy} {
			text(c, s)
		}
	})
	c.texts(&p.Env)
	text(c, &p.Workspace)
	text(c, &p.Scratch)
	c.isolation(&p.Holds)
}

func (c *coder) idMap(m *IDMap) {
	number(c, &m.Inside)
	number(c, &m.Host)
	number(c, &m.Count)
}

func (c *coder) fileID(id *FileID) {
	number(c, &id.Dev)
	number(c, &id.Ino)
}

func (c *coder) step(s *Step) {
	text(c, &s.Do)
	text(c, &s.Source)
	text(c, &s.Target)
	text(c, &s.FD)
	c.fileID(&s.ID)
	list(c, &s.Flags, text)
	number(c, &s.Mode)
	number(c, &s.Size)
	c.bytes(&s.Data)
	list(c, &s.Caps, text)
	list(c, &s.Names, text)
	list(c, &s.Rules, func(c *coder, r *PathRule) {
		text(c, &r.Path)
		text(c, &r.Access)
		c.flag(&r.Resolved)
		c.fileID(&r.ID)
	})
	c.flag(&s.Optional)
	text(c, &s.Hint)
}

func (c *coder) isolation(i *policy.Isolation) {
	for _, s := range []*string{&i.Backend, &i.Level, &i.Identity, &i.Network, &i.Capabilities, &i.Seccomp, &i.Landlock,
		&i.Cgroup, &i.Workspace, &i.Layer, (*string)(&i.RootFS), &i.NestedUserns, &i.Death} {
		text(c, s)
	}
	var egress []policy.IsolationEgress
	if i.Egress != nil {
		egress = append(egress, *i.Egress)
	}
	list(c, &egress, func(c *coder, e *policy.IsolationEgress) {
		text(c, &e.How)
		list(c, &e.Allow, text)
		list(c, &e.Deny, text)
		list(c, &e.Intercepted, text)
		list(c, &e.Injected, text)
	})
	if c.reading && len(egress) > 0 {
		i.Egress = &egress[0]
	}
	var ssh []policy.SSHAgent
	if i.SSHAgent != nil {
		ssh = append(ssh, *i.SSHAgent)
	}
	list(c, &ssh, func(c *coder, s *policy.SSHAgent) {
		list(c, &s.Keys, text)
		c.flag(&s.Sign)
	})
	if c.reading && len(ssh) > 0 {
		i.SSHAgent = &ssh[0]
	}
	list(c, (*[]string)(&i.HostSockets), text)
	list(c, (*[]string)(&i.CoveredSockets), text)
	list(c, &i.Published, func(c *coder, p *policy.PublishedPort) {
		text(c, &p.Address)
		number(c, &p.Port)
		text(c, &p.URL)
	})
	list(c, &i.Namespaces, text)
	number(c, &i.UIDInside)
	number(c, &i.UIDHost)
	list(c, &i.KeptGroups, number)
	c.flag(&i.NoNewPrivs)
	number(c, &i.LandlockABI)
	list(c, (*[]string)(&i.OwnCopies), text)
	c.texts(&i.Limits)
	list(c, &i.Degraded, text)
	list(c, &i.Lost, text)
	c.flag(&i.Verified)
}
