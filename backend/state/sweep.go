//go:build linux

package state

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settle is how long a directory whose lock is free may belong to a process
	// that has not taken the lock yet.
	settle = 10 * time.Second
	// cleanupTime is how long each clean-up command may take.
	cleanupTime = 10 * time.Second
	// cleanupPause is how long a sandbox is left alone if its clean-up commands
	// could not be run, so that not every start waits for them.
	cleanupPause = time.Minute
)

// Sweeper removes what a sandbox whose owner is dead has outside of its directory.
// path is the directory, and r its record, nil if that was not written. It reports
// whether the directory can be removed.
type Sweeper func(path string, r *Record) bool

// Sweep removes what killed processes left below root. It ends sandboxes with a
// keeper itself; sweeper ends the others, which stay if it is nil. Directories that
// no backend has made stay too: see [Refused].
func Sweep(root string, sweeper Sweeper) {
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return // New refuses to start
	}
	defer dir.Close()
	for _, path := range paths(root) {
		recorded := Exists(filepath.Join(path, recordName))
		if info, err := os.Lstat(path); err != nil || !recorded && (time.Since(info.ModTime()) < settle || !halfMade(path)) {
			continue
		}
		lock, err := takeLock(path)
		if err != nil {
			continue
		}
		if endAbandoned(root, path, sweeper) {
			_ = dir.RemoveAll(filepath.Base(path)) // follows no link
		}
		_ = lock.Close()
	}
}

// endAbandoned ends what is left of a sandbox, and reports whether nothing is left.
func endAbandoned(root, path string, sweeper Sweeper) bool {
	r, err := Read(path)
	switch {
	case err == nil && r.Kept:
		return EndProcess(r.PID, r.Start) && cleanUp(root, path, r.Cleanup)
	case sweeper == nil:
		return false
	case errors.Is(err, os.ErrNotExist) && halfMade(path), errors.Is(err, errDamaged):
		r = nil
	case err != nil:
		return false // Refused reports it
	}
	return sweeper(path, r)
}

// Exists reports whether something exists at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// EndProcess kills the process with this pid and start time, waits up to 2 s for its
// end, and reports whether it has ended. It leaves another process that has the same
// pid by now alone.
func EndProcess(pid int, start uint64) (ended bool) {
	if pid <= 1 || start == 0 {
		return true
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if now, err := StartTime(pid); err != nil || now != start {
		return true
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 2000)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}
