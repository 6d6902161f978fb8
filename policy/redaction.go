package policy

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// Redaction is a rule for replacing text in the output of every command before it
// leaves the sandbox.
//
//	redaction: [{type: email, strategy: mask}, {name: ticket, pattern: "JIRA-[0-9]+", strategy: hash}]
type Redaction struct {
	// Name stands for the rule in replacements and in results: a letter, then
	// letters, digits, "_" and "-", at most 64. Default: the type; a rule with
	// a pattern needs one.
	Name string `json:"name,omitempty"`
	// Type is "email", "credit_card", "ip", "mac_address", "url" or "custom"
	// (the default if there is a pattern).
	Type string `json:"type,omitempty"`
	// Pattern is the expression of a custom rule, in RE2 syntax, of at most
	// 1024 bytes. It matches bytes: "." and negated classes also match bytes
	// that are not UTF-8. "^" and "$" need (?m), and mean lines.
	Pattern string `json:"pattern,omitempty"`
	// Strategy is "redact" (default: [REDACTED_NAME]), "mask" (the least
	// revealing part stays), "hash" (<name_hash:8 digits>) or "block" (nothing
	// from the match on is shown).
	Strategy string `json:"strategy,omitempty"`
}

// The types of redaction rules.
const (
	RedactEmail      = "email"
	RedactCreditCard = "credit_card"
	RedactIP         = "ip"
	RedactMACAddress = "mac_address"
	RedactURL        = "url"
	RedactCustom     = "custom" // matches of a pattern
)

// The strategies of redaction rules: what a match of rule NAME becomes.
// wire/WIRE.md describes each.
const (
	StrategyRedact = "redact" // [REDACTED_NAME]
	StrategyMask   = "mask"   // the least revealing part stays
	StrategyHash   = "hash"   // <name_hash:12345678>, the first 8 digits of its SHA-256
	StrategyBlock  = "block"  // it and all that follows become "Output blocked: detected NAME."
)

// RedactionTypes and RedactionStrategies list the words of [Redaction].
var (
	RedactionTypes      = []string{RedactEmail, RedactCreditCard, RedactIP, RedactMACAddress, RedactURL, RedactCustom}
	RedactionStrategies = []string{StrategyRedact, StrategyMask, StrategyHash, StrategyBlock}
)

// The bounds of redaction rules.
const (
	MaxRedactions = 64
	maxRuleName   = 64      // bytes
	maxPattern    = 1 << 10 // bytes
)

// RedactionError says which field of which rule is invalid.
type RedactionError struct {
	Index  int    // of the rule; MaxRedactions if there are too many
	Field  string // "name", "type", "pattern", "strategy"; empty: the rule as a whole
	Reason string
}

func (e *RedactionError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("rule %d %s", e.Index, e.Reason)
	}
	return fmt.Sprintf("rule %d: %s %s", e.Index, e.Field, e.Reason)
}

// ParseRedaction reads TYPE or TYPE=STRATEGY. [Spec.Resolve] checks the words.
func ParseRedaction(text string) Redaction {
	kind, strategy, _ := strings.Cut(text, "=")
	return Redaction{Type: kind, Strategy: strategy}
}

// Complete fills in the defaults of a rule.
func (r Redaction) Complete() Redaction {
	if r.Type == "" && r.Pattern != "" {
		r.Type = RedactCustom
	}
	if r.Name == "" && r.Type != RedactCustom {
		r.Name = r.Type
	}
	if r.Strategy == "" {
		r.Strategy = StrategyRedact
	}
	return r
}

// CheckRedactions returns the first thing that is wrong with rules, as a
// [*RedactionError]. The rules need not be complete. How large a pattern may
// get is for the engine that searches for it to check, see [Base].
func CheckRedactions(rules []Redaction) error {
	if len(rules) > MaxRedactions {
		return &RedactionError{Index: MaxRedactions, Reason: fmt.Sprintf("is one too many: there may be %d", MaxRedactions)}
	}
	names := map[string]bool{}
	for i, r := range rules {
		r = r.Complete()
		field, reason := r.check()
		if reason == "" && names[strings.ToLower(r.Name)] {
			field, reason = "name", "is that of another rule, too"
		}
		if reason != "" {
			return &RedactionError{i, field, reason}
		}
		names[strings.ToLower(r.Name)] = true
	}
	return nil
}

