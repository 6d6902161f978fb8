// Package executor holds the settings of the command executor: its limits and their
// defaults, the environment that it gives to commands, and the settings of its older
// configuration file, config.json, which is accepted unchanged.
//
// All settings become part of a policy.Spec; this package enforces nothing. policy/specfile
// reads a [Config] from a file, [Config.Apply] applies it to fields that a spec does not set,
// and [Settle] fills in the rest.
package executor

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// Config is the content of a configuration file.
type Config struct {
	// Disabled says that no command may be executed.
	Disabled bool
	// Network is "none" or "host", or empty if the file does not say.
	Network string
	// Limits are the limits of the file.
	Limits policy.Limits
	// Ignored are the sections about other parts of the older server.
	Ignored []string
}

// Apply returns the spec with the file's settings in fields that the spec does not set.
func (c Config) Apply(spec policy.Spec) policy.Spec {
	if spec.Network.Asked() == "" {
		spec.Network.Mode = c.Network
	}
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

// The default limits of a command.
const (
	DefaultMemory     = 512 * policy.MiB
	DefaultCPUTime    = policy.Duration(60 * time.Second)
	DefaultFileSize   = 100 * policy.MiB
	DefaultProcesses  = 32
	DefaultOpenFiles  = 256
	DefaultTimeout    = policy.Duration(120 * time.Second)
	DefaultMaxTimeout = policy.Duration(300 * time.Second)
)

// Settle fills in default limits. Default limits that a host cannot enforce may be weaker
// there, and the result says so. A limit in the spec is enforced or refused, unless the spec
// itself allows less.
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
	if spec.Network.Asked() == "" {
		spec.Network.Mode = policy.NetworkNone
	}
	if spec.Commands == nil {
		c := policy.DefaultCommands()
		spec.Commands = &c
	}
	return spec
}

// Timeout returns how long a command may run for which this time was asked (0: the
// default), at most l.MaxTimeout, and whether that is less than asked for.
func Timeout(l policy.Limits, asked policy.Duration) (d policy.Duration, cut bool) {
	if asked == 0 {
		asked = l.Timeout
	}
	if l.MaxTimeout > 0 && asked > l.MaxTimeout {
		return l.MaxTimeout, true
	}
	return asked, false
}

// fill sets a field that has the zero value.
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

// Seconds reads a timeout in seconds, for example "1.5". reason says why it is invalid: it
// must be at least a millisecond, and at most seven days.
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

// FormatSeconds returns a duration in seconds, in as few digits as possible.
func FormatSeconds(d policy.Duration) string {
	return strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64)
}

// Environment returns the variables that the executor sets for every command, over the
// sandbox's own clean environment, besides HOME and PWD, which are the workspace. memory is
// the bound under which node must work: its heap gets three quarters, because the rest of
// the program needs memory too.
func Environment(memory policy.Size) map[string]string {
	env := map[string]string{
		"PYTHONUNBUFFERED":          "1",
		"PYTHONDONTWRITEBYTECODE":   "1",
		"PYTHONHASHSEED":            "random",
		"PIP_NO_INPUT":              "1",
		"npm_config_ignore_scripts": "true",
		"MPLBACKEND":                "Agg",
	}
	if memory > 0 {
		env["NODE_OPTIONS"] = "--max-old-space-size=" + strconv.FormatInt(int64(memory*3/4/policy.MiB), 10)
	}
	return env
}

// reserved are the variables that the executor sets itself, or that decide what tools load
// or execute; "*" stands for any text. The rules for commands refuse others
// (command.DangerousVariable).
var reserved = []string{
	"HOME", "PWD", "OLDPWD", "PIP_*", "VIRTUAL_ENV", "ZDOTDIR",
	"CC", "CXX", "LD", "COMPILER_PATH", "GCC_EXEC_PREFIX", "GO*FLAGS", "GOROOT", "GOPATH", "GOPROXY", "R_PROFILE*", "R_ENVIRON*",
}

// Reserved reports whether callers of the executor may not set a variable.
func Reserved(name string) bool {
	return slices.ContainsFunc(reserved, func(pattern string) bool {
		before, after, open := strings.Cut(pattern, "*")
		return name == pattern || open && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
	})
}
