// Package descent finds the descendants of a process, and kills them.
//
// The process must be their subreaper (PR_SET_CHILD_SUBREAPER) and wait for all of
// its children. Then every orphan becomes its child, and when wait(2) reports that
// no child exists, no descendant is left. That is the proof; reading /proc in
// between only finds the processes to kill.
package descent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// longestPause is the longest pause between two rounds of killing.
const longestPause = 200 * time.Millisecond

// Process is a process that was found in /proc.
type Process struct {
	PID, Parent int
	State       byte   // a letter of proc(5)
	Born        string // in clock ticks; with the pid it identifies the process
}

// Who returns a text that no other process has.
func (p Process) Who() string { return strconv.Itoa(p.PID) + " " + p.Born }

// Ended reports whether the process has ended.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// Signal sends a signal, unless another process has the pid by now.
func (p Process) Signal(s unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := read(strconv.Itoa(p.PID)); ok && now.Born == p.Born {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// Below lists all descendants of a process.
func Below(pid int) []Process {
	children := map[int][]Process{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, ok := read(name); ok {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ { // it grows
		found = append(found, children[found[i].PID]...)
	}
	return found
}

// maxStat bounds how many bytes of /proc/PID/stat are read. It has two names of 64 bytes
// at most, and 50 numbers.
const maxStat = 2 << 10

// read reads /proc/PID/stat with as few system calls as possible: it must be faster
// than processes can fork. The name in the file, in brackets, may contain anything.
func read(name string) (Process, bool) {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return Process{}, false
	}
	fd, err := unix.Open("/proc/"+name+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, false
	}
	var text [maxStat]byte
	n, err := unix.Read(fd, text[:])
	_ = unix.Close(fd)
	if err != nil || n <= 0 {
		return Process{}, false
	}
	rest := text[bytes.LastIndexByte(text[:n], ')')+1 : n]
	const state, parent, born = 0, 1, 19 // indexes of the fields after the name
	p := Process{PID: pid}
	for i := 0; i <= born; i++ {
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexByte(rest, ' ')
		if end <= 0 {
			return Process{}, false
		}
		switch field := rest[:end]; i {
		case state:
			p.State = field[0]
		case parent:
			if p.Parent, err = strconv.Atoi(string(field)); err != nil {
				return Process{}, false
			}
		case born:
			p.Born = string(field)
		}
		rest = rest[end:]
	}
	return p, true
}

// Reap waits for children until none is left, and calls ended with each.
func Reap(ended func(pid int, status unix.WaitStatus)) {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, unix.WALL, nil); {
		case err == nil:
			ended(pid, status)
		case !errors.Is(err, unix.EINTR):
			return
		}
	}
}

// End kills the processes that living lists until the caller has closed alone, because
// the kernel reports that no child is left, or until ctx ends. It reports whether alone
// was closed. It stops processes before it kills them, since a stopped process starts no
// others.
func End(ctx context.Context, alone <-chan bool, living func() []Process) bool {
	pause, stopped := time.Millisecond, map[string]bool{}
	for {
		for moving := true; moving && ctx.Err() == nil; {
			moving = false
			for _, p := range living() {
				if !stopped[p.Who()] {
					stopped[p.Who()], moving = true, true
					p.Signal(unix.SIGSTOP)
				}
			}
		}
		for _, p := range living() {
			p.Signal(unix.SIGKILL)
		}
		select {
		case <-alone:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(pause): // killed processes take a while to end
			pause = min(2*pause, longestPause)
		}
	}
}
