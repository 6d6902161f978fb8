package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// refresh looks whether a service that an earlier agent started still runs:
// whether the process that has its number was born when it was. It reports
// that it does. The lock is held.
func (s *service) refresh() bool {
	r := &s.record
	if r.State != serviceRunning {
		return false
	}
	if r.PID != nil && s.box.trees.runs(*r.PID, r.Born, r.Mark) {
		return true
	}
	r.State, r.EndedAt, r.ExitCode = serviceExited, now(), s.table.exitCode(s.name)
	s.save()
	return false
}

// stopOrphan ends a service that an earlier agent started. Its mark is lost
// with that agent, so only its group is known.
func (s *service) stopOrphan() (*wire.StopServiceResult, error) {
	s.mu.Lock()
	running, pid := s.refresh(), 0
	if running {
		pid = *s.record.PID
	}
	s.mu.Unlock()
	if !running {
		return &wire.StopServiceResult{Service: *s.view()}, nil
	}
	group := s.box.trees.group(pid)
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
	s.record.State, s.record.StopReason, s.record.EndedAt = serviceStopped, &reason, now()
	s.save()
	s.mu.Unlock()
	return &wire.StopServiceResult{Service: *s.view(), Killed: killed}, nil
}

func signalAll(processes []member, sig unix.Signal) {
	for _, p := range processes {
		_ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	}
}
