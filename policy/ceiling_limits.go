package policy

// limits fills in the maxima of what is left open, and refuses what exceeds
// them.
func (a *applier) limits(l Limits, copied bool) Limits {
	c := a.c.Limits
	l.Timeout = atMost(a, "timeout", l.Timeout, c.Timeout, 0, Duration.String)
	// Both are rounded up to whole seconds before they are kept.
	l.CPUTime = atMost(a, "cpu_time", wholeSeconds(l.CPUTime), wholeSeconds(c.CPUTime), 0, Duration.String)
	l.Output = atMost(a, "output", l.Output, c.Output, DefaultOutput, Size.String)
	l.FileSize = atMost(a, "file_size", l.FileSize, c.FileSize, 0, Size.String)
	l.OpenFiles = atMost(a, "open_files", l.OpenFiles, c.OpenFiles, 0, formatCount)
	l.Processes = atMost(a, "processes", l.Processes, c.Processes, DefaultProcesses, formatCount)
	l.Tmp = atMost(a, "tmp", l.Tmp, c.Tmp, DefaultTmp, Size.String)
	l.CPUs = atMost(a, "cpus", l.CPUs, c.CPUs, 0, CPUs.String)
	l.Memory = atMost(a, "memory", l.Memory, c.Memory, 0, Size.String)
	if copied || l.Disk != 0 {
		l.Disk = atMost(a, "disk", l.Disk, c.Disk, DefaultDisk, Size.String)
	}
	if l.MemoryHigh != 0 {
		high := c.MemoryHigh
		if high == 0 {
			high = c.Memory
		}
		l.MemoryHigh = atMost(a, "memory_high", l.MemoryHigh, high, 0, Size.String)
	}
	switch {
	case c.Memory == 0 && c.Swap == 0:
	case l.Swap < 0 || l.Swap > c.Swap:
		a.exceeds("swap", l.Swap.String(), c.Swap.String())
	}
	return l
}

// atMost is the limit that holds: value where it is written and no more than
// most, and where it is not, most or the default, whichever is less.
func atMost[T Duration | Size | CPUs | uint64](a *applier, name string, value, most, byDefault T, format func(T) string) T {
	switch {
	case most == 0:
	case value < 0 || value > most:
		a.exceeds(name, format(value), format(most))
	case value == 0 && (byDefault == 0 || byDefault > most):
		return most
	case value == 0:
		return byDefault
	}
	return value
}

func (a *applier) exceeds(name, value, most string) {
	a.refuse("limits."+name, "limits."+name, value, "the ceiling is "+most, "ask for "+most+" at most, or leave it out")
}