// check returns the first field of a complete rule that is invalid, and why.
func (r Redaction) check() (field, reason string) {
	switch {
	case !slices.Contains(RedactionTypes, r.Type):
		return "type", "is not one of " + strings.Join(RedactionTypes, ", ")
	case !slices.Contains(RedactionStrategies, r.Strategy):
		return "strategy", "is not one of " + strings.Join(RedactionStrategies, ", ")
	case r.Name == "":
		return "name", "is needed where there is a pattern"
	case !isPlainKey(r.Name) || !isLetter(r.Name[0]) || len(r.Name) > maxRuleName:
		return "name", fmt.Sprintf("is not a letter and then letters, digits, \"_\" and \"-\", at most %d", maxRuleName)
	case r.Type != RedactCustom && r.Pattern != "":
		return "pattern", "goes with the type custom alone"
	case r.Type == RedactCustom && r.Pattern == "":
		return "pattern", "is needed for the type custom"
	case len(r.Pattern) > maxPattern:
		return "pattern", fmt.Sprintf("has more than %d bytes", maxPattern)
	case r.Type == RedactCustom:
		if _, err := CompilePattern(r.Pattern); err != nil {
			return "pattern", err.Error()
		}
	}
	return "", ""
}

// CompilePattern compiles an expression in RE2 syntax. It refuses expressions that a
// stream cannot be searched for: those that match the empty text, or the beginning or
// end of the whole text. Its errors continue a sentence that begins "the pattern".
func CompilePattern(pattern string) (*syntax.Prog, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("is no expression in RE2 syntax: %s %q", bad.Code, bad.Expr)
		}
		return nil, errors.New("is no expression in RE2 syntax")
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("cannot be compiled: %w", err)
	}
	for i := range prog.Inst {
		if from := &prog.Inst[i]; from.Op == syntax.InstEmptyWidth && syntax.EmptyOp(from.Arg)&(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			return nil, errors.New("asks for the begin or the end of a text, which a stream has not: (?m) makes ^ and $ those of lines")
		}
	}
	if matchesEmpty(prog) {
		return nil, errors.New("matches where nothing is")
	}
	return prog, nil
}

// matchesEmpty reports whether a program can match without taking a character,
// be it in some places only.
func matchesEmpty(prog *syntax.Prog) bool {
	seen := make([]bool, len(prog.Inst))
	todo := []uint32{uint32(prog.Start)}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch i := &prog.Inst[at]; i.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			todo = append(todo, i.Out)
		}
	}
	return false
}

// redaction checks rules, and fills in their defaults.
func (r *resolver) redaction(rules []Redaction) []Redaction {
	if len(rules) == 0 {
		return nil
	}
	own := make([]Redaction, len(rules))
	for i, rule := range rules {
		own[i] = rule.Complete()
	}
	check := CheckRedactions
	if r.base.CheckRedactions != nil {
		check = r.base.CheckRedactions
	}
	err := check(own)
	var bad *RedactionError
	switch {
	case err == nil:
	case !errors.As(err, &bad):
		r.refuse("redaction", "", err.Error(), "")
	case bad.Index >= len(own) || bad.Index == MaxRedactions:
		r.refuse("redaction", "", "there are more rules than 64", "")
	case bad.Field == "":
		r.refuse(index("redaction", bad.Index), "", "it "+bad.Reason, "")
	default:
		rule := own[bad.Index]
		value := map[string]string{"name": rule.Name, "type": rule.Type, "pattern": rule.Pattern, "strategy": rule.Strategy}[bad.Field]
		r.refuse(index("redaction", bad.Index)+"."+bad.Field, value, "it "+bad.Reason, "")
	}
	return own
}

// redaction puts the ceiling's rules before the rules of a spec, which cannot
// replace them. If a spec repeats a rule exactly, as the operator's own spec does
// below the ceiling that was made from it, the rule is added only once.
func (a *applier) redaction(asked []Redaction) []Redaction {
	rules := map[string]Redaction{} // of the ceiling, by name
	for _, rule := range a.c.Redaction {
		rule := rule.Complete()
		rules[strings.ToLower(rule.Name)] = rule
	}
	all := slices.Clone(a.c.Redaction)
	for i, rule := range asked {
		own := rule.Complete()
		switch same, taken := rules[strings.ToLower(own.Name)]; {
		case !taken:
			all = append(all, rule)
		case own != same:
			a.refuse(index("redaction", i)+".name", "redaction", own.Name, "the ceiling has another rule of this name, which stays", "leave yours out, or give it another name")
		}
	}
	return all
}
