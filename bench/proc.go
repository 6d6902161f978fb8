//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is one process of the host, as /proc tells it.
type process struct {
	pid, parent int
	argv        string // separated by spaces
}

// processes are all that the host has now. Those that end while it looks are
// left out.
func processes() []process {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(path + "/cmdline")
		if err != nil {
			continue
		}
		argv := string(bytes.ReplaceAll(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0}, []byte{' '}))
		all = append(all, process{pid, int(statusField(pid, "PPid")), argv})
	}
	return all
}

// withArgv are the processes whose whole command line is this.
func withArgv(argv string) (pids []int) {
	for _, p := range processes() {
		if p.argv == argv {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// agentOf is the pid of the agent that a paddock process has started, 0
// while there is none.
func agentOf(pid int) int {
	for _, p := range processes() {
		if p.parent == pid && strings.HasPrefix(p.argv, "paddock-agent") {
			return p.pid
		}
	}
	return 0
}

// peak is the largest resident set that a process has had since it was
// executed, in bytes, and 0 once it has ended. Unlike the rusage of a child it
// does not hold what the parent had before the exec.
func peak(pid int) int64 { return statusField(pid, "VmHWM") << 10 }

// statusField is a number of /proc/PID/status; memory is in KiB there.
func statusField(pid int, name string) int64 {
	return fileNumber(fmt.Sprintf("/proc/%d/status", pid), name)
}

// fileNumber returns the number after a name and a colon in a file of /proc, or 0.
func fileNumber(path, name string) int64 {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}

// processorTime is what all threads of a process have used of the processors, to a tick of the
// kernel's clock.
func processorTime(pid int) time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(data), ") ") // its name is before that
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100
	return time.Duration(user+system) * tick
}
