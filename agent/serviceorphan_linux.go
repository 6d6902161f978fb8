package agent

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// refresh looks whether a service that an earlier agent started still runs:
// whether the process that has its number was born when it was. It reports
// that it does. The lock is held.
func (s *service) refresh(a *Agent) bool {
	r := &s.record
	if r.State != serviceRunning {
		return false
	}
	if a.trees.is(r) {
		return true
	}
	r.State, r.EndedAt, r.ExitCode = serviceExited, secondsNow(), s.table.exitCode(s.name)
	s.save()
	return false
}

// is says whether the process of a record lives. Without a mark that cannot be
// told, and a stranger must not be taken for it.
func (t *trees) is(r *serviceRecord) bool {
	if r.PID == nil || *r.PID <= 1 || r.Mark == 0 {
		return false
	}
	st, err := readStat(t.proc, *r.PID)
	if err != nil || st.born != r.Born || st.state == 'Z' {
		return false
	}
	ino, err := t.namespace(strconv.Itoa(*r.PID))
	return err == nil && ino == r.Mark
}

// stopOrphan ends a service that an earlier agent started. Its mark is lost
// with that agent, so only its group is known.
func (s *service) stopOrphan(a *Agent) (*wire.StopServiceResult, error) {
	s.mu.Lock()
	running, pid := s.refresh(a), 0
	if running {
		pid = *s.record.PID
	}
	s.mu.Unlock()
	if !running {
		return &wire.StopServiceResult{Service: *s.view(a)}, nil
	}
	group := a.trees.group(pid)
	signalAll(group, unix.SIGTERM)
	deadline, killed := time.Now().Add(s.table.grace), 0
	for _, p := range group {
		if !awaitPidfd(p.pidfd, deadline) {
			killed++
			_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
			awaitPidfd(p.pidfd, time.Now().Add(killTimeout))
		}
		unix.Close(p.pidfd)
	}
	s.mu.Lock()
	reason := "sigterm"
	if killed > 0 {
		reason = "sigkill"
	}
	s.record.State, s.record.StopReason, s.record.EndedAt = serviceStopped, &reason, secondsNow()
	s.save()
	s.mu.Unlock()
	return &wire.StopServiceResult{Service: *s.view(a), Killed: killed}, nil
}

// group lists the processes of a process group. Each is looked at after its
// pidfd is there, so that what is signalled is what was looked at.
func (t *trees) group(id int) (found []member) {
	pids, _ := t.pids()
	for _, pid := range pids {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if st, err := readStat(t.proc, pid); err != nil || st.group != id {
			unix.Close(pidfd)
			continue
		}
		found = append(found, member{pid, pidfd})
	}
	return found
}

func signalAll(processes []member, sig unix.Signal) {
	for _, p := range processes {
		_ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	}
}
