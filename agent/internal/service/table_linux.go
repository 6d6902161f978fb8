// Package service serves commands that run in the background by name: they are
// started, awaited until they are ready, logged, and stopped. Records and logs
// outlive the agent.
package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of services.
const (
	// maxServices is how many may run at a time.
	maxServices = 64
	// maxRecords bounds the records, including those of ended services. The oldest
	// ended services are removed first, with their logs.
	maxRecords = 256
	// endGrace is how long the tree of a service may take to end by itself.
	endGrace = 5 * time.Second
)

// The states of a service.
const (
	stateRunning = "running"
	stateExited  = "exited"  // by itself
	stateFailed  = "failed"  // before it was ready
	stateStopped = "stopped" // by stop_service
)

// Table holds the services that run and those that have ended. A record on disk that
// is not among them is from an earlier agent.
type Table struct {
	box   *core.Sandbox
	state core.StateDir // of records and logs
	grace time.Duration

	mu       sync.Mutex
	last     uint64
	byName   map[string]*service
	starting map[string]bool // names of services that are being started
}

// New returns a table that keeps records and logs in state, where it also finds those
// of an earlier agent.
func New(box *core.Sandbox, state core.StateDir) *Table {
	return &Table{box: box, state: state, grace: endGrace, byName: map[string]*service{}, starting: map[string]bool{}}
}

func (t *Table) dir() beneath.Dir { return t.state.Dir() }

// checkName checks a name, which becomes part of file names.
func checkName(name string) (string, error) {
	switch name = strings.TrimSpace(name); {
	case name == "":
		return "", core.BadField("service_name", "service_name is required")
	case !core.StateName(name):
		return "", core.BadField("service_name", "service_name is invalid")
	}
	return name, nil
}

// find returns the service with a name as a client has written it.
func (t *Table) find(name string) (*service, error) {
	name, err := checkName(name)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(name)
}

// get is find for a checked name. The lock is held.
func (t *Table) get(name string) (*service, error) {
	if s := t.byName[name]; s != nil {
		return s, nil
	}
	s, err := t.load(name)
	if err == nil {
		t.add(s)
	}
	return s, err
}

// reserve reserves the name of a service that is about to start. It fails if another
// service, or a start that has not finished, uses the name.
func (t *Table) reserve(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.get(name)
	var werr *wire.Error
	if err != nil && (!errors.As(err, &werr) || werr.Code != wire.CodeNotFound) {
		return err
	}
	if t.starting[name] || s != nil && s.alive() {
		return &wire.Error{Code: wire.CodeConflict, Object: name, Message: "service '" + name + "' is already running"}
	}
	live := len(t.starting)
	for _, s := range t.byName {
		if s.alive() {
			live++
		}
	}
	if live >= maxServices {
		return &wire.Error{Code: wire.CodeBusy, Object: name, Message: "cannot start the service: too many are running",
			Hint: "stop a service that is not needed"}
	}
	t.starting[name] = true
	return nil
}

// release ends a reservation, and adds the service if it was started. s is nil if it
// was not.
func (t *Table) release(name string, s *service) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.starting, name)
	if s != nil {
		t.add(s)
		t.evict()
	}
}

// add adds a service in place of an earlier one with its name. The lock is held.
func (t *Table) add(s *service) {
	t.last++
	s.order = t.last
	t.byName[s.name] = s
}

// evict removes the oldest of the services that have ended. The lock is held.
func (t *Table) evict() {
	for len(t.byName) > maxRecords {
		var oldest *service
		for _, s := range t.byName {
			if !t.starting[s.name] && (oldest == nil || s.order < oldest.order) && !s.alive() {
				oldest = s
			}
		}
		if oldest == nil {
			return
		}
		delete(t.byName, oldest.name)
		for _, suffix := range []string{".json", ".status", ".stdout", ".stderr"} {
			t.removeFile(oldest.name + suffix)
		}
	}
}

// Status returns a service's record.
func (t *Table) Status(q *wire.ServiceRequest) (*wire.Service, error) {
	s, err := t.find(q.ServiceName)
	if err != nil {
		return nil, err
	}
	return s.view(), nil
}

// List returns the records of all services, by name.
func (t *Table) List(*wire.ListServicesRequest) (*wire.ListServicesResult, error) {
	t.mu.Lock()
	for _, name := range t.onDisk() {
		_, _ = t.get(name) // status_service reports an invalid record
	}
	all := make([]*service, 0, len(t.byName))
	for _, s := range t.byName {
		all = append(all, s)
	}
	t.mu.Unlock()
	// Pointers are sorted, because each type that is sorted makes the program larger by 20 KB.
	slices.SortFunc(all, func(a, b *service) int { return cmp.Compare(a.name, b.name) })
	r := &wire.ListServicesResult{Services: make([]wire.Service, 0, len(all))}
	for _, s := range all {
		r.Services = append(r.Services, *s.view())
	}
	return r, nil
}

// Read returns output from the cursors on. Without new output it waits as long as the
// request says, or until the service has ended.
func (t *Table) Read(ctx context.Context, q *wire.ReadServiceRequest) (*wire.ReadServiceResult, error) {
	if err := core.CheckRead(q.StdoutCursor, q.StderrCursor, q.MaxBytes, q.WaitMS); err != nil {
		return nil, err
	}
	s, err := t.find(q.ServiceName)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMS)*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil && s.alive() {
		stdout, stderr := s.logs[0].await(q.StdoutCursor), s.logs[1].await(q.StderrCursor)
		if stdout == nil || stderr == nil {
			break
		}
		select {
		case <-stdout:
		case <-stderr:
		case <-s.ended: // never, for one of an earlier agent
		case <-ctx.Done():
		}
	}
	r := &wire.ReadServiceResult{Service: *s.view()}
	if r.Stdout, err = s.logs[0].read(q.StdoutCursor, q.MaxBytes); err == nil {
		r.Stderr, err = s.logs[1].read(q.StderrCursor, q.MaxBytes)
	}
	if err != nil {
		return nil, &wire.Error{Code: wire.CodeFailed, Object: s.name, Message: "cannot read the service's logs: " + err.Error()}
	}
	hide := s.currentRedactor().OnlyValues // as Logs does
	for _, p := range []*wire.StreamPart{&r.Stdout, &r.Stderr} {
		p.Data = []byte(hide(string(p.Data)))
	}
	return r, nil
}

// Logs returns the end of a service's output.
func (t *Table) Logs(q *wire.LogsServiceRequest) (*wire.LogsServiceResult, error) {
	s, err := t.find(q.ServiceName)
	if err != nil {
		return nil, err
	}
	if q.TailLines != nil && *q.TailLines < 0 {
		return nil, core.BadField("tail_lines", "tail_lines must not be negative")
	}
	r := &wire.LogsServiceResult{Service: *s.view(), TailLines: q.TailLines}
	if r.Stdout, r.StdoutTruncated, err = s.logs[0].tail(q.TailLines); err == nil {
		r.Stderr, r.StderrTruncated, err = s.logs[1].tail(q.TailLines)
	}
	if err != nil {
		return nil, &wire.Error{Code: wire.CodeFailed, Object: s.name, Message: "cannot read the service's logs: " + err.Error()}
	}
	// What was printed before a secret was installed may contain it.
	hide := s.currentRedactor().OnlyValues
	r.Stdout, r.Stderr = hide(r.Stdout), hide(r.Stderr)
	r.Truncated = r.StdoutTruncated || r.StderrTruncated
	return r, nil
}
