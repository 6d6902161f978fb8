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

// Unlimited lifts a limit, and is read where there is none.
const Unlimited = math.MaxInt64

// Limits bound what the processes of a group, and of groups inside of it, use
// together. Zero fields leave things as they are; Unlimited lifts a limit.
type Limits struct {
	// MemoryMax is in bytes: beyond it, processes are killed (memory.max). Above
	// MemoryHigh they are slowed down while memory is reclaimed (memory.high).
	MemoryMax  int64 `json:"memory_max,omitempty"`
	MemoryHigh int64 `json:"memory_high,omitempty"`
	// SwapMax is in bytes beside MemoryMax; 0 is none (memory.swap.max).
	SwapMax *int64 `json:"swap_max,omitempty"`
	// OOMGroup has the kernel end all of the group where it ends one process
	// for want of memory (memory.oom.group).
	OOMGroup bool `json:"oom_group,omitempty"`
	// MilliCPUs is processor time per time, in thousandths of a processor
	// (cpu.max, over periods of 100 ms).
	MilliCPUs int64     `json:"milli_cpus,omitempty"`
	CPUWeight uint64    `json:"cpu_weight,omitempty"` // from 1 to 10000, 100 is usual (cpu.weight)
	Pids      uint64    `json:"pids,omitempty"`       // processes and threads (pids.max)
	IO        []IOLimit `json:"io,omitempty"`
}

// IOLimit bounds the use of one block device (io.max). Zero fields bound nothing.
type IOLimit struct {
	Major     uint32 `json:"major"`
	Minor     uint32 `json:"minor"`
	ReadBPS   uint64 `json:"read_bps,omitempty"` // bytes a second
	WriteBPS  uint64 `json:"write_bps,omitempty"`
	ReadIOPS  uint64 `json:"read_iops,omitempty"`
	WriteIOPS uint64 `json:"write_iops,omitempty"`
}

const (
	// cpuPeriod is what cpu.max counts over, in microseconds: the kernel's default.
	cpuPeriod = 100_000
	leastCPU  = 1_000 // of it, below which the kernel takes nothing
)

// setting is one limit, in one file.
type setting struct {
	file, text string
	// kept says whether the file holds the limit now, when rounded down to whole pages.
	kept func(text string) bool
}

func (s *setting) controller() string {
	name, _, _ := strings.Cut(s.file, ".")
	return name
}

// Set sets limits, and looks whether the kernel keeps them. Where the group lacks
// the controller that keeps one it sets none, and fails with ErrNoController.
// A kernel without swap accounting has no swap to bound, and 0 is kept there.
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
		if c := s.controller(); !slices.Contains(have, c) {
			errs = append(errs, g.lacking(s.file, c))
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	for _, s := range settings {
		if err := g.set(&s); err != nil && !s.needless(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (g *Group) set(s *setting) error {
	if err := g.write(s.file, s.text); err != nil {
		return err
	}
	text, err := g.read(s.file)
	if err == nil && !s.kept(text) {
		err = g.fail("set", s.file, fmt.Errorf("the kernel made %q of %q", strings.TrimSpace(text), s.text))
	}
	return err
}

// needless says that nothing was to be bounded: there is no swap.
func (s *setting) needless(err error) bool {
	return s.file == "memory.swap.max" && s.text == "0" && errors.Is(err, unix.ENOENT)
}

// lacking says which controller would have the file.
func (g *Group) lacking(file, controller string) error {
	e := &Error{Op: "set", Object: file, Err: fmt.Errorf("%w: %s", ErrNoController, controller)}
	e.Hint = "hand the " + controller + " controller on to this part of the hierarchy (cgroup.subtree_control of the groups above)"
	return e
}

// settings are what l asks for.
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
		if s.n != 0 { // the kernel refuses what is negative
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
		all = append(all, cpuSetting(l.MilliCPUs))
	}
	for _, limit := range l.IO {
		all = append(all, setting{"io.max", limit.String(), limit.kept})
	}
	return all
}

// clamp makes what no kernel can count unlimited.
func clamp(n uint64) int64 { return int64(min(n, Unlimited)) }

func cpuSetting(milli int64) setting {
	quota := milli
	if milli > 0 && milli != Unlimited {
		quota = max(milli*(cpuPeriod/1000), leastCPU)
	}
	want := limitText(quota) + " " + strconv.Itoa(cpuPeriod)
	return setting{"cpu.max", want, func(text string) bool { return strings.TrimSpace(text) == want }}
}

func limitText(n int64) string {
	if n == Unlimited {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func parseLimit(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return Unlimited, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
