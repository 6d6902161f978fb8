package cgroup

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// freezeTime is how long Kill waits for a group to freeze.
const freezeTime = time.Second

// Kill sends SIGKILL to every process in the group and in groups inside of it,
// including those forked during the call (cgroup.kill, Linux 5.14). Use
// [Group.WaitEmpty] to wait until they have ended.
//
// Nothing can be cloned into the group afterwards: kernels (seen up to Linux
// 6.18) treat such a child as forked during the call, and kill it. Processes can
// be moved there, and groups that are made inside later work normally.
func (g *Group) Kill() error {
	err := g.write(killFile, "1")
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return g.killEach()
}

// killEach does what Kill does on a kernel without cgroup.kill. Frozen processes
// cannot fork, and SIGKILL reaches them. If the group does not freeze in time, its
// processes are killed while they run, in as many rounds as necessary.
func (g *Group) killEach() error {
	ctx, cancel := context.WithTimeout(context.Background(), freezeTime)
	defer cancel()
	if err := g.write(freezeFile, "1"); err != nil {
		return err
	}
	defer func() { _ = g.write(freezeFile, "0") }()
	if err := g.await(ctx, "frozen", 1); err != nil && ctx.Err() == nil {
		return err
	}
	for seen := map[int]bool{}; ; {
		known := len(seen)
		if err := g.killRound(seen); err != nil || len(seen) == known {
			return err
		}
	}
}

// killRound kills the processes that it finds in the group and in groups inside of
// it, and adds them to seen.
func (g *Group) killRound(seen map[int]bool) error {
	if err := g.killProcs(seen); err != nil {
		return err
	}
	for _, name := range g.Children() {
		child, err := g.Child(name)
		if err == nil {
			err = child.killRound(seen)
			_ = child.Close()
		}
		if err != nil && !Gone(err) {
			return err
		}
	}
	return nil
}

// killProcs kills the group's own processes. A pid may have been reused by
// another process when a pidfd is opened for it. But if the pid is still listed
// after that, the pidfd refers to the listed process, or to a dead one.
func (g *Group) killProcs(seen map[int]bool) error {
	listed, err := g.Procs()
	if err != nil {
		return err
	}
	handles := map[int]int{}
	defer func() {
		for _, fd := range handles {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range listed {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			handles[pid] = fd
		} else if !errors.Is(err, unix.ESRCH) {
			return g.fail("kill a process of", "", err)
		}
	}
	if listed, err = g.Procs(); err != nil {
		return err
	}
	for pid, fd := range handles {
		if !slices.Contains(listed, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return g.fail("kill a process of", "", err)
		}
		seen[pid] = true
	}
	return nil
}

// Populated reports whether this group, or one inside of it, holds a living
// process.
func (g *Group) Populated() (bool, error) { return g.event("populated") }

// Frozen reports whether every process of this group and the groups inside of it
// is stopped, whichever group was frozen.
func (g *Group) Frozen() (bool, error) { return g.event("frozen") }

// event reads a key of cgroup.events.
func (g *Group) event(key string) (bool, error) {
	text, err := g.read(eventsFile)
	return keyed(text)[key] != 0, err
}

// WaitEmpty returns when no process lives in the group or a group inside of it,
// or when the group was removed.
func (g *Group) WaitEmpty(ctx context.Context) error {
	err := g.await(ctx, "populated", 0)
	if Gone(err) {
		return nil
	}
	return err
}

// Freeze stops every process in the group and in groups inside of it, and
// returns when all are stopped. They can still be killed. If ctx ends first (a
// process in an uninterruptible wait can take long), they continue.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.write(freezeFile, "1"); err != nil {
		return err
	}
	err := g.await(ctx, "frozen", 1)
	if err != nil {
		_ = g.write(freezeFile, "0") // the error of the wait is returned
	}
	return err
}

// Thaw makes the processes continue, and returns when they do. While a group
// above is frozen they cannot, and Thaw returns when ctx ends.
func (g *Group) Thaw(ctx context.Context) error {
	if err := g.write(freezeFile, "0"); err != nil {
		return err
	}
	return g.await(ctx, "frozen", 0)
}

// await returns when a key of cgroup.events has a value. The kernel wakes
// processes that poll that file at each change, at most 10 ms later. It uses
// Go's own poller, so that it blocks no thread.
func (g *Group) await(ctx context.Context, key string, want uint64) error {
	fd, err := g.open(eventsFile, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return g.fail("read", eventsFile, err)
	}
	f := os.NewFile(uintptr(fd), eventsFile)
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return g.fail("await", key, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		err := f.SetReadDeadline(time.Now().Add(lookAgain))
		if err == nil {
			err = ctx.Err() // its deadline may just have been overwritten
		}
		if err != nil {
			return g.fail("await", key, err)
		}
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			var now uint64
			now, failed = readEvent(int(fd), key)
			return failed != nil || now == want
		})
		switch {
		case failed != nil:
			return g.fail("read", eventsFile, failed)
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return g.fail("await", key, err)
		}
	}
}

// lookAgain is how often await reads the file without being woken: the kernel
// wakes no process when it removes a group, not even for its last change.
const lookAgain = time.Second

// readEvent reads a key from the open file. Later changes wake the poller.
func readEvent(fd int, key string) (uint64, error) {
	var text [256]byte
	for {
		n, err := unix.Pread(fd, text[:], 0)
		if err == nil {
			return keyed(string(text[:n]))[key], nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
}
