//go:build linux

package state

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Alive says whether the process that had this pid and start time lives.
func Alive(pid int, start uint64) bool {
	now, err := StartTime(pid)
	return err == nil && now == start
}

// StartTime is field 22 of /proc/PID/stat (proc_pid_stat(5)): with the pid it
// tells a process from every other.
func StartTime(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const afterName = 22 - 2 // the name, in parentheses, may contain anything
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < afterName {
		return 0, errors.New("cannot parse /proc/PID/stat")
	}
	return strconv.ParseUint(fields[afterName-1], 10, 64)
}
