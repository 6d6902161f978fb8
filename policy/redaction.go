package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/internal/redact"
)

// Redaction is a rule for what is replaced in all that commands print, before
// it leaves the sandbox.
//
//	redaction: [{type: email, strategy: mask}, {name: ticket, pattern: "JIRA-[0-9]+", strategy: hash}]
type Redaction struct {
	// Name stands for the rule in replacements and in results: a letter, then
	// letters, digits, "_" and "-", at most 64. Default: the type; a rule with
	// a pattern needs one.
	Name string `json:"name,omitempty"`
	// Type is "email", "credit_card", "ip", "mac_address", "url" or "custom"
	// (default where there is a pattern).
	Type string `json:"type,omitempty"`
	// Pattern is the expression of a custom rule, in RE2 syntax, of at most
	// 1024 bytes. "^" and "$" need (?m), and mean lines.
	Pattern string `json:"pattern,omitempty"`
	// Strategy is "redact" (default: [REDACTED_NAME]), "mask" (what tells
	// least stays), "hash" (<name_hash:8 digits>) or "block" (from the match on
	// nothing more is told).
	Strategy string `json:"strategy,omitempty"`
}

// RedactionTypes and RedactionStrategies are the words of [Redaction].
var (
	RedactionTypes      = redact.Types
	RedactionStrategies = redact.Strategies
)

// ParseRedaction reads TYPE or TYPE=STRATEGY. Whether the words make sense is
// told by [Spec.Resolve].
func ParseRedaction(text string) Redaction {
	kind, strategy, _ := strings.Cut(text, "=")
	return Redaction{Type: kind, Strategy: strategy}
}

// redaction checks rules, and fills in their defaults.
func (r *resolver) redaction(rules []Redaction) []Redaction {
	if len(rules) == 0 {
		return nil
	}
	own := make([]Redaction, len(rules))
	all := make([]redact.Rule, len(rules))
	for i, rule := range rules {
		all[i] = redact.Rule(rule).Complete()
		own[i] = Redaction(all[i])
	}
	if err := redactionError(all); err != nil {
		r.errs = append(r.errs, err)
	}
	return own
}

// redactionError is the first thing that is wrong with rules, nil for none.
func redactionError(rules []redact.Rule) error {
	var bad *redact.RuleError
	if !errors.As(redact.CheckRules(rules), &bad) {
		return nil
	}
	e := &FieldError{Field: "redaction", Reason: "it " + bad.Reason}
	if bad.Index >= len(rules) || bad.Index == redact.MaxRules {
		e.Reason = "there are more rules than 64"
		return e
	}
	rule := rules[bad.Index]
	if e.Field = index("redaction", bad.Index); bad.Field != "" {
		e.Field += "." + bad.Field
		e.Value = map[string]string{"name": rule.Name, "type": rule.Type, "pattern": rule.Pattern, "strategy": rule.Strategy}[bad.Field]
	}
	return e
}

// redaction puts the ceiling's rules before those of a spec, which cannot
// replace them. A spec that repeats one of them word for word, as the operator's
// own spec does below the ceiling that was made of it, gets it once.
func (a *applier) redaction(asked []Redaction) []Redaction {
	rules := map[string]redact.Rule{} // of the ceiling, by name
	for _, rule := range a.c.Redaction {
		rule := redact.Rule(rule).Complete()
		rules[strings.ToLower(rule.Name)] = rule
	}
	all := slices.Clone(a.c.Redaction)
	for i, rule := range asked {
		own := redact.Rule(rule).Complete()
		switch held, taken := rules[strings.ToLower(own.Name)]; {
		case !taken:
			all = append(all, rule)
		case own != held:
			a.refuse(index("redaction", i)+".name", "redaction", own.Name, "the ceiling has another rule of this name, which stays", "leave yours out, or give it another name")
		}
	}
	return all
}
