package redact

import (
	"errors"
	"slices"

	"github.com/paddock-dev/paddock/policy"
)

// Bounds of the patterns of rules.
const (
	MaxProgram  = 4 << 10  // instructions of a pattern, each for a range of bytes
	MaxPrograms = 16 << 10 // of all patterns of one set of rules together
	MaxMatch    = 4 << 10  // bytes of a match of a pattern; of a longer one the end is found
)

// Rules are compiled rules. They are immutable and safe for concurrent use. nil
// has none.
type Rules struct{ list []rule }

// rule is a complete, compiled rule.
type rule struct {
	policy.Redaction
	program *program // of a pattern
}

// Compile returns the rules of base, followed by more. A rule that repeats one of
// base word for word is left out. What makes another one of more unusable, beside
// those of base, is a [*policy.RedactionError] with its index in more.
func Compile(base *Rules, more []policy.Redaction) (*Rules, error) {
	if len(more) == 0 {
		return base, nil
	}
	var all []policy.Redaction
	var size int
	r := &Rules{}
	if base != nil {
		r.list = slices.Clone(base.list)
	}
	for _, old := range r.list {
		all = append(all, old.Redaction)
		size += old.size()
	}
	var indices []int // in more, of the rules that are added
	for i, added := range more {
		added = added.Complete()
		if !slices.Contains(all[:len(r.list)], added) {
			all, indices = append(all, added), append(indices, i)
		}
	}
	if len(indices) == 0 {
		return base, nil
	}
	err := policy.CheckRedactions(all)
	for i := len(r.list); i < len(all) && err == nil; i++ {
		c := rule{Redaction: all[i]}
		if c.Type == policy.RedactCustom {
			if c.program, err = compile(c.Pattern); err == nil && size+c.size() > MaxPrograms {
				err = errors.New("makes all expressions together too large")
			}
			if err != nil {
				err = &policy.RedactionError{Index: i, Field: "pattern", Reason: err.Error()}
			}
		}
		size += c.size()
		r.list = append(r.list, c)
	}
	var bad *policy.RedactionError
	if n := len(all) - len(indices); errors.As(err, &bad) {
		bad.Index = indices[bad.Index-n]
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Check returns what makes rules unusable, as a [*policy.RedactionError].
func Check(rules []policy.Redaction) error {
	_, err := Compile(nil, rules)
	return err
}

// Names returns the names of the rules.
func (r *Rules) Names() (names []string) {
	if r != nil {
		for i := range r.list {
			names = append(names, r.list[i].Name)
		}
	}
	return names
}

// size returns how many instructions the rule's pattern takes.
func (r *rule) size() int {
	if r.program == nil {
		return 0
	}
	return len(r.program.insts)
}
