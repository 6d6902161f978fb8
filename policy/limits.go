package policy

import (
	"strconv"
	"time"
)

// limits fills in defaults and checks each limit that is set against its bounds.
func (r *resolver) limits(l Limits) Limits {
	if l.Output == 0 {
		l.Output = DefaultOutput
	}
	if l.Tmp == 0 && r.keeps("limits.tmp") {
		l.Tmp = DefaultTmp
	}
	if l.Processes == 0 && r.keeps("limits.processes") {
		l.Processes = DefaultProcesses
	}
	if inBounds(r, "limits.max_timeout", l.MaxTimeout, minTimeout, maxTimeout, Duration.String) && l.MaxTimeout > 0 && l.Timeout == 0 {
		l.Timeout = l.MaxTimeout
	}
	inBounds(r, "limits.timeout", l.Timeout, minTimeout, maxTimeout, Duration.String)
	inBounds(r, "limits.output", l.Output, 1, maxOutput, Size.String)
	if inBounds(r, "limits.cpu_time", l.CPUTime, minCPUTime, maxCPUTime, Duration.String) {
		l.CPUTime = wholeSeconds(l.CPUTime)
	}
	inBounds(r, "limits.file_size", l.FileSize, 1, 1<<63-1, Size.String)
	inBounds(r, "limits.open_files", l.OpenFiles, minOpenFiles, maxOpenFiles, formatCount)
	inBounds(r, "limits.processes", l.Processes, minProcesses, maxProcesses, formatCount)
	inBounds(r, "limits.tmp", l.Tmp, minTmp, 1<<63-1, Size.String)
	inBounds(r, "limits.memory", l.Memory, minMemory, 1<<63-1, Size.String)
	inBounds(r, "limits.memory_high", l.MemoryHigh, minMemory, 1<<63-1, Size.String)
	inBounds(r, "limits.swap", l.Swap, 0, 1<<63-1, Size.String)
	inBounds(r, "limits.cpus", l.CPUs, minCPUs, 1<<63-1, CPUs.String)
	inBounds(r, "limits.disk", l.Disk, minDisk, 1<<63-1, Size.String)
	return l
}

// inBounds says whether v is 0, which stands for "not limited", or between
// least and most. It refuses any other value.
func inBounds[T Duration | Size | CPUs | uint64](r *resolver, field string, v, least, most T, format func(T) string) bool {
	switch {
	case v < 0:
		r.refuse(field, format(v), "it must not be negative", "")
	case v != 0 && v < least:
		r.refuse(field, format(v), "it is less than "+format(least), "")
	case v > most:
		r.refuse(field, format(v), "it is more than "+format(most), "")
	default:
		return true
	}
	return false
}

// wholeSeconds rounds up: a limit is never stricter than what was written.
func wholeSeconds(d Duration) Duration {
	const second = Duration(time.Second)
	return (d + second - 1) / second * second
}

func formatCount(n uint64) string { return strconv.FormatUint(n, 10) }
