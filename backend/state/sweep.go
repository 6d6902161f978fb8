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
	// settle is how long a directory without a held lock may be somebody's who
	// is about to take it.
	settle = 10 * time.Second
	// cleanupTime bounds each command that cleans up.
	cleanupTime = 10 * time.Second
	// cleanupPause is how long a sandbox is left alone whose commands could
	// not be run: each start would wait for them.
	cleanupPause = time.Minute
)

// Sweeper gives back what a sandbox has outside of its directory, whose owner
// is dead: path is the directory, and r its record, nil where that was not
// written. It says whether the directory can go.
type Sweeper func(path string, r *Record) bool

// Sweep removes what killed processes have left below root. A sandbox with a
// keeper is ended here; others are for sweeper, and stay where that is nil. What
// no backend has made stays: see [Refused].
func Sweep(root string, sweeper Sweeper) {
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return // New refuses
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
		if abandoned(root, path, sweeper) {
			_ = dir.RemoveAll(filepath.Base(path)) // which follows no link
		}
		_ = lock.Close()
	}
}

// abandoned ends what is left of a sandbox, and says whether nothing is.
func abandoned(root, path string, sweeper Sweeper) bool {
	r, err := Read(path)
	switch {
	case err == nil && r.Kept:
		return EndProcess(r.PID, r.Start) && cleanUp(root, path, r.Cleanup)
	case sweeper == nil:
		return false
	case errors.Is(err, os.ErrNotExist) && halfMade(path), errors.Is(err, errDamaged):
		r = nil
	case err != nil:
		return false // Refused tells
	}
	return sweeper(path, r)
}

// Exists reports whether there is something at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// EndProcess kills the process that had this pid and start time, waits for its
// end, for 2 s at most, and says whether it has ended. A pid that was given to
// another process is left alone.
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
