package core

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// SignalJob sends a signal to the process group in the foreground of a command's
// terminal, or to the command's own group if it has no terminal.
func (box *Sandbox) SignalJob(p *spawn.Process, sig unix.Signal) error {
	group := p.PID
	if p.Terminal != nil {
		if g := spawn.Foreground(p.Terminal); g > 0 {
			group = g
		}
	}
	return box.Reaper.Signal(p, group, sig)
}

// SignalNumber returns the signal that a name stands for, with or without "SIG", 0
// for an unknown one.
func SignalNumber(name string) unix.Signal {
	if len(name) < 3 || name[:3] != "SIG" {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}

// registry holds the running execs, shells, sessions and services, by an id that is
// used once.
type registry struct {
	Use *Use // nil if nobody wants to know

	mu      sync.Mutex
	last    uint64
	entries map[string]*entry
}

// entry is one running exec, shell, session or service.
type entry struct {
	ID, Kind, Name string
	order          uint64
	process        *spawn.Process

	// inUse is held while the tree is used, so that its mark is not closed meanwhile.
	inUse sync.RWMutex
	gone  bool
}

// Add registers an "exec", a "shell", a "session" or a "service" that has just been
// started. The caller must remove it before the process's mark is closed.
func (r *registry) Add(kind, name string, p *spawn.Process) (id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string]*entry{}
	}
	r.last++
	r.Use.Begin()
	prefix := kind[:1]
	if kind != "exec" {
		prefix = kind[:2] // the other kinds begin with the same letter
	}
	id = prefix + strconv.FormatUint(r.last, 10)
	r.entries[id] = &entry{ID: id, Kind: kind, Name: ShortName(name), order: r.last, process: p}
	return id
}

// Remove removes an entry, and returns once nobody uses its tree.
func (r *registry) Remove(id string) {
	r.mu.Lock()
	e := r.entries[id]
	delete(r.entries, id)
	r.mu.Unlock()
	if e == nil {
		return
	}
	r.Use.End()
	e.inUse.Lock()
	defer e.inUse.Unlock()
	e.gone = true
}

// All lists the entries by age.
func (r *registry) All() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*entry, 0, len(r.entries))
	for _, e := range r.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	return list
}

// With calls do unless the entry was removed, and keeps its mark open meanwhile. It
// reports whether it called do.
func (e *entry) With(do func(*spawn.Process)) bool {
	e.inUse.RLock()
	defer e.inUse.RUnlock()
	if !e.gone {
		do(e.process)
	}
	return !e.gone
}

// withID calls With for the entry of an id.
func (r *registry) withID(id string, do func(*spawn.Process)) error {
	if id = strings.TrimSpace(id); id == "" {
		return &wire.Error{Code: wire.CodeBadRequest, Object: "id", Message: "id is required"}
	}
	r.mu.Lock()
	e := r.entries[id]
	r.mu.Unlock()
	if e == nil || !e.With(do) {
		return noSuch(id)
	}
	return nil
}

func noSuch(id string) error {
	return &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "no exec, shell or service has the id " + id}
}

// SignalByID sends a signal to the job of the exec, shell or service with an id.
func (box *Sandbox) SignalByID(q *wire.SignalRequest) (*wire.SignalResult, error) {
	sig := SignalNumber(strings.ToUpper(strings.TrimSpace(q.Signal)))
	if sig == 0 {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: "signal", Message: "unknown signal " + strconv.Quote(q.Signal)}
	}
	var failed error
	if err := box.Running.withID(q.ID, func(p *spawn.Process) { failed = box.SignalJob(p, sig) }); err != nil {
		return nil, err
	}
	var errno unix.Errno
	switch {
	case errors.Is(failed, unix.ESRCH):
		return nil, noSuch(q.ID) // it has ended, and is about to be removed
	case errors.As(failed, &errno):
		return nil, &wire.Error{Code: wire.CodeFailed, Object: q.ID, Errno: int(errno), Message: "cannot signal " + q.ID + ": " + errno.Error()}
	case failed != nil:
		return nil, failed
	}
	return &wire.SignalResult{ID: q.ID, Signal: unix.SignalName(sig)}, nil
}

// Release forgets a command whose tree was killed, if that is proved. Else, as long as some of the
// tree is found, it still counts as running, and is killed again until nothing is left.
func (box *Sandbox) Release(id string, p *spawn.Process, proved bool) {
	if !proved {
		if n, _ := box.Trees.Count(p.Mark); n > 0 {
			go func() {
				for wait := time.Second; !proved; wait = min(2*wait, time.Minute) {
					time.Sleep(wait)
					_, proved = box.Trees.Kill(p.Mark)
				}
				box.Release(id, p, true)
			}()
			return
		}
	}
	box.Running.Remove(id)
	p.Mark.Close()
}

// KillByID kills the whole tree of the exec, shell or service with an id.
func (box *Sandbox) KillByID(q *wire.KillRequest) (*wire.KillResult, error) {
	res := &wire.KillResult{ID: q.ID}
	err := box.Running.withID(q.ID, func(p *spawn.Process) { res.Killed, res.DeathProved = box.Trees.Kill(p.Mark) })
	if err != nil {
		return nil, err
	}
	return res, nil
}
