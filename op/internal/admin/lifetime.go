package admin

import (
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// maxLifetime bounds a [Lifetime].
const maxLifetime = 10 * 366 * 24 * time.Hour

// Lifetime is how long something is valid: a duration as [policy.Duration] has
// it, or a number of days, "30d". At most ten years.
type Lifetime time.Duration

// UnmarshalText reads it. None at all, 0, is refused.
func (l *Lifetime) UnmarshalText(text []byte) error {
	d, err := parseLifetime(string(text))
	switch {
	case err != nil:
		return err
	case d < time.Second || d > maxLifetime:
		return &policy.FieldError{Field: "lifetime", Value: string(text), Reason: "it is not from 1s to 3660d"}
	}
	*l = Lifetime(d)
	return nil
}

func parseLifetime(text string) (time.Duration, error) {
	number, isDays := strings.CutSuffix(text, "d")
	days, err := strconv.ParseUint(number, 10, 16)
	if isDays && err == nil {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := policy.ParseDuration(text)
	if err != nil {
		return 0, &policy.FieldError{Field: "lifetime", Value: text, Reason: "it is no time span", Hint: "write 30d, or 12h"}
	}
	return time.Duration(d), nil
}

// MarshalText writes it as a duration.
func (l Lifetime) MarshalText() ([]byte, error) { return []byte(time.Duration(l).String()), nil }

// JSONSchema says what is read.
func (l Lifetime) JSONSchema() string {
	return `{"type": "string", "pattern": "^([0-9]+d|[+]?([0-9]*[.]?[0-9]*(ns|us|ms|s|m|h))+)$", "description": "a number of days, 30d, or a duration, 12h"}`
}
