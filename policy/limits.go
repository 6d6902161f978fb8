package policy

import (
	"errors"
	"iter"
	"math"
	"reflect"
	"strconv"
	"time"
)

// Limits bound what commands may use. Zero means the default, or no limit if there
// is no default. [Spec.Resolve] refuses what is outside the bounds given here.
type Limits struct {
	// Timeout ends a command, with everything it started. From 1ms to 7 days
	// (168h); no default.
	Timeout Duration `json:"timeout,omitempty"`
	// MaxTimeout is the most that Timeout may be, and its default; an operation
	// that takes a timeout of its own cuts it to this. Bounds as for Timeout; no
	// default.
	MaxTimeout Duration `json:"max_timeout,omitempty"`
	// Output bounds what is kept of each captured stream. At most 1 GiB,
	// since it is kept in memory; default 1 MiB.
	Output Size `json:"output,omitempty"`
	// CPUTime bounds the CPU time of each process (RLIMIT_CPU). From 1s to a
	// year (8760h), rounded up to whole seconds, the kernel's unit; no default.
	CPUTime Duration `json:"cpu_time,omitempty"`
	// FileSize bounds each file written (RLIMIT_FSIZE). No default.
	FileSize Size `json:"file_size,omitempty"`
	// OpenFiles bounds the descriptors of each process (RLIMIT_NOFILE). From
	// 16, with which a shell and its pipes work, to 1048576, the kernel's own
	// bound; no default.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Processes bounds the processes and threads of all commands together
	// (pids.max) or, if the host has no such controller, of the sandbox's user
	// (RLIMIT_NPROC). The latter, and container engines, count the agent's own
	// threads too: the wall leaves room for them beside what is written here, so that
	// with RLIMIT_NPROC commands can have up to ten more.
	// At the landlock level without controllers it counts all that the user runs
	// on the host.
	// From 4 to 4194304, the kernel's own bound; default 4096.
	Processes uint64 `json:"processes,omitempty"`
	// Tmp bounds /tmp, HOME and /dev/shm, each. At least 1 MiB; default 1 GiB.
	Tmp Size `json:"tmp,omitempty"`
	// Memory bounds what all commands use together, files in /tmp and HOME
	// included (memory.max): beyond it the kernel ends one command with all it
	// started. From 4 MiB to what the host has; no default.
	Memory Size `json:"memory,omitempty"`
	// MemoryHigh is the use of memory beyond which commands are slowed down and
	// pressed to give memory back (memory.high). From 4 MiB to Memory; no default.
	MemoryHigh Size `json:"memory_high,omitempty"`
	// Swap is how much of the memory may lie in swap, beside Memory
	// (memory.swap.max). It needs Memory; default 0.
	Swap Size `json:"swap,omitempty" zero:"ok"`
	// CPUs bounds the processor time of all commands per time (cpu.max). From
	// 0.01 to what the host has; no default.
	CPUs CPUs `json:"cpus,omitempty"`
	// Disk bounds what the workspace of mode "copy" may hold. At least 1 MiB;
	// default 1 GiB. A workspace of mode "bind" has no bound of its own.
	Disk Size `json:"disk,omitempty"`
}

// LimitFields are the fields of [Limits] as input of an operation: nil leaves the
// spec's own value alone. Each has the name of a field of Limits.
type LimitFields struct {
	Timeout    *Duration `json:"timeout,omitempty" flag:"timeout" arg:"DUR" help:"kill the command and all it started after this time, 90s or 1h30m (default: never; in a server a command of run has 2m)"`
	Output     *Size     `json:"max_output,omitempty" flag:"max-output" arg:"SIZE" help:"bound each output stream: with --json its head and tail are kept (default: 1MiB), else its head is passed on (default: no bound)"`
	CPUTime    *Duration `json:"cpu_time,omitempty" flag:"cpu-time" arg:"DUR" help:"CPU time of each process, in whole seconds"`
	FileSize   *Size     `json:"file_size,omitempty" flag:"file-size" arg:"SIZE" help:"largest file that can be written"`
	OpenFiles  *uint64   `json:"open_files,omitempty" flag:"open-files" arg:"N" help:"open files of each process"`
	Processes  *uint64   `json:"processes,omitempty" flag:"processes" arg:"N" help:"processes and threads of the sandbox's user (default 4096)"`
	Tmp        *Size     `json:"tmp,omitempty" flag:"tmp" arg:"SIZE" help:"size of /tmp, of the home and of /dev/shm, each (default: 1GiB)"`
	Memory     *Size     `json:"memory,omitempty" flag:"memory" arg:"SIZE" help:"memory of all commands together, files in /tmp included"`
	MemoryHigh *Size     `json:"memory_high,omitempty" flag:"memory-high" arg:"SIZE" help:"memory beyond which commands are slowed down"`
	Swap       *Size     `json:"swap,omitempty" flag:"swap" arg:"SIZE" help:"swap beside --memory (default: 0)"`
	CPUs       *CPUs     `json:"cpus,omitempty" flag:"cpus" arg:"N" help:"processors' time that all commands together may use, 1.5 say"`
	Disk       *Size     `json:"disk,omitempty" flag:"disk" arg:"SIZE" help:"size of a workspace of mode copy (default: 1GiB)"`
}

