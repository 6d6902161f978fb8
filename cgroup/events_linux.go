package cgroup

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Populated says whether this group, or one within it, holds a living process.
func (g *Group) Populated() (bool, error) { return g.event("populated") }

// Frozen says whether every process of this group and those within it stands
// still, on whoever's behalf.
func (g *Group) Frozen() (bool, error) { return g.event("frozen") }

func (g *Group) event(key string) (bool, error) {
	text, err := g.read(eventsFile)
	return keyed(text)[key] != 0, err
}

// WaitEmpty returns when no process lives in the group, nor in any inside of
// it, or when it is gone.
func (g *Group) WaitEmpty(ctx context.Context) error {
	err := g.await(ctx, "populated", 0)
	if Gone(err) {
		return nil
	}
	return err
}

// Freeze stops every process in the group and in groups inside of it, and
// returns when they stand still. They can be killed all the same. When ctx
// ends first (a process in an uninterruptible wait can take long), they go on.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.write(freezeFile, "1"); err != nil {
		return err
	}
	err := g.await(ctx, "frozen", 1)
	if err != nil {
		_ = g.write(freezeFile, "0") // the error is that of the wait
	}
	return err
}

// Thaw lets them go on, and returns when they do: while a group above is
// frozen, not before ctx ends.
func (g *Group) Thaw(ctx context.Context) error {
	if err := g.write(freezeFile, "0"); err != nil {
		return err
	}
	return g.await(ctx, "frozen", 0)
}

// await returns when a key of cgroup.events has a value. The kernel wakes
// those who poll that file at each change, at most 10 ms later; Go's own poller
// does, so that no thread is held meanwhile.
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
			err = ctx.Err() // whose deadline may just have been overwritten
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

// lookAgain is how often a waiter looks without being woken: the kernel wakes
// nobody when it removes a group, not even those whom it owes the last change.
const lookAgain = time.Second

// readEvent reads the open file again. From then on a change is news.
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
