//go:build linux

package linux

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// bootTimeout is how long a new agent may take to build its walls.
const bootTimeout = 20 * time.Second

// bootTimeout has room for the copying of a workspace.
func (b *builder) bootTimeout() time.Duration {
	if b.spec.Workspace.Mode == policy.ModeCopy {
		const slowest = 16 << 20 // bytes a second
		return bootTimeout + time.Duration(b.spec.Limits.Disk/slowest)*time.Second
	}
	return bootTimeout
}

// boot hands the plan over, waits for the walls to stand, and looks at them.
func (s *sandbox) boot(ctx context.Context) error {
	defer s.closeFiles()
	stop := context.AfterFunc(ctx, func() { _ = s.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = s.control.SetDeadline(time.Now().Add(s.plan.bootTimeout()))
	booted, err := s.handOver()
	if err != nil {
		if ctx.Err() != nil {
			return backend.Interrupted(ctx, "boot", "the agent")
		}
		return err
	}
	if f := booted.Failed; f != nil {
		return &backend.StartError{Stage: f.Stage, Op: f.Op, Object: f.Object, Errno: f.Errno, Cause: f.Cause, Hint: setupHint(f)}
	}
	if !stop() {
		return backend.Interrupted(ctx, "boot", "the agent") // the deadline is poisoned; the sandbox is of no use
	}
	_ = s.control.SetDeadline(time.Time{})
	if s.group != nil {
		if err := s.group.settle(s.plan.groups, s.plan.plan.GroupLimits); err != nil {
			return err
		}
	}
	s.isolation = s.plan.plan.Isolation(booted.Skipped)
	seen, err := verifySetup(s.pid, s.plan.plan)
	if err != nil {
		return err
	}
	s.isolation.Lost = append(s.isolation.Lost, lostBelow(seen.below)...)
	s.isolation.OwnCopies = seen.copies
	s.isolation.Verified = true
	return s.openCopies()
}

// lostBelow says what cannot be written because the host has mounted something there.
func lostBelow(places []string) []string {
	const how = ", and so read-only; to write there name "
	switch n := len(places); n {
	case 0:
		return nil
	case 1:
		return []string{"writing to " + places[0] + ": it is a mount of the host's below what was named" + how + "it as a mount of its own, at that target"}
	default:
		shown, more := places[:min(n, 16)], ""
		if n > len(shown) {
			more = " and " + strconv.Itoa(n-len(shown)) + " more"
		}
		return []string{"writing to " + strings.Join(shown, ", ") + more + ": they are mounts of the host's below what was named" + how + "each as a mount of its own, at that target"}
	}
}

// save tells later starts who the agent is, should this process be killed, and
// in the end who attaches what holds.
func (s *sandbox) save(isolation *policy.Isolation) error {
	start, err := state.StartTime(s.pid)
	if err == nil {
		err = s.dir.save(s.pid, start, isolation)
	}
	if err != nil {
		return backend.Failed("state", "save", s.dir.Path, err, hostpath.RoomHint(err, s.dir.Root))
	}
	return nil
}

// handOver sends the plan and its descriptors, and reads the agent's answer.
func (s *sandbox) handOver() (*confine.Booted, error) {
	if err := s.sendFiles(); err != nil {
		return nil, backend.Failed("boot", "send descriptors", "", err, "")
	}
	boot := confine.Boot{Protocol: wire.Version, Build: wire.Build, Plan: s.plan.plan}
	if err := boot.Write(s.control); err != nil {
		return nil, backend.Failed("boot", "send the plan", "", err, notAgent)
	}
	// The agent's first connection is made while it is busy. What is sent on
	// it waits until the walls have been looked at.
	s.spare, _ = state.Dial(context.Background(), s.dir.Path)
	s.spareAt = time.Now()
	saved, looked := s.save(nil), verifyClone(s.pid, s.plan.plan)
	booted, err := confine.ReadBooted(s.control)
	if err != nil {
		return nil, backend.Failed("boot", "await the agent", "", err, notAgent)
	}
	if booted.Protocol != wire.Version {
		return nil, backend.Failed("boot", "read the agent's answer", "", errProtocol, notAgent)
	}
	// An agent that has given up has less to look at; its own words say more.
	if booted.Failed == nil && cmp.Or(saved, looked) != nil {
		return nil, cmp.Or(saved, looked)
	}
	return booted, nil
}

const notAgent = "is it the paddock-agent of this release?"

// sendFiles passes the plan's descriptors over the control socket
// (SCM_RIGHTS, unix(7)), in batches, each with one marker byte.
func (s *sandbox) sendFiles() error {
	raw, err := s.control.SyscallConn()
	if err != nil {
		return err
	}
	for rest := s.files; len(rest) > 0; {
		batch := rest[:min(len(rest), confine.MaxFiles)]
		rest = rest[len(batch):]
		var fds []int
		for _, f := range batch {
			fds = append(fds, int(f.Fd()))
		}
		var serr error
		err := raw.Write(func(fd uintptr) bool {
			serr = unix.Sendmsg(int(fd), []byte{confine.FilesMark}, unix.UnixRights(fds...), nil, 0)
			return serr != unix.EAGAIN
		})
		if err != nil {
			return err
		}
		if serr != nil {
			return os.NewSyscallError("sendmsg", serr)
		}
	}
	return nil
}

func (s *sandbox) closeFiles() {
	s.helpers.Wait()
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
}