// limitRow is a row of the table of limits.
type limitRow struct {
	field string // of Limits
	name  string // in a spec, behind "limits."
	// least and most bound a value that is not 0.
	least, most int64
	// byDefault applies if nothing is written; 0 is no limit. That of disk is for
	// workspaces of mode copy alone.
	byDefault int64
	// zero says that LimitFields may hold 0, which takes a spec's limit away.
	zero bool
	by   map[string]Support
}

// limitTable returns the table of limits, a row for each field of [Limits] in its order.
func limitTable() []limitRow {
	const (
		large  = math.MaxInt64
		remedy = "use backend linux or docker"
		week   = int64(7 * 24 * time.Hour)
		year   = int64(365 * 24 * time.Hour)
	)
	unbounded := func(what string) map[string]Support {
		return others(Support{Reason: "this backend cannot bound " + what, Remedy: remedy}, BackendLinux, BackendDocker)
	}
	inPart := func(what, word string) map[string]Support {
		return others(Support{Reason: "this backend bounds " + what, Remedy: remedy + ", or allow it: `allow_degraded`=" + word, Allow: word},
			BackendLinux, BackendDocker)
	}
	high := with(unbounded("it"), BackendDocker, Support{Reason: "engines have no such limit", Remedy: "use `limits.memory`"})
	return []limitRow{
		{field: "Timeout", name: "timeout", least: int64(time.Millisecond), most: week, zero: true},
		{field: "MaxTimeout", name: "max_timeout", least: int64(time.Millisecond), most: week},
		{field: "Output", name: "output", least: 1, most: int64(GiB), byDefault: int64(DefaultOutput), zero: true},
		{field: "CPUTime", name: "cpu_time", least: int64(time.Second), most: year},
		{field: "FileSize", name: "file_size", least: 1, most: large},
		{field: "OpenFiles", name: "open_files", least: 16, most: 1 << 20},
		{field: "Processes", name: "processes", least: 4, most: 1 << 22, byDefault: DefaultProcesses, by: inPart("the processes of all that its user runs", DegradeProcesses)},
		{field: "Tmp", name: "tmp", least: int64(MiB), most: large, byDefault: int64(DefaultTmp), by: unbounded("temporary files")},
		{field: "Memory", name: "memory", least: int64(4 * MiB), most: large, by: inPart("the memory of each process alone", DegradeMemory)},
		{field: "MemoryHigh", name: "memory_high", least: int64(4 * MiB), most: large, by: high},
		{field: "Swap", name: "swap", most: large, zero: true, by: unbounded("the use of swap")},
		{field: "CPUs", name: "cpus", least: 10, most: large, by: unbounded("the use of processors")}, // 0.01 of one
		{field: "Disk", name: "disk", least: int64(MiB), most: large, byDefault: int64(DefaultDisk), by: unbounded("a directory")},
	}
}

// of returns the row's value in l, and setting it sets that of l.
func (row limitRow) of(l *Limits) limitValue {
	return limitValue{reflect.ValueOf(l).Elem().FieldByName(row.field)}
}

// limitValue is one limit: a [Duration], [Size], [CPUs] or a count.
type limitValue struct{ v reflect.Value }

// int64 returns the number; a count beyond what fits is the largest that does.
func (v limitValue) int64() int64 {
	if v.v.CanUint() {
		return int64(min(v.v.Uint(), math.MaxInt64))
	}
	return v.v.Int()
}

func (v limitValue) set(n int64) {
	if v.v.CanUint() {
		v.v.SetUint(uint64(n))
		return
	}
	v.v.SetInt(n)
}

// String returns the limit in its own notation.
func (v limitValue) String() string {
	if s, ok := v.v.Interface().(interface{ String() string }); ok {
		return s.String()
	}
	return strconv.FormatUint(v.v.Uint(), 10)
}

// like returns n in the notation of v.
func (v limitValue) like(n int64) string {
	other := limitValue{reflect.New(v.v.Type()).Elem()}
	other.set(n)
	return other.String()
}

// Written yields each limit that is not 0 by its name in a spec, with the default beside a limit
// that is above it.
func (l Limits) Written() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, row := range limitTable() {
			v := row.of(&l)
			n, value := v.int64(), v.String()
			if row.byDefault != 0 && n > row.byDefault {
				value += ", above the default of " + v.like(row.byDefault)
			}
			if n != 0 && !yield(row.name, value) {
				return
			}
		}
	}
}

