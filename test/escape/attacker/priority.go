//go:build linux

package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks that starve a process, args[0], or take what it needs. None changes
// anything where it succeeds: what is set is what is there already, which asks
// for the same right.
var _ = register(map[string]attack{
	"prlimit":     onPid(prlimit),
	"affinity":    onPid(affinity),
	"scheduler":   onPid(setScheduler),
	"sched-attr":  onPid(schedAttr),
	"priority":    onPid(func(pid int) error { return priority(unix.PRIO_PROCESS, pid) }),
	"ioprio":      onPid(func(pid int) error { return second(call(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 0)) }),
	"timer-slack": only(func(args []string) error { return os.WriteFile("/proc/"+args[0]+"/timerslack_ns", []byte("50000"), 0) }),
	"oom-score":   only(func(args []string) error { return openFor([]string{"/proc/" + args[0] + "/oom_score_adj", "w"}) }),
	"autogroup":   only(func(args []string) error { return openFor([]string{"/proc/" + args[0] + "/autogroup", "w"}) }),
	"nice-user":   only(func([]string) error { return unix.Setpriority(unix.PRIO_USER, 0, 19) }),
	"ioprio-user": raw(unix.SYS_IOPRIO_SET, 3, uintptr(os.Getuid()), 0),
	"nice-group":  onPid(func(pid int) error { return group(pid, func(pgid int) error { return priority(unix.PRIO_PGRP, pgid) }) }),
})

func prlimit(pid int) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &old); err != nil {
		return fmt.Errorf("look: %w", err)
	}
	return unix.Prlimit(pid, unix.RLIMIT_CPU, &old, nil)
}

func affinity(pid int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return err
	}
	return unix.SchedSetaffinity(pid, &set)
}

func setScheduler(pid int) error {
	param := int32(0)
	return second(call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_NORMAL, uintptr(unsafe.Pointer(&param))))
}

func schedAttr(pid int) error {
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return err
	}
	return unix.SchedSetAttr(pid, attr, 0)
}

// priority sets the niceness that is there. The system call gives 20 less it.
func priority(which, who int) error {
	biased, err := unix.Getpriority(which, who)
	if err != nil {
		return err
	}
	return unix.Setpriority(which, who, 20-biased)
}
