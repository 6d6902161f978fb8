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
// take their place.
func (a *applier) redaction(asked []Redaction) []Redaction {
	if len(a.c.Redaction) == 0 {
		return asked
	}
	names := map[string]bool{}
	for _, rule := range a.c.Redaction {
		names[strings.ToLower(redact.Rule(rule).Complete().Name)] = true
	}
	for i, rule := range asked {
		if name := redact.Rule(rule).Complete().Name; names[strings.ToLower(name)] {
			a.refuse(index("redaction", i)+".name", "redaction", name, "the ceiling has a rule of this name, which stays", "leave yours out, or give it another name")
		}
	}
	return slices.Concat(a.c.Redaction, asked)
}