// limitFields returns the rows of [Fields] for limits.
func limitFields() []FieldRow {
	table := limitTable()
	rows := make([]FieldRow, len(table))
	for i, row := range table {
		field := "limits." + row.name
		rows[i] = FieldRow{Field: field, By: row.by, written: text(field, func(s Spec) string {
			if v := row.of(&s.Limits); v.int64() != 0 {
				return v.String()
			}
			return ""
		})}
	}
	return rows
}

// Over overrides the limits with those that are present. A 0 that can only be a
// mistake is a [*FieldError].
func (f LimitFields) Over(l *Limits) error {
	var r resolver
	for _, row := range limitTable() {
		given := reflect.ValueOf(f).FieldByName(row.field)
		if !given.IsValid() || given.IsNil() {
			continue
		}
		if given.Elem().IsZero() && !row.zero {
			r.refuse(row.name, "0", "0 would count as not given", "leave it out for the default")
			continue
		}
		row.of(l).v.Set(given.Elem())
	}
	return errors.Join(r.errs...)
}

// limits fills in defaults and checks each limit that is set against its bounds.
func (r *resolver) limits(l Limits) Limits {
	for _, row := range limitTable() {
		v, field := row.of(&l), "limits."+row.name
		if v.int64() == 0 && row.byDefault != 0 && row.name != "disk" && r.keeps(field) {
			v.set(row.byDefault)
		}
		switch n := v.int64(); {
		case n < 0:
			r.refuse(field, v.String(), "it must not be negative", "")
		case n != 0 && n < row.least:
			r.refuse(field, v.String(), "it is less than "+v.like(row.least), "")
		case n > row.most:
			r.refuse(field, v.String(), "it is more than "+v.like(row.most), "")
		case row.name == "max_timeout" && l.Timeout == 0:
			l.Timeout = l.MaxTimeout
		case row.name == "cpu_time":
			l.CPUTime = wholeSeconds(l.CPUTime)
		}
	}
	return l
}

// wholeSeconds rounds up: a limit is never stricter than what was written.
func wholeSeconds(d Duration) Duration {
	const second = Duration(time.Second)
	return (d + second - 1) / second * second
}

// memory refuses limits of memory that contradict each other.
func (r *resolver) memory(l Limits) {
	if l.MemoryHigh > 0 && l.Memory > 0 && l.MemoryHigh > l.Memory {
		r.refuse("limits.memory_high", l.MemoryHigh.String(), "it is more than limits.memory, "+l.Memory.String(), "")
	}
	if l.Swap > 0 && l.Memory == 0 {
		r.refuse("limits.swap", l.Swap.String(), "it is beside limits.memory, which is not given", "give `limits.memory` too")
	}
}

// limits fills in the ceiling's maxima where the spec leaves a limit open, and
// refuses what exceeds them.
func (a *applier) limits(l Limits, copied bool) Limits {
	c := a.c.Limits
	// Both are rounded up to whole seconds before they are kept.
	l.CPUTime, c.CPUTime = wholeSeconds(l.CPUTime), wholeSeconds(c.CPUTime)
	for _, row := range limitTable() {
		value, most := row.of(&l), row.of(&c)
		n, m := value.int64(), most.int64()
		if m == 0 {
			m = row.byDefault
		}
		switch row.name {
		case "max_timeout":
			continue
		case "disk":
			if !copied && n == 0 {
				continue
			}
		case "memory_high": // never filled in
			if m == 0 {
				m = int64(c.Memory)
			}
			if n == 0 {
				continue
			}
		case "swap": // 0 of it is the least there is, where memory is bounded
			if c.Memory == 0 && m == 0 {
				continue
			}
			if n < 0 || n > m {
				a.exceeds(row.name, value.String(), most.String())
			}
			continue
		}
		switch {
		case m == 0:
		case n < 0 || n > m:
			a.exceeds(row.name, value.String(), value.like(m))
		case n == 0 && row.byDefault == m: // as without a ceiling: a backend that has no such limit leaves it out
		case n == 0 && (row.byDefault == 0 || row.byDefault > m):
			value.set(m)
		case n == 0:
			value.set(row.byDefault)
		}
	}
	return l
}

// explicit returns the limits with the default for each that has one and is left out.
func (l Limits) explicit() Limits {
	for _, row := range limitTable() {
		if v := row.of(&l); v.int64() == 0 {
			v.set(row.byDefault)
		}
	}
	return l
}

// exceeds refuses a limit that is more than the ceiling allows.
func (a *applier) exceeds(name, value, most string) {
	a.refuse("limits."+name, "limits."+name, value, "the ceiling is "+most, "ask for "+most+" at most, or leave it out")
}
