package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits bound what the processes of a group, and of groups inside of it, use
// together. Zero fields leave things as they are.
type Limits struct {
	MemoryMax  int64  // bytes (memory.max)
	MemoryHigh int64  // bytes (memory.high)
	SwapMax    *int64 // bytes beside MemoryMax; 0 is none (memory.swap.max)
	// OOMGroup has the kernel end all of the group where it ends one process
	// for want of memory (memory.oom.group).
	OOMGroup bool
	// MilliCPUs is processor time per time, in thousandths of a processor
	// (cpu.max, over periods of 100 ms).
	MilliCPUs int64
	CPUWeight uint64 // from 1 to 10000, 100 is usual (cpu.weight)
	Pids      uint64 // processes and threads (pids.max)
	IO        []IOLimit
}

// IOLimit bounds the use of one block device (io.max). Zero fields bound nothing.
type IOLimit struct {
	Major, Minor        uint32
	ReadBPS, WriteBPS   uint64 // bytes a second
	ReadIOPS, WriteIOPS uint64
}

// cpuPeriod is what cpu.max counts over, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// Set sets limits. It fails with ErrNoController where the group lacks the
// controller that keeps one; a kernel without swap accounting has no swap to
// bound, and 0 is kept there.
func (g *Group) Set(l Limits) error {
	var errs []error
	set := func(file, text string) {
		if err := g.write(file, text); err != nil {
			errs = append(errs, lacking(file, err))
		}
	}
	bytes := func(file string, n int64) {
		if n > 0 {
			set(file, strconv.FormatInt(n, 10))
		}
	}
	bytes("memory.high", l.MemoryHigh)
	bytes("memory.max", l.MemoryMax)
	if l.SwapMax != nil {
		err := g.write("memory.swap.max", strconv.FormatInt(*l.SwapMax, 10))
		if err != nil && (*l.SwapMax > 0 || !errors.Is(err, unix.ENOENT)) {
			errs = append(errs, lacking("memory.swap.max", err))
		}
	}
	if l.OOMGroup {
		set("memory.oom.group", "1")
	}
	if l.MilliCPUs > 0 {
		set("cpu.max", fmt.Sprintf("%d %d", max(l.MilliCPUs*cpuPeriod/1000, 1000), cpuPeriod))
	}
	if l.CPUWeight > 0 {
		set("cpu.weight", strconv.FormatUint(l.CPUWeight, 10))
	}
	if l.Pids > 0 {
		set("pids.max", strconv.FormatUint(l.Pids, 10))
	}
	for _, io := range l.IO {
		set("io.max", io.String())
	}
	return errors.Join(errs...)
}

// String is the limit as io.max takes it.
func (l IOLimit) String() string {
	text := fmt.Sprintf("%d:%d", l.Major, l.Minor)
	for _, v := range []struct {
		key   string
		value uint64
	}{{"rbps", l.ReadBPS}, {"wbps", l.WriteBPS}, {"riops", l.ReadIOPS}, {"wiops", l.WriteIOPS}} {
		if v.value > 0 {
			text += " " + v.key + "=" + strconv.FormatUint(v.value, 10)
		}
	}
	return text
}

// lacking says which controller would have the file, where there is none.
func lacking(file string, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	controller, _, _ := strings.Cut(file, ".")
	return &Error{Op: "set", Object: file, Err: fmt.Errorf("%w: %s", ErrNoController, controller),
		Hint: "hand the " + controller + " controller on to this part of the hierarchy (cgroup.subtree_control of the groups above)"}
}
