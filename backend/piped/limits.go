//go:build linux

package piped

import (
	"fmt"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Limits returns the limits of a spec as an agent enforces them without control
// groups: in each process.
func Limits(l policy.Limits) wire.GuestRlimits {
	return wire.GuestRlimits{
		CPUSeconds: uint64((time.Duration(l.CPUTime) + time.Second - 1) / time.Second),
		FileSize:   uint64(l.FileSize), OpenFiles: l.OpenFiles, Processes: l.Processes, Data: uint64(l.Memory),
	}
}

// PlanRlimits returns an agent's rlimits as a plan shows them.
func PlanRlimits(r wire.GuestRlimits) confine.Rlimits {
	return confine.Rlimits{CPUSeconds: r.CPUSeconds, FileSize: r.FileSize, OpenFiles: r.OpenFiles, Processes: r.Processes, Data: r.Data}
}

// TellLimits records in the isolation what enforces each limit, and in what that is
// less than the spec says.
func TellLimits(i *policy.Isolation, l policy.Limits) {
	r := Limits(l)
	i.Limits = map[string]string{}
	tell := func(name, text string, value uint64) {
		if value > 0 {
			i.Limits[name] = fmt.Sprintf(text, value)
		}
	}
	tell("cpu_time", "RLIMIT_CPU=%d, of each process, with SIGXCPU a second before its end", r.CPUSeconds)
	tell("file_size", "RLIMIT_FSIZE=%d, of each process", r.FileSize)
	tell("open_files", "RLIMIT_NOFILE=%d, of each process", r.OpenFiles)
	tell("processes", "RLIMIT_NPROC=%d, of all that the user runs", r.Processes)
	tell("memory", "RLIMIT_DATA=%d, of each process", r.Data)
	for name, value := range map[string]uint64{policy.DegradeMemory: r.Data, policy.DegradeProcesses: r.Processes} {
		if value > 0 {
			i.Degraded = append(i.Degraded, name)
		}
	}
	slices.Sort(i.Degraded)
	i.Lost = append(i.Lost, backend.Losses(i.Degraded)...)
}
