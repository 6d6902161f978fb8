package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxRedactRules bounds the rules of a request, and the counts in a result.
const MaxRedactRules = 64

// RedactRule says which text of an output is replaced, and by what. WIRE.md
// lists the types and strategies, and the expressions that are valid.
type RedactRule struct {
	// Name stands in replacements and counts. Default: the type.
	Name string `json:"name,omitempty"`
	// Type is email, credit_card, ip, mac_address, url, or custom (the
	// default if there is a pattern).
	Type    string `json:"type,omitempty"`
	Pattern string `json:"pattern,omitempty"` // of a custom rule, in RE2 syntax
	// Strategy is redact (default), mask, hash or block.
	Strategy string `json:"strategy,omitempty"`
}

// RedactRules are the rules of a request, at most MaxRedactRules. Unlike
// elsewhere, unknown fields are errors: a misspelt rule would hide nothing.
type RedactRules []RedactRule

// UnmarshalJSON reads a list strictly.
func (r *RedactRules) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*r = nil
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		return &Error{Code: CodeBadRequest, Object: "redaction", Message: "redaction must be a list"}
	}
	if len(list) > MaxRedactRules {
		return &Error{Code: CodeBadRequest, Object: "redaction", Message: fmt.Sprintf("redaction must be at most %d rules", MaxRedactRules)}
	}
	rules := make(RedactRules, len(list))
	for i, text := range list {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err := d.Decode(&rules[i])
		if err == nil && bytes.HasPrefix(text, []byte("{")) && d.Decode(new(any)) == io.EOF {
			continue
		}
		object := fmt.Sprintf("redaction[%d]", i)
		return &Error{Code: CodeBadRequest, Object: object, Message: object + ` must be an object of the strings "name", "type", "pattern" and "strategy"`}
	}
	*r = rules
	return nil
}

// RedactCounts counts the matches of each rule by its name, of at most
// MaxRedactRules rules.
type RedactCounts map[string]int64

// UnmarshalJSON reads counts and refuses any that no agent sends.
func (c *RedactCounts) UnmarshalJSON(data []byte) error {
	var counts map[string]int64
	if err := json.Unmarshal(data, &counts); err != nil {
		return err
	}
	if len(counts) > MaxRedactRules {
		return fmt.Errorf("more than %d rules", MaxRedactRules)
	}
	*c = nil
	for name, n := range counts {
		if n < 0 {
			return errors.New("a negative count of matches")
		}
		if *c == nil {
			*c = RedactCounts{}
		}
		(*c)[printable(name)] = n
	}
	return nil
}

// Redactions returns the values and the rules for text that no answer to the
// request may contain.
func (r *ExecRequest) Redactions() ([]string, RedactRules) { return r.RedactValues, r.Redaction }

// Redactions returns the values and the rules for text that no answer to the
// request may contain.
func (q *OpenShellRequest) Redactions() ([]string, RedactRules) { return q.RedactValues, q.Redaction }

// Redactions returns the values and the rules for text that no answer to the
// request may contain.
func (q *StartServiceRequest) Redactions() ([]string, RedactRules) {
	return q.RedactValues, q.Redaction
}
