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

// self is this process, nil where /proc does not tell.
var self = sync.OnceValue(func() *Process {
	p := &Process{PID: os.Getpid(), Boot: boot(), Namespace: pidNamespace()}
	start, err := startOf(p.PID)
	if err != nil || p.Boot == "" || p.Namespace == 0 {
		return nil
	}
	p.Start = start
	return p
})

// boot is the number that this start of the machine has.
var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// pidNamespace is the inode of the namespace, 0 where /proc does not tell.
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

// startOf is when a process started, in ticks since the machine did.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const started = 22 - 3 // of the fields behind the name
	if len(fields) <= started || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(string(fields[started]), 10, 64)
}

// state looks at a process that a record or a mark names.
func (p *Process) state() int {
	switch now := boot(); {
	case p.Boot != now && now != "":
		return processGone
	case p.Namespace != pidNamespace():
		return processElsewhere
	}
	start, err := startOf(p.PID)
	switch {
	case err == nil && start == p.Start:
		return processRuns
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return processGone
	}
	return processElsewhere
}
