// Package executor holds the settings of the command executor: its limits and
// their defaults, the environment that it gives to commands, and its older
// configuration file, config.json, which is accepted as it is.
//
// Everything here becomes part of a policy.Spec; nothing is enforced here.
// A [Config] is what a file says, which policy/specfile reads; [Config.Apply]
// puts it below what a spec says itself, and [Settle] fills in what nobody wrote.
package executor

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// Config is what a configuration file says.
type Config struct {
	// Disabled says that no command is to be executed at all.
	Disabled bool
	// Network is "none" or "host", empty where the file does not say.
	Network string
	// Limits are those that the file has.
	Limits policy.Limits
	// Ignored are the sections that are about other parts of that server.
	Ignored []string
}

// Apply puts the file's settings where the spec has none of its own.
func (c Config) Apply(spec policy.Spec) policy.Spec {
	fill(&spec.Network, c.Network)
	l := &spec.Limits
	fill(&l.CPUTime, c.Limits.CPUTime)
	fill(&l.FileSize, c.Limits.FileSize)
	fill(&l.Processes, c.Limits.Processes)
	fill(&l.OpenFiles, c.Limits.OpenFiles)
	fill(&l.Timeout, c.Limits.Timeout)
	fill(&l.MaxTimeout, c.Limits.MaxTimeout)
	if l.MemoryHigh == 0 {
		fill(&l.Memory, c.Limits.Memory)
	}
	return spec
}

// The limits of a command for which nobody wrote others.
const (
	DefaultMemory     = 512 * policy.MiB
	DefaultCPUTime    = policy.Duration(60 * time.Second)
	DefaultFileSize   = 100 * policy.MiB
	DefaultProcesses  = 32
	DefaultOpenFiles  = 256
	DefaultTimeout    = policy.Duration(120 * time.Second)
	DefaultMaxTimeout = policy.Duration(300 * time.Second)
)

// Settle fills in the limits that nobody wrote. Those of them that not every
// host can keep as meant may be weaker there, in the open: a written one is
// kept or refused, unless the spec itself allows less.
func Settle(spec policy.Spec) policy.Spec {
	l := &spec.Limits
	degraded := append([]string(nil), spec.AllowDegraded...)
	if l.Memory == 0 && l.MemoryHigh == 0 {
		l.Memory = DefaultMemory
		degraded = append(degraded, policy.DegradeMemory)
	}
	if l.Processes == 0 {
		l.Processes = DefaultProcesses
		degraded = append(degraded, policy.DegradeProcesses)
	}
	spec.AllowDegraded = degraded
	fill(&l.CPUTime, DefaultCPUTime)
	fill(&l.FileSize, DefaultFileSize)
	fill(&l.OpenFiles, DefaultOpenFiles)
	fill(&l.MaxTimeout, DefaultMaxTimeout)
	fill(&l.Timeout, DefaultTimeout)
	fill(&spec.Network, "none")
	if spec.Commands == nil {
		c := policy.DefaultCommands()
		spec.Commands = &c
	}
	return spec
}

// Timeout returns how long a command may run for which somebody asked so much time,
// or 0 for the default, and whether that is less than asked for: never more
// than l.MaxTimeout.
func Timeout(l policy.Limits, asked policy.Duration) (d policy.Duration, cut bool) {
	if asked == 0 {
		asked = l.Timeout
	}
	if l.MaxTimeout > 0 && asked > l.MaxTimeout {
		return l.MaxTimeout, true
	}
	return asked, false
}

func fill[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// The bounds of a timeout, in seconds.
const (
	leastTimeout = 0.001
	mostTimeout  = 7 * 24 * 3600
)

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

// FormatSeconds returns a duration in seconds, without more digits than it needs.
func FormatSeconds(d policy.Duration) string {
	return strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64)
}
