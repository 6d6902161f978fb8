//go:build linux

package piped

import (
	"fmt"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Limits returns the limits of a spec as an agent keeps them without control
// groups: those of each process.
func Limits(l policy.Limits) wire.GuestRlimits {
	return wire.GuestRlimits{
		CPUSeconds: uint64((time.Duration(l.CPUTime) + time.Second - 1) / time.Second),
		FileSize:   uint64(l.FileSize), OpenFiles: l.OpenFiles, Processes: l.Processes, Data: uint64(l.Memory),
	}
}

// TellLimits says by what each limit is kept, and what that is less than what
// was written.
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
	for _, d := range policy.Degradations() {
		if slices.Contains(i.Degraded, d.Name) {
			i.Lost = append(i.Lost, d.Loss)
		}
	}
}
