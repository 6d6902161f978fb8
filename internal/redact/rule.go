package redact

import (
	"fmt"
	"strings"
)

// Types of rules. A rule of another type has an expression.
const (
	Email      = "email"
	CreditCard = "credit_card"
	IP         = "ip"
	MACAddress = "mac_address"
	URL        = "url"
	Custom     = "custom"
)

// Strategies: what becomes of a match of rule NAME.
const (
	Redact = "redact" // [REDACTED_NAME]
	Mask   = "mask"   // the part that tells least stays, see the package comment
	Hash   = "hash"   // <name_hash:12345678>, the first 8 digits of its SHA-256
	Block  = "block"  // it and all that follows become Output blocked: detected NAME.
)

// Types and Strategies are what there is, in the order of the documentation.
var (
	Types      = []string{Email, CreditCard, IP, MACAddress, URL, Custom}
	Strategies = []string{Redact, Mask, Hash, Block}
)

// Bounds of rules.
const (
	MaxRules      = 64
	MaxName       = 64       // bytes of a name
	MaxExpression = 1 << 10  // bytes of an expression
	MaxProgram    = 4 << 10  // instructions of an expression, each for a range of bytes
	MaxPrograms   = 16 << 10 // of all expressions together
	MaxMatch      = 4 << 10  // bytes of a match of an expression; of a longer one the end is found
)

// Rule says what is to be replaced, and by what.
type Rule struct {
	// Name stands for the rule in replacements and counts: a letter, then
	// letters, digits, "_" and "-". Default: the type; Custom needs one.
	Name string `json:"name,omitempty"`
	// Type is one of Types. Default: Custom where there is a pattern.
	Type string `json:"type,omitempty"`
	// Pattern is the expression of a Custom rule, in RE2 syntax. It matches
	// bytes: "." and what excludes characters take bytes that are no UTF-8,
	// too. "^" and "$" need (?m), and then mean lines.
	Pattern string `json:"pattern,omitempty"`
	// Strategy is one of Strategies. Default: Redact.
	Strategy string `json:"strategy,omitempty"`
}

// RuleError says which field of which rule cannot be as it is.
type RuleError struct {
	Index  int    // of the rule
	Field  string // "name", "type", "pattern", "strategy"; empty for the rule, or all of them
	Reason string
}

func (e *RuleError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("rule %d %s", e.Index, e.Reason)
	}
	return fmt.Sprintf("rule %d: %s %s", e.Index, e.Field, e.Reason)
}

// Complete fills in the defaults of a rule.
func (r Rule) Complete() Rule {
	if r.Type == "" && r.Pattern != "" {
		r.Type = Custom
	}
	if r.Name == "" && r.Type != Custom {
		r.Name = r.Type
	}
	if r.Strategy == "" {
		r.Strategy = Redact
	}
	return r
}

// CheckRules says what is wrong with rules, as a *RuleError; they need not be
// complete.
func CheckRules(rules []Rule) error {
	_, err := compileRules(rules)
	return err
}

// rule is a rule that can be used.
type rule struct {
	Rule
	program *program // of an expression
}

func compileRules(rules []Rule) ([]rule, error) {
	if len(rules) > MaxRules {
		return nil, &RuleError{Index: MaxRules, Reason: fmt.Sprintf("is one too many: there may be %d", MaxRules)}
	}
	names := map[string]bool{}
	total := 0
	var all []rule
	for i, r := range rules {
		r = r.Complete()
		c := rule{Rule: r}
		field, reason := r.check()
		if reason == "" && names[strings.ToLower(r.Name)] {
			field, reason = "name", "is that of another rule, too"
		}
		if reason == "" && r.Type == Custom {
			var err error
			if c.program, err = compile(r.Pattern); err != nil {
				field, reason = "pattern", err.Error()
			} else if total += len(c.program.insts); total > MaxPrograms {
				field, reason = "pattern", "makes all expressions together too large"
			}
		}
		if reason != "" {
			return nil, &RuleError{i, field, reason}
		}
		names[strings.ToLower(r.Name)] = true
		all = append(all, c)
	}
	return all, nil
}

// check looks at all but the expression itself.
func (r Rule) check() (field, reason string) {
	switch {
	case !contains(Types, r.Type):
		return "type", "is not one of " + strings.Join(Types, ", ")
	case !contains(Strategies, r.Strategy):
		return "strategy", "is not one of " + strings.Join(Strategies, ", ")
	case r.Name == "":
		return "name", "is needed where there is a pattern"
	case !validName(r.Name):
		return "name", fmt.Sprintf("is not a letter and then letters, digits, \"_\" and \"-\", at most %d", MaxName)
	case r.Type != Custom && r.Pattern != "":
		return "pattern", "goes with the type custom alone"
	case r.Type == Custom && r.Pattern == "":
		return "pattern", "is needed for the type custom"
	case len(r.Pattern) > MaxExpression:
		return "pattern", fmt.Sprintf("has more than %d bytes", MaxExpression)
	}
	return "", ""
}

func contains(list []string, text string) bool {
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

func validName(name string) bool {
	for i := range len(name) {
		if b := name[i]; !isLetter(b) && (i == 0 || !isDigit(b) && b != '_' && b != '-') {
			return false
		}
	}
	return len(name) <= MaxName
}
