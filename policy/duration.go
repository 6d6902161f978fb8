package policy

import (
	"strings"
	"time"
)

// Duration is a time span that is written with a unit: "90s", "1h30m". The
// units are those of [time.ParseDuration].
type Duration time.Duration

const durationUnits = "the units are h, m, s, ms, us and ns, as in 1h30m"

// ParseDuration reads a duration in Go's syntax. A number without a unit (0
// included), a negative duration, one below 1ns that is not 0, and one above
// about 292 years are refused. The error is a [*FieldError] whose field is
// "duration".
func ParseDuration(text string) (Duration, error) {
	if reason, hint := checkDuration(text); reason != "" {
		return 0, &FieldError{Field: "duration", Value: text, Reason: reason, Hint: hint}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		// The syntax is right, so that only the amount can be wrong.
		return 0, &FieldError{Field: "duration", Value: text, Reason: "it is longer than 292 years"}
	}
	if d == 0 && strings.ContainsAny(text, "123456789") {
		return 0, &FieldError{Field: "duration", Value: text, Reason: "it is shorter than 1ns"}
	}
	return Duration(d), nil
}

// checkDuration says what is wrong with the syntax, which the standard
// library does not tell apart.
func checkDuration(text string) (reason, hint string) {
	switch {
	case text == "":
		return "it is empty", ""
	case text[0] == '-':
		return "it must not be negative", ""
	case text == "+":
		return "it does not start with a number", durationUnits
	}
	rest := strings.TrimPrefix(text, "+")
	for rest != "" {
		number, after := splitNumber(rest)
		if number == "" {
			return "it does not start with a number", durationUnits
		}
		end := strings.IndexAny(after, "0123456789.")
		if end < 0 {
			end = len(after)
		}
		if reason, hint := checkTimeUnit(text, number, after[:end]); reason != "" {
			return reason, hint
		}
		rest = after[end:]
	}
	return "", ""
}

// splitNumber takes digits with at most one point off the front of s.
func splitNumber(s string) (number, rest string) {
	whole, rest := splitDigits(s)
	if !strings.HasPrefix(rest, ".") {
		return whole, rest
	}
	decimals, after := splitDigits(rest[1:])
	if whole == "" && decimals == "" {
		return "", s
	}
	return whole + "." + decimals, after
}

// checkTimeUnit says what is wrong with one unit of text, which follows number.
func checkTimeUnit(text, number, unit string) (reason, hint string) {
	bare := strings.TrimSpace(unit)
	switch {
	case bare == "":
		return "a unit is missing", "did you mean " + quoteShort(number+"s") + "?"
	case !isTimeUnit(bare):
		return "unknown unit " + quoteShort(bare), durationUnits
	case bare != unit:
		return "it contains a space", "did you mean " + quoteShort(strings.Join(strings.Fields(text), "")) + "?"
	}
	return "", ""
}

func isTimeUnit(s string) bool {
	switch s {
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h":
		return true
	}
	return false
}

// String writes the duration as [time.Duration] does: "1h30m0s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration as [ParseDuration] does. There is no
// reading of JSON numbers: a duration needs its unit.
func (d *Duration) UnmarshalText(text []byte) error {
	n, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = n
	return nil
}
