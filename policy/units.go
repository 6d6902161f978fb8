package policy

import (
	"encoding"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes that is written with a unit: "512MiB", "1.5GB",
// "4096". The units are B, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB,
// GB, TB (powers of 1000); a number without a unit counts bytes.
type Size int64

// The sizes that have a name.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

const sizeUnits = "the units are B, KiB, MiB, GiB, TiB, KB, MB, GB and TB"

// maxDecimals is how many digits may follow the point: as many as fit into 64 bits.
const maxDecimals = 18

// unitOf returns the number of bytes in a unit, 0 for an unknown one.
func unitOf(name string) uint64 {
	switch name {
	case "", "B":
		return 1
	case "KiB":
		return 1 << 10
	case "MiB":
		return 1 << 20
	case "GiB":
		return 1 << 30
	case "TiB":
		return 1 << 40
	case "KB":
		return 1e3
	case "MB":
		return 1e6
	case "GB":
		return 1e9
	case "TB":
		return 1e12
	}
	return 0
}

// ParseSize reads a size. A fraction of a byte is cut off. It refuses a size that
// would become 0 by that, a single letter as unit ("M" is MiB to some and MB to
// others), a negative number, and more than 8 EiB - 1. The error is a
// [*FieldError] whose field is "size".
func ParseSize(text string) (Size, error) {
	whole, decimals, name, reason := splitSize(text)
	if reason != "" {
		return 0, sizeError(text, reason, "")
	}
	unit := unitOf(name)
	if unit == 0 {
		return 0, badUnit(text, strings.TrimSpace(text[:len(text)-len(name)]), name)
	}
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, tooLarge(text)
	}
	hi, bytes := bits.Mul64(n, unit)
	part, exact := fractionOf(decimals, unit)
	sum, carry := bits.Add64(bytes, part, 0)
	switch {
	case hi != 0 || carry != 0 || sum > math.MaxInt64:
		return 0, tooLarge(text)
	case !exact && (unit == 1 || sum == 0):
		return 0, sizeError(text, "a byte cannot be divided", "")
	}
	return Size(sum), nil
}

// splitSize splits a size into digits, the digits after the point, and the unit.
func splitSize(text string) (whole, decimals, unit, reason string) {
	if text == "" {
		return "", "", "", "it is empty"
	}
	if text[0] == '-' {
		return "", "", "", "it must not be negative"
	}
	whole, rest := splitDigits(text)
	if whole == "" {
		return "", "", "", "it does not start with a number"
	}
	if strings.HasPrefix(rest, ".") {
		decimals, rest = splitDigits(rest[1:])
		if decimals == "" {
			return "", "", "", "a digit must follow the point"
		}
		if len(decimals) > maxDecimals {
			return "", "", "", "it has more than 18 decimals"
		}
	}
	unit = strings.TrimLeft(rest, " ")
	if unit == "" && rest != "" {
		return "", "", "", "it ends with a space"
	}
	return whole, decimals, unit, ""
}

// splitDigits splits digits off the front of s.
func splitDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// fractionOf returns the whole bytes in 0.decimals units, and whether nothing was
// cut off.
func fractionOf(decimals string, unit uint64) (bytes uint64, exact bool) {
	if decimals == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(decimals, 10, 64)
	if err != nil {
		return 0, false
	}
	scale := uint64(1)
	for range decimals {
		scale *= 10
	}
	hi, lo := bits.Mul64(n, unit)
	bytes, rest := bits.Div64(hi, lo, scale)
	return bytes, rest == 0
}

// badUnit returns the error of a size with an unknown unit.
func badUnit(text, number, name string) error {
	if len(name) == 1 && strings.Contains("KMGTkmgt", name) {
		letter := strings.ToUpper(name)
		return sizeError(text, "unit "+strconv.Quote(name)+" is ambiguous",
			"write "+quoteShort(number+letter+"iB")+" (powers of 1024) or "+quoteShort(number+letter+"B")+" (powers of 1000)")
	}
	for _, known := range []string{"B", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"} {
		if strings.EqualFold(name, known) {
			return sizeError(text, "unknown unit "+quoteShort(name), "did you mean "+quoteShort(number+known)+"?")
		}
	}
	return sizeError(text, "unknown unit "+quoteShort(name), sizeUnits)
}

func tooLarge(text string) error {
	return sizeError(text, "it is more than 8 EiB - 1 byte", "")
}

func sizeError(text, reason, hint string) error {
	return &FieldError{Field: "size", Value: text, Reason: reason, Hint: hint}
}

// String writes the size with the largest unit of which it is a whole number, so
// that [ParseSize] reads the same number again.
func (s Size) String() string {
	for _, name := range []string{"TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"} {
		if unit := Size(unitOf(name)); s != 0 && s%unit == 0 {
			return strconv.FormatInt(int64(s/unit), 10) + name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the size as [ParseSize] does.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = n
	return nil
}

// UnmarshalJSON reads a JSON string as [ParseSize] does, or a JSON integer
// that counts bytes. As everywhere in JSON decoding, null changes nothing.
func (s *Size) UnmarshalJSON(data []byte) error {
	return unmarshalUnit(data, s)
}

// unmarshalUnit gives the text of a JSON string, or a JSON number as it is written, to
// to. It ignores null.
func unmarshalUnit(data []byte, to encoding.TextUnmarshaler) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return to.UnmarshalText([]byte(text))
}

// Duration is a duration that is written with a unit: "90s", "1h30m". The units
// are those of [time.ParseDuration].
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

// checkDuration returns the mistake in the syntax: the errors of the standard library do not
// distinguish mistakes.
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
		unit := after[:end]
		switch bare := strings.TrimSpace(unit); {
		case bare == "":
			return "a unit is missing", "did you mean " + quoteShort(number+"s") + "?"
		case !slices.Contains([]string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"}, bare):
			return "unknown unit " + quoteShort(bare), durationUnits
		case bare != unit:
			return "it contains a space", "did you mean " + quoteShort(strings.Join(strings.Fields(text), "")) + "?"
		}
		rest = after[end:]
	}
	return "", ""
}

// splitNumber splits digits with at most one point off the front of s.
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

// String writes the duration as [time.Duration] does: "1h30m0s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration as [ParseDuration] does. A JSON number is not
// accepted: a duration needs its unit.
func (d *Duration) UnmarshalText(text []byte) error {
	n, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = n
	return nil
}

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
	return unmarshalUnit(data, c)
}
