package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// self returns this process, or nil if /proc does not tell.
var self = sync.OnceValue(func() *Process {
	p := &Process{PID: os.Getpid(), Boot: boot(), Namespace: pidNamespace()}
	start, err := startOf(p.PID)
	if err != nil || p.Boot == "" || p.Namespace == 0 {
		return nil
	}
	p.Start = start
	return p
})

// boot returns the boot ID, which is new each time the machine starts.
var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// pidNamespace returns the inode of the PID namespace, or 0 if /proc does not tell.
var pidNamespace = sync.OnceValue(func() uint64 {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
})

// startOf returns when a process started, in clock ticks since boot.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The command name, in parentheses, may hold any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const started = 22 - 3 // the index among the fields after the name
	if len(fields) <= started || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(string(fields[started]), 10, 64)
}

// state returns the state of the process.
func (p *Process) state() int {
	switch now := boot(); {
	case p.Boot != now && now != "":
		return processGone
	case p.Namespace != pidNamespace():
		return processUnknown
	}
	start, err := startOf(p.PID)
	switch {
	case err == nil && start == p.Start:
		return processRuns
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return processGone
	}
	return processUnknown
}
