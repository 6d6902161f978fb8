package confine

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Rule is one line of a filter, for people: the calls fail with the errno
// where the condition holds. The first rule that holds counts. Calls that
// no rule names are allowed; numbers of no known call fail with ENOSYS.
type Rule struct {
	Group string   `json:"group"`
	Calls []string `json:"calls"`
	When  string   `json:"when,omitempty"` // "" is always
	Errno string   `json:"errno"`
	Agent bool     `json:"agent,omitempty"` // it binds the agent's own threads too
	Why   string   `json:"why"`
}

// Rules lists what a filter denies. Calls that an architecture does not have
// are listed all the same.
func Rules(name string, o FilterOptions) ([]Rule, error) {
	s, err := o.scope(name)
	if err != nil {
		return nil, err
	}
	var all []Rule
	for _, r := range rules() {
		if !r.binds(s) {
			continue
		}
		var when []string
		for _, c := range r.when {
			when = append(when, c.String())
		}
		all = append(all, Rule{Group: r.group, Calls: r.calls, When: strings.Join(when, ", and "),
			Errno: unix.ErrnoName(r.errno), Agent: r.who&forAgent != 0, Why: r.why})
	}
	return all, nil
}

// String says the rule on one line.
func (r Rule) String() string {
	s := r.Group + ": " + strings.Join(r.Calls, " ")
	if r.When != "" {
		s += " where " + r.When
	}
	return s + ": " + r.Errno + " (" + r.Why + ")"
}
