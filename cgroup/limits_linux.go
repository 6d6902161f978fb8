package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unlimited removes a limit. Reading a limit that is not set returns it, too.
const Unlimited = math.MaxInt64

// Limits bound what the processes of a group, and of groups inside of it, use
// together. Zero fields change nothing; Unlimited removes a limit.
type Limits struct {
	// MemoryMax is in bytes: beyond it, the kernel kills processes (memory.max).
	// Above MemoryHigh it slows them down and reclaims memory (memory.high).
	MemoryMax  int64 `json:"memory_max,omitempty"`
	MemoryHigh int64 `json:"memory_high,omitempty"`
	// SwapMax is in bytes, in addition to MemoryMax; 0 allows none (memory.swap.max).
	SwapMax *int64 `json:"swap_max,omitempty"`
	// OOMGroup makes the kernel kill the whole group when it kills one process
	// because memory ran out (memory.oom.group).
	OOMGroup bool `json:"oom_group,omitempty"`
	// MilliCPUs is how much processor time may be used, in thousandths of a
	// processor (cpu.max, over periods of 100 ms).
	MilliCPUs int64     `json:"milli_cpus,omitempty"`
	CPUWeight uint64    `json:"cpu_weight,omitempty"` // from 1 to 10000, the default is 100 (cpu.weight)
	Pids      uint64    `json:"pids,omitempty"`       // processes and threads (pids.max)
	IO        []IOLimit `json:"io,omitempty"`
}

// IOLimit bounds the use of one block device (io.max). Zero fields set no bound.
type IOLimit struct {
	Major     uint32 `json:"major"`
	Minor     uint32 `json:"minor"`
	ReadBPS   uint64 `json:"read_bps,omitempty"` // bytes a second
	WriteBPS  uint64 `json:"write_bps,omitempty"`
	ReadIOPS  uint64 `json:"read_iops,omitempty"`
	WriteIOPS uint64 `json:"write_iops,omitempty"`
}

const (
	cpuPeriod = 100_000 // the period of cpu.max, in microseconds: the kernel's default
	leastCPU  = 1_000   // the smallest quota that the kernel accepts, in microseconds
)

// setting is one limit, in one file.
type setting struct {
	file, text string
	// kept reports whether the file's content is the limit, perhaps rounded down to
	// whole pages.
	kept func(text string) bool
}

// Set sets limits, and checks that the kernel accepted them. If the group lacks a
// controller for one of them, it sets none and fails with ErrNoController. On a
// kernel without swap accounting, which has no swap to bound, a SwapMax of 0 is
// not an error.
func (g *Group) Set(l Limits) error {
	settings := l.settings()
	if len(settings) == 0 {
		return nil
	}
	have, err := g.Controllers()
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range settings {
		if c, _, _ := strings.Cut(s.file, "."); !slices.Contains(have, c) {
			errs = append(errs, &Error{Op: "set", Object: s.file, Err: fmt.Errorf("%w: %s", ErrNoController, c),
				Hint: "delegate the " + c + " controller to this part of the hierarchy (cgroup.subtree_control of the groups above)"})
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	for _, s := range settings {
		err := g.write(s.file, s.text)
		if s.file == "memory.swap.max" && s.text == "0" && errors.Is(err, unix.ENOENT) {
			continue
		}
		var text string
		if err == nil {
			text, err = g.read(s.file)
		}
		if err == nil && !s.kept(text) {
			err = g.fail("set", s.file, fmt.Errorf("the kernel changed %q to %q", s.text, strings.TrimSpace(text)))
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// settings returns the settings for all limits that are not zero.
func (l *Limits) settings() []setting {
	var all []setting
	add := func(file string, n int64, step int64) {
		all = append(all, setting{file, limitText(n), func(text string) bool {
			now, ok := parseLimit(text)
			return ok && now <= n && n-now < step
		}})
	}
	page := int64(unix.Getpagesize())
	for _, s := range []struct {
		file    string
		n, step int64
	}{
		{"memory.high", l.MemoryHigh, page},
		{"memory.max", l.MemoryMax, page},
		{"cpu.weight", clamp(l.CPUWeight), 1},
		{"pids.max", clamp(l.Pids), 1},
	} {
		if s.n != 0 { // the kernel refuses negative values
			add(s.file, s.n, s.step)
		}
	}
	if l.SwapMax != nil {
		add("memory.swap.max", *l.SwapMax, page)
	}
	if l.OOMGroup {
		add("memory.oom.group", 1, 1)
	}
	if l.MilliCPUs != 0 {
		quota := l.MilliCPUs
		if quota > 0 && quota != Unlimited {
			quota = max(quota*(cpuPeriod/1000), leastCPU)
		}
		want := limitText(quota) + " " + strconv.Itoa(cpuPeriod)
		all = append(all, setting{"cpu.max", want, func(text string) bool { return strings.TrimSpace(text) == want }})
	}
	for _, limit := range l.IO {
		all = append(all, setting{"io.max", limit.String(), limit.kept})
	}
	return all
}

// clamp turns a number that the kernel cannot count into Unlimited.
func clamp(n uint64) int64 { return int64(min(n, Unlimited)) }

// limitText returns a limit in the format of the files.
func limitText(n int64) string {
	if n == Unlimited {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// parseLimit parses a number or "max".
func parseLimit(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return Unlimited, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Limits returns the limits of this group; those of the groups above also apply.
// A field is zero or nil if the group lacks its controller, and Unlimited if no
// limit is set.
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

// cpus reads "QUOTA PERIOD" and returns thousandths of a processor.
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

// ioLimits reads the limits of all devices.
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

// device returns the device as files name it.
func (l *IOLimit) device() string { return fmt.Sprintf("%d:%d", l.Major, l.Minor) }

// ioField is one field of an IOLimit, with its name in io.max.
type ioField struct {
	key   string
	value *uint64
}

func (l *IOLimit) fields() []ioField {
	return []ioField{{"rbps", &l.ReadBPS}, {"wbps", &l.WriteBPS}, {"riops", &l.ReadIOPS}, {"wiops", &l.WriteIOPS}}
}

// String returns the limit as it is written to io.max.
func (l IOLimit) String() string {
	text := l.device()
	for _, f := range l.fields() {
		if *f.value > 0 {
			text += " " + f.key + "=" + limitText(clamp(*f.value))
		}
	}
	return text
}

// kept reports whether the content of io.max has the limit.
func (l IOLimit) kept(text string) bool {
	var now IOLimit
	for line := range strings.Lines(text) {
		if dev, rest, _ := strings.Cut(line, " "); dev == l.device() {
			now.parse(rest)
		}
	}
	have := now.fields()
	for i, f := range l.fields() {
		unlimited := *f.value >= Unlimited && *have[i].value == 0
		if *f.value > 0 && *f.value != *have[i].value && !unlimited {
			return false
		}
	}
	return true
}

// parse reads "rbps=1 wbps=max …", where "max" means no limit.
func (l *IOLimit) parse(text string) {
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		for _, f := range l.fields() {
			if f.key == key {
				*f.value = n
			}
		}
	}
}
