//go:build linux

package state

import (
	"context"
	"errors"
	"os"
	"os/exec"
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
// keeper is ended here; others are for sweeper, and stay where that is nil.
func Sweep(root string, sweeper Sweeper) {
	dirs, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	if err != nil {
		return
	}
	for _, entry := range dirs {
		path := filepath.Join(root, "sandboxes", entry.Name())
		if info, err := entry.Info(); err != nil || time.Since(info.ModTime()) < settle && !Exists(filepath.Join(path, recordName)) {
			continue
		}
		lock, err := takeLock(path)
		if err != nil {
			continue
		}
		if abandoned(path, sweeper) {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}

// abandoned ends what is left of a sandbox, and says whether nothing is.
func abandoned(path string, sweeper Sweeper) bool {
	r, err := Read(path)
	switch {
	case err == nil && r.Kept:
		return EndProcess(r.PID, r.Start) && cleanUp(path, r.Cleanup)
	case sweeper == nil:
		return false
	case err != nil:
		r = nil
	}
	return sweeper(path, r)
}

// cleanUp runs the commands that end what a killed keeper has left elsewhere,
// and says whether all could be run. Their status says little: most find
// nothing to do.
func cleanUp(path string, commands [][]string) bool {
	tried := filepath.Join(path, "tried") // and in vain
	if info, err := os.Stat(tried); err == nil && time.Since(info.ModTime()) < cleanupPause {
		return false
	}
	for _, argv := range commands {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		failed := ctx.Err() != nil
		cancel()
		var exit *exec.ExitError
		if failed || err != nil && !errors.As(err, &exit) {
			_ = os.Remove(tried)
			_ = os.WriteFile(tried, nil, 0o600)
			return false
		}
	}
	return true
}

// Exists says whether there is something at a path.
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
