package service

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// service is a service from one start to its end. The next start makes another.
type service struct {
	name  string
	table *Table
	box   *core.Sandbox
	order uint64 // the table's lock guards it
	logs  [2]*logFile

	// These are nil if an earlier agent started the service.
	redactor *core.Redactor
	process  *spawn.Process
	id       string
	stdio    *spawn.Stdio
	drained  chan struct{} // closed when both outputs have ended
	stopping chan struct{} // closed when it is to be stopped
	ended    chan struct{} // closed when the record says that it has ended

	mu            sync.Mutex
	record        record
	state, reason string // why it is being stopped, for the record
	killed        int
	proved        bool
}

// watch waits until the service ends or is to be stopped, ends its whole tree, and
// completes its logs and its record.
func (s *service) watch() {
	p := s.process
	select {
	case <-p.Done:
		s.killed, s.proved = s.box.Trees.Kill(p.Mark)
	case <-s.stopping:
		s.box.Trees.Signal(p.Mark, unix.SIGTERM)
		s.box.Trees.Signal(p.Mark, unix.SIGCONT) // a stopped process cannot end
		if s.proved = s.box.Trees.Await(p.Mark, time.Now().Add(s.table.grace)); !s.proved {
			s.killed, s.proved = s.box.Trees.Kill(p.Mark)
		}
		<-p.Done
	}
	s.box.Release(s.id, p, s.proved)
	select {
	case <-s.drained:
	case <-time.After(core.OutputGrace): // a process outside of the tree holds a pipe
		past := time.Unix(1, 0)
		_ = s.stdio.Stdout.SetReadDeadline(past)
		_ = s.stdio.Stderr.SetReadDeadline(past)
		<-s.drained
	}
	s.stdio.CloseAll()
	s.finishRecord()
}

// finishRecord completes the record.
func (s *service) finishRecord() {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := spawn.ExitCode(s.process.Status)
	r := &s.record
	for i, log := range s.logs {
		r.Cut[i] = log.close()
	}
	r.ExitCode = &code
	r.EndedAt = core.Now()
	switch {
	case s.state == stateStopped:
		reason := "sigterm"
		if s.killed > 0 {
			reason = "sigkill"
		}
		r.State, r.StopReason = s.state, &reason
	case s.state != "":
		r.State, r.StopReason = s.state, &s.reason
	case r.ReadyAt == nil:
		reason := "process_exited_before_ready"
		r.State, r.StopReason = stateFailed, &reason
	default:
		r.State = stateExited
	}
	s.table.writeFile(s.name+".status", []byte(strconv.Itoa(code)))
	s.save()
	close(s.ended)
}

// setReady makes the service ready, and returns false if its end has begun.
func (s *service) setReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.process.Done:
		return false
	case <-s.stopping:
		return false
	default:
	}
	s.record.ReadyAt = core.Now()
	s.save()
	return true
}

// stop begins to stop the service. The first call sets the state and the reason.
func (s *service) stop(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == "" {
		s.state, s.reason = state, reason
		close(s.stopping)
	}
}

// await waits for the end of a service that is being stopped, and returns false if the
// kernel cannot kill it in time.
func (s *service) await() bool {
	limit := time.NewTimer(s.table.grace + 2*spawn.KillTimeout)
	defer limit.Stop()
	select {
	case <-s.ended:
		return true
	case <-limit.C:
		return false
	}
}

// alive reports whether the service may still run.
func (s *service) alive() bool {
	if s.process == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.refresh()
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// view returns the record without secrets.
func (s *service) view() *wire.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.refresh()
	}
	hidden := s.currentRedactor()
	r := hideRecord(s.record, hidden.OnlyValues) // rules were applied when it was written
	r.RedactionMatches, r.Blocked = hidden.Matches()
	return &r.Service
}

// currentRedactor returns the service's redactor or, if an earlier agent started it,
// one for the secrets that are installed now.
func (s *service) currentRedactor() *core.Redactor {
	if s.redactor != nil {
		return s.redactor
	}
	return s.box.OnlySecrets()
}

// Stop stops a service and its whole tree, by SIGTERM first, and waits for that.
func (t *Table) Stop(q *wire.ServiceRequest) (*wire.StopServiceResult, error) {
	s, err := t.find(q.ServiceName)
	if err != nil {
		return nil, err
	}
	if s.process == nil {
		return s.stopOrphan()
	}
	s.stop(stateStopped, "")
	if !s.await() {
		return nil, &wire.Error{Code: wire.CodeFailed, Object: s.name, Message: "cannot stop service '" + s.name + "': it cannot be killed"}
	}
	r := &wire.StopServiceResult{Service: *s.view()}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Killed, r.DeathProved = s.killed, s.proved
	return r, nil
}

// refresh reports whether a service that an earlier agent started still runs:
// whether the process with its number was born when the service was. If not, it
// completes the record. The lock is held.
func (s *service) refresh() bool {
	r := &s.record
	if r.State != stateRunning {
		return false
	}
	if r.PID != nil && s.box.Trees.Runs(*r.PID, r.Born, r.Mark) {
		return true
	}
	r.State, r.EndedAt, r.ExitCode = stateExited, core.Now(), s.table.exitCode(s.name)
	s.save()
	return false
}

// stopOrphan stops a service that an earlier agent started. The mark was lost with
// that agent, so only its process group is known.
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
	killed := s.box.Trees.StopGroup(pid, s.table.grace)
	s.mu.Lock()
	reason := "sigterm"
	if killed > 0 {
		reason = "sigkill"
	}
	s.record.State, s.record.StopReason, s.record.EndedAt = stateStopped, &reason, core.Now()
	s.save()
	s.mu.Unlock()
	return &wire.StopServiceResult{Service: *s.view(), Killed: killed}, nil
}
