package cgroup

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to every process in the group and in groups inside of
// it, those that are forked meanwhile included (cgroup.kill, Linux 5.14).
// [Group.WaitEmpty] tells when they are gone.
//
// Nothing can be cloned into the group afterwards: kernels take such a child
// (seen up to Linux 6.18) for one that was forked meanwhile, and kill it.
// Moving a process there works, as does a group inside that is made later.
func (g *Group) Kill() error {
	err := g.write(killFile, "1")
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return g.killEach()
}

// patience is for a group to freeze in. One that does not is killed as it
// runs, in as many rounds as it takes.
const patience = time.Second

// killEach is for kernels without cgroup.kill. What is frozen forks no more,
// and SIGKILL reaches it.
func (g *Group) killEach() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// killRound kills what it finds in the group and inside of it, and notes it in seen.
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

// killProcs kills the group's own processes. By the time that a pid is used it
// may be another process's; but one that is still listed after a handle of it
// was opened is either the listed process's or a dead one's.
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
