package policy

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"strings"
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

// maxDecimals is how many digits may follow the point: what 64 bits hold.
const maxDecimals = 18

// unitOf gives the bytes in a unit, 0 where there is no such unit.
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

// ParseSize reads a size. A fraction of a byte is cut off; a size that would
// become 0 by that, a single letter as unit ("M" is MiB to some and MB to
// others), a negative number and whatever exceeds 8 EiB - 1 are refused. The
// error is a [*FieldError] whose field is "size".
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

// splitSize takes a size apart: digits, the digits after the point, unit.
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

func splitDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// fractionOf gives the whole bytes in 0.decimals units, and whether that is
// all of it.
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

// String writes the size so that [ParseSize] reads the same number again:
// with the largest unit of which it is a whole number.
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
	text := string(data)
	if text == "null" {
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return s.UnmarshalText([]byte(text))
}
