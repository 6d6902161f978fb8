package policy

import (
	"encoding/json"
	"strconv"
	"strings"
)

// CPUs is an amount of processor time per time, in thousandths of one
// processor: "1.5" is one processor and a half.
type CPUs int64

// ParseCPUs reads a decimal number with at most three decimals. The error is a
// [*FieldError] whose field is "cpus".
func ParseCPUs(text string) (CPUs, error) {
	bad := func(reason string) (CPUs, error) {
		return 0, &FieldError{Field: "cpus", Value: text, Reason: reason, Hint: "write a number of processors, such as 2 or 0.5"}
	}
	whole, decimals, point := strings.Cut(text, ".")
	switch {
	case text == "":
		return bad("it is empty")
	case text[0] == '-':
		return bad("it must not be negative")
	case strings.Trim(whole+decimals, "0123456789") != "" || whole == "" || point && decimals == "":
		return bad("it is not a decimal number")
	case len(decimals) > 3:
		return bad("it has more than 3 decimals")
	}
	n, err := strconv.ParseInt(whole+decimals+"000"[len(decimals):], 10, 64)
	if err != nil {
		return bad("it is too large")
	}
	return CPUs(n), nil
}

// String writes the amount so that [ParseCPUs] reads the same again.
func (c CPUs) String() string { return strconv.FormatFloat(float64(c)/1000, 'f', -1, 64) }

// MarshalText writes the amount as String does.
func (c CPUs) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the amount as [ParseCPUs] does.
func (c *CPUs) UnmarshalText(text []byte) error {
	n, err := ParseCPUs(string(text))
	if err != nil {
		return err
	}
	*c = n
	return nil
}

// UnmarshalJSON reads a JSON string as [ParseCPUs] does, or a JSON number.
// As everywhere in JSON decoding, null changes nothing.
func (c *CPUs) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return c.UnmarshalText([]byte(text))
}
