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

// service is one life of a service, from its start to its end. Its next start
// makes another.
type service struct {
	name     string
	table    *Table
	box      *core.Sandbox
	order    uint64 // the table's lock guards it
	logs     [2]*logFile
	redactor *core.Redactor // nil where an earlier agent started it

	process *spawn.Process // likewise, and all that follows
	id      string
	stdio   *spawn.Stdio
	drained chan struct{} // closed when both outputs have ended

	stopping chan struct{} // closed when it is to end
	ended    chan struct{} // closed when the record tells its end

	mu            sync.Mutex
	record        record
	state, reason string // that it will have been ended with
	killed        int
	proved        bool
}

// watch deals with the end of the service, by itself or on request, and of
// all that is left of its tree.
func (s *service) watch() {
	p := s.process
	select {
	case <-p.Done:
		s.killed, s.proved = s.box.Trees.Kill(p.Mark)
	case <-s.stopping:
		s.box.Trees.Signal(p.Mark, unix.SIGTERM)
		s.box.Trees.Signal(p.Mark, unix.SIGCONT) // what is stopped cannot end
		if s.proved = s.box.Trees.Await(p.Mark, time.Now().Add(s.table.grace)); !s.proved {
			s.killed, s.proved = s.box.Trees.Kill(p.Mark)
		}
		<-p.Done
	}
	s.box.Running.Remove(s.id)
	p.Mark.Close()
	s.finishOutput()
	s.finish()
}

// finishOutput waits for the rest of the output, which is there already unless
// somebody outside of the tree holds a pipe.
func (s *service) finishOutput() {
	select {
	case <-s.drained:
	case <-time.After(core.OutputGrace):
		past := time.Unix(1, 0)
		_ = s.stdio.Stdout.SetReadDeadline(past)
		_ = s.stdio.Stderr.SetReadDeadline(past)
		<-s.drained
	}
	s.stdio.CloseAll()
}

// finish tells the end in the record.
func (s *service) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.process.Status.ExitStatus()
	if s.process.Status.Signaled() {
		code = -int(s.process.Status.Signal())
	}
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

// setReady makes the service ready, unless its end has begun.
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

// stop begins to end the service. The first who asks says why.
func (s *service) stop(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == "" {
		s.state, s.reason = state, reason
		close(s.stopping)
	}
}

// await waits for an end that has begun, which no process that the kernel can
// end is able to put off.
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

// alive reports whether the service has not ended, or not provably.
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

// view returns the record, as clients may see it.
func (s *service) view() *wire.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.refresh()
	}
	hidden := s.redactor
	if hidden == nil {
		hidden = s.box.OnlySecrets()
	}
	r := hideRecord(s.record, hidden.OnlyValues) // rules have seen it already
	r.RedactionMatches, r.Blocked = hidden.Matches()
	return &r.Service
}

// hide hides secrets in what the service has printed, and rules have seen.
func (s *service) hide(text string) string {
	hidden := s.redactor
	if hidden == nil {
		hidden = s.box.OnlySecrets()
	}
	return hidden.OnlyValues(text)
}

// Stop ends a service and its whole tree, gently first, and waits for that.
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

// refresh looks whether a service that an earlier agent started still runs:
// whether the process that has its number was born when it was. It reports
// that it does. The lock is held.
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
