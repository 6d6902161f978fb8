package executor

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// The bounds of the limits, in the file's units; those of policy.Limits.
const (
	leastMemory    = 4
	mostMegabytes  = math.MaxInt64 >> 20
	mostCPU        = 365 * 24 * 3600
	leastProcesses = 4
	mostProcesses  = 1 << 22
	leastOpenFiles = 16
	mostOpenFiles  = 1 << 20
	leastTimeout   = 0.001
	mostTimeout    = 7 * 24 * 3600
)

func (r *reader) limit(key, field string, v *value) bool {
	l := &r.config.Limits
	switch key {
	case "max_memory_mb":
		l.Memory = policy.Size(r.whole(v, field, leastMemory, mostMegabytes)) * policy.MiB
	case "max_cpu_seconds":
		l.CPUTime = policy.Duration(r.whole(v, field, 1, mostCPU)) * policy.Duration(time.Second)
	case "max_file_size_mb":
		l.FileSize = policy.Size(r.whole(v, field, 1, mostMegabytes)) * policy.MiB
	case "max_processes":
		l.Processes = r.whole(v, field, leastProcesses, mostProcesses)
	case "max_open_files":
		l.OpenFiles = r.whole(v, field, leastOpenFiles, mostOpenFiles)
	case "timeout_seconds":
		l.Timeout = r.seconds(v, field)
	case "max_timeout_seconds":
		l.MaxTimeout = r.seconds(v, field)
	default:
		return false
	}
	return true
}

// number is the text of a number, which may be in quotes, as the older server
// took it. Anything else is refused.
func (r *reader) number(v *value, field, want string) (text string, ok bool) {
	switch text := strings.TrimSpace(v.text); {
	case v.kind == kindNumber:
		return text, true
	case v.kind == kindText && strings.Trim(text, "+-0123456789.") == "" && strings.ContainsAny(text, "0123456789"):
		return strings.TrimPrefix(text, "+"), true
	}
	r.refuse(v, field, "it must be "+want, "")
	return "", false
}

// whole is a whole number between the bounds, or 0 where it is refused.
func (r *reader) whole(v *value, field string, least, most uint64) uint64 {
	const want = "a whole number"
	text, ok := r.number(v, field, want)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	digits := strings.Trim(text, "0123456789") == ""
	switch {
	case strings.HasPrefix(text, "-"):
		r.refuse(v, field, "it must not be negative", "")
	case !digits:
		r.refuse(v, field, "it must be "+want, "")
	case err != nil || n > most:
		r.refuse(v, field, "it is more than "+strconv.FormatUint(most, 10), "")
	case n < least:
		r.refuse(v, field, "it is less than "+strconv.FormatUint(least, 10), "")
	default:
		return n
	}
	return 0
}

// seconds is a time span; fractions are kept.
func (r *reader) seconds(v *value, field string) policy.Duration {
	text, ok := r.number(v, field, "a number of seconds")
	if !ok {
		return 0
	}
	d, reason := Seconds(text)
	if reason != "" {
		r.refuse(v, field, reason, "")
	}
	return d
}

// Seconds reads a timeout in seconds, "1.5" say. reason says why it cannot be
// one: more than 0, at least a millisecond, and at most seven days.
func Seconds(text string) (d policy.Duration, reason string) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !math.IsInf(f, 0), math.IsNaN(f), strings.ContainsAny(text, "xXpP_"):
		return 0, "it must be a number of seconds"
	case f < 0:
		return 0, "it must not be negative"
	case f < leastTimeout:
		return 0, "it is less than a millisecond"
	case f > mostTimeout:
		return 0, "it is more than 604800 seconds"
	}
	return policy.Duration(math.Round(f * float64(time.Second))), ""
}

// FormatSeconds is a time span in seconds, without more digits than it needs.
func FormatSeconds(d policy.Duration) string {
	return strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64)
}

func megabytes(s policy.Size) string { return strconv.FormatInt(int64(s/policy.MiB), 10) }
