package executor

import (
	"time"

	"github.com/paddock-dev/paddock/policy"
)

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

// Timeout is how long a command may run for which somebody asked so much time,
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

// Environment is what the executor sets for every command, over the sandbox's
// own clean environment, beside HOME and PWD, which are the workspace. memory is
// the bound under which node must work: its heap gets three quarters, because
// the rest of the program needs room beside it.
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
		env["NODE_OPTIONS"] = "--max-old-space-size=" + megabytes(memory*3/4)
	}
	return env
}
