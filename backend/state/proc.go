//go:build linux

package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Alive reports whether the process with this pid and start time lives, be it as a zombie.
func Alive(pid int, start uint64) bool {
	_, _, now, err := stat(pid)
	return err == nil && now == start
}

// Works reports whether the process with this pid and start time lives and has not ended.
func Works(pid int, start uint64) bool {
	letter, _, now, err := stat(pid)
	return err == nil && now == start && letter != 'Z'
}

// Process is a process of this host, told from later ones with its pid.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // its start time
}

// Works reports whether it lives and has not ended.
func (p Process) Works() bool { return Works(p.PID, p.Start) }

// IsStopped reports whether a signal such as SIGSTOP has stopped it.
func (p Process) IsStopped() bool {
	letter, _, now, err := stat(p.PID)
	return err == nil && now == p.Start && (letter == 'T' || letter == 't')
}

// End is [EndProcess].
func (p Process) End() (ended bool) { return EndProcess(p.PID, p.Start) }

// StartTime returns the start time of a process. Together with the pid it identifies the process.
func StartTime(pid int) (uint64, error) {
	_, _, start, err := stat(pid)
	return start, err
}

// stat reads the state of a process, a letter, its parent and its start time, fields 3, 4 and 22
// of /proc/PID/stat (proc_pid_stat(5)).
func stat(pid int) (letter byte, parent int, start uint64, err error) {
	text, err := readProc(fmt.Sprintf("/proc/%d/stat", pid), 1<<10)
	if err != nil {
		return 0, 0, 0, err
	}
	const afterName = 22 - 2 // the name, in parentheses, may contain anything
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < afterName {
		return 0, 0, 0, errors.New("cannot parse /proc/PID/stat")
	}
	parent, err = strconv.Atoi(fields[1])
	start, startErr := strconv.ParseUint(fields[afterName-1], 10, 64)
	return fields[0][0], parent, start, errors.Join(err, startErr)
}

// ReadProc reads a whole file of /proc, as os.ReadFile does, but mostly in one call: the
// kernel makes the text anew for each read, and the runtime's poller cannot wait for
// such files.
func ReadProc(file string) ([]byte, error) { return readProc(file, 16<<10) }

// readProc reads a file of /proc that mostly has less than size bytes.
func readProc(file string, size int) ([]byte, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	buf, n := make([]byte, size), 0
	for {
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: file, Err: err}
		case m == 0:
			return buf[:n], nil
		}
		if n += max(m, 0); n == len(buf) {
			buf = slices.Grow(buf, n)[:2*n]
		}
	}
}

// ReadStatus reads the fields of a status file of /proc (proc_pid_status(5)), by their
// names.
func ReadStatus(file string) (map[string]string, error) {
	text, err := ReadProc(file)
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	if len(status) == 0 {
		return nil, errors.New("it is empty")
	}
	return status, nil
}

// namespaceFiles are the kinds of namespaces, as policy.Isolation and confine.Plan name
// them, and their files in /proc/PID/ns.
var namespaceFiles = []struct{ kind, file string }{
	{"user", "user"}, {"mount", "mnt"}, {"pid", "pid"}, {"ipc", "ipc"}, {"uts", "uts"}, {"net", "net"}, {"cgroup", "cgroup"},
}

// OwnNamespaces returns the kinds of namespaces that a process does not share with this
// one. If some cannot be read, it returns the others and an error.
func OwnNamespaces(pid int) (own []string, err error) {
	own = []string{}
	for _, ns := range namespaceFiles {
		theirs, terr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.file))
		ours, oerr := os.Readlink("/proc/self/ns/" + ns.file)
		switch {
		case terr != nil || oerr != nil:
			err = errors.Join(err, terr, oerr)
		case theirs != ours:
			own = append(own, ns.kind)
		}
	}
	return own, err
}
