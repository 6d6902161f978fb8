package cgroup

import (
	"errors"
	"strconv"
	"strings"
)

// Limits reads which limits the kernel keeps for this very group; those of
// the groups above hold besides. A zero field, or a nil one, says that the group lacks
// the controller, Unlimited that it sets no limit.
func (g *Group) Limits() (Limits, error) {
	r := reader{group: g}
	l := Limits{
		MemoryMax: r.limit("memory.max"), MemoryHigh: r.limit("memory.high"), OOMGroup: r.limit("memory.oom.group") == 1,
		MilliCPUs: r.cpus(), CPUWeight: uint64(r.limit("cpu.weight")), Pids: uint64(r.limit("pids.max")), IO: r.ioLimits(),
	}
	if text, ok := r.read("memory.swap.max"); ok {
		if n, ok := parseLimit(text); ok {
			l.SwapMax = &n
		}
	}
	return l, r.err
}

// limit reads a file that holds one number or "max".
func (r *reader) limit(file string) int64 {
	text, ok := r.read(file)
	n, parsed := parseLimit(text)
	if ok && !parsed {
		r.malformed(file, text)
	}
	return n
}

// cpus reads "QUOTA PERIOD", in thousandths.
func (r *reader) cpus() int64 {
	text, ok := r.read("cpu.max")
	if !ok {
		return 0
	}
	quota, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, ok := parseLimit(quota)
	period, err := strconv.ParseInt(rest, 10, 64)
	if !ok || err != nil || period <= 0 {
		r.malformed("cpu.max", text)
		return 0
	}
	if n == Unlimited {
		return n
	}
	return int64(float64(n) / float64(period) * 1000)
}

func (r *reader) ioLimits() []IOLimit {
	text, _ := r.read("io.max")
	var all []IOLimit
	for line := range strings.Lines(text) {
		var l IOLimit
		dev, rest, _ := strings.Cut(line, " ")
		major, minor, _ := strings.Cut(dev, ":")
		a, err1 := strconv.ParseUint(major, 10, 32)
		b, err2 := strconv.ParseUint(minor, 10, 32)
		if errors.Join(err1, err2) != nil {
			continue
		}
		l.Major, l.Minor = uint32(a), uint32(b)
		l.parse(rest)
		all = append(all, l)
	}
	return all
}
