package keep

import (
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// Filter chooses sandboxes. The zero value chooses all.
type Filter struct {
	labels []([2]string)
	names  []string
	states []string
}

// states are those that a sandbox can have in a list.
var states = []string{paddock.StateRunning, paddock.StatePaused, paddock.StateEnding, paddock.StateStopped, paddock.StateDamaged}

// NewFilter reads a filter: name=web, state=stopped, label=review or label=review=42. Of several
// names or states one must fit, and of labels all.
func NewFilter(list []string) (Filter, error) {
	var f Filter
	for _, word := range list {
		what, value, ok := strings.Cut(word, "=")
		refuse := func(reason, hint string) error {
			return &policy.FieldError{Field: "filter", Value: word, Reason: reason, Hint: hint}
		}
		if !ok || value == "" {
			return f, refuse("it has no value", "name=NAME, state=STATE, label=NAME or label=NAME=VALUE")
		}
		switch what {
		case "name":
			f.names = append(f.names, value)
		case "state":
			if !slices.Contains(states, value) {
				return f, refuse("unknown state", strings.Join(states, ", "))
			}
			f.states = append(f.states, value)
		case "label":
			key, want, exact := strings.Cut(value, "=")
			if !exact {
				want = "\x00" // any: no label has it
			}
			f.labels = append(f.labels, [2]string{key, want})
		default:
			return f, refuse("unknown word "+what, "name, state or label")
		}
	}
	return f, nil
}

// Empty reports whether the filter chooses all.
func (f Filter) Empty() bool { return len(f.labels)+len(f.names)+len(f.states) == 0 }

// Fits reports whether the filter chooses the sandbox.
func (f Filter) Fits(k paddock.Listed) bool {
	if len(f.names) > 0 && !slices.Contains(f.names, k.Name) && !slices.Contains(f.names, k.ID) {
		return false
	}
	if len(f.states) > 0 && !slices.Contains(f.states, k.State) {
		return false
	}
	for _, l := range f.labels {
		if value, ok := k.Labels[l[0]]; !ok || l[1] != "\x00" && value != l[1] {
			return false
		}
	}
	return true
}

// States reports whether the filter names states.
func (f Filter) States() bool { return len(f.states) > 0 }
