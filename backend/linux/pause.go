//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/descent"
)

// How commands are stopped.
const (
	ByFreezer = "freezer"
	BySignal  = "SIGSTOP"
)

// stopRounds bounds how often all processes are looked at, and stopPause is the time between.
const (
	stopRounds = 400
	stopPause  = 5 * time.Millisecond
)

// Pause stops every command of a running sandbox that another process owns, and returns how:
// with the freezer of its control group, or, without one, with a signal to each process. Once
// nothing runs any more, nothing can continue the others.
func Pause(ctx context.Context, r *state.Record) (how string, err error) {
	if work, err := workGroup(r); err == nil {
		defer work.Close()
		return ByFreezer, work.Freeze(ctx)
	}
	told := map[string]bool{}
	for range stopRounds {
		running := false
		for _, p := range descent.Below(r.PID) {
			if !stopped(p.PID, told[p.Who()]) {
				running = true
				p.Signal(unix.SIGSTOP)
				told[p.Who()] = true
			}
		}
		if !running {
			return BySignal, nil
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(stopPause):
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = errors.New("some processes do not stop")
	}
	return "", errors.Join(err, Resume(context.WithoutCancel(ctx), r)) // none is left stopped
}

// Resume makes the commands continue.
func Resume(ctx context.Context, r *state.Record) error {
	if work, err := workGroup(r); err == nil {
		defer work.Close()
		return work.Thaw(ctx)
	}
	for _, p := range descent.Below(r.PID) {
		p.Signal(unix.SIGCONT)
	}
	return nil
}

// workGroup opens the control group of a sandbox's commands.
func workGroup(r *state.Record) (*cgroup.Group, error) {
	if r.Cgroup == "" {
		return nil, os.ErrNotExist
	}
	return cgroup.Open(filepath.Join(r.Cgroup, confine.WorkGroup))
}

// stopped reports whether no thread of a process runs. The first thread can have ended while
// others run. told says that the process was sent the signal before: then a thread that waits in
// the kernel, for a child that vfork has made and that is stopped, for example, counts as well,
// because it stops before it executes anything.
func stopped(pid int, told bool) bool {
	states := "TtZX"
	if told {
		states += "D"
	}
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return true // it has ended
	}
	for _, t := range tasks {
		text, err := state.ReadProc(filepath.Join(dir, t.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) == 0 || !strings.Contains(states, fields[0]) {
			return false
		}
	}
	return true
}
