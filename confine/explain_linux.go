package confine

import (
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// FilterOptions are those of the commands' filter of this plan.
func (p *Plan) FilterOptions() FilterOptions {
	bare := len(p.Namespaces) == 0
	return FilterOptions{
		Profile:      p.Holds.Seccomp,
		NoNamespaces: bare,
		NoNetwork:    bare && p.Holds.Network == "none",
		Grouped:      p.Holds.Cgroup != "none",
		Notify:       true,
		Listed:       slices.Contains(strings.Fields(p.Holds.Landlock), "execute"),
	}
}

// Refusal is why a filter denies a call.
type Refusal struct {
	Call  string // its name
	Group string // of the rule
	Why   string
	Errno unix.Errno
}

// Explain says why the commands' filter denies a call; ok is false where it
// does not.
func (o FilterOptions) Explain(nr int, args [6]uint64) (r Refusal, ok bool) {
	who, err := o.scope(FilterCommands)
	if err != nil {
		return r, false
	}
	a := archs[runtime.GOARCH]
	i := slices.IndexFunc(calls[:], func(c call) bool { return a.number(c) == nr })
	if i < 0 {
		return r, false
	}
	for _, rule := range rules() {
		if !rule.binds(who) || !slices.Contains(rule.calls, calls[i].name) {
			continue
		}
		if !slices.ContainsFunc(rule.when, func(c cond) bool { return !c.holds(args) }) {
			return Refusal{calls[i].name, rule.group, rule.why, rule.errno}, true
		}
	}
	return r, false
}

// holds is what a condition means.
func (c cond) holds(args [6]uint64) bool {
	wide, low := args[c.arg], uint32(args[c.arg])
	if c.mask != 0 {
		low &= c.mask
	}
	listed := slices.ContainsFunc(c.values, func(v value) bool { return v.n == low })
	switch c.test {
	case anyBit:
		return low&c.bits() != 0
	case otherBit:
		return wide&^uint64(c.bits()) != 0
	case oneOf:
		return listed
	case noneOf:
		return !listed
	default:
		return wide != 0
	}
}
