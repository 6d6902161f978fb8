package agent

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/beneath"
	"github.com/paddock-dev/paddock/wire"
)

// outputGrace is how long a command's output is awaited after its exit,
// while a process that it left behind still holds the pipe.
const outputGrace = 100 * time.Millisecond

// sandbox is what every verb that runs a command needs: how to start one, what
// it may use, and what runs already.
type sandbox struct {
	spawner *spawn.Spawner
	reaper  *spawn.Reaper
	trees   *spawn.Trees
	env     map[string]string
	// ownPath says that PATH was chosen for what is visible behind these walls, and
	// is not what the files of login shells say.
	ownPath bool
	limits  confine.Rlimits // of each process of every command
	// addressSpace is one more of them, in bytes.
	addressSpace uint64
	workspace    string      // its path, as commands know it
	workspaceDir beneath.Dir // the same, as the agent reaches it
	running      registry
	vault        vault
}

// real is a path of the protocol as commands know it.
func (box *sandbox) real(p filePath) string {
	return strings.Join(append([]string{strings.TrimRight(box.workspace, "/")}, p.names...), "/")
}

// unixTime returns a time as the protocol tells it: seconds since 1970.
func unixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// now returns the time as the protocol tells it.
func now() *float64 {
	t := unixTime(time.Now())
	return &t
}

// registry holds what runs: execs, shells and services, by an id that is
// given once.
type registry struct {
	mu      sync.Mutex
	last    uint64
	entries map[string]*entry
}

// entry is one running exec, shell or service.
type entry struct {
	id, kind, name string
	order          uint64
	process        *spawn.Process

	// inUse is held by those who deal with the tree, so that its mark is not
	// closed meanwhile.
	inUse sync.RWMutex
	gone  bool
}

// maxName bounds the name of an entry, in bytes.
const maxName = 256

// add registers what has just been started: an "exec", a "shell" or a
// "service". Whoever adds must remove, before the process's mark is closed.
func (r *registry) add(kind, name string, p *spawn.Process) (id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string]*entry{}
	}
	r.last++
	prefix := kind[:1]
	if kind != "exec" {
		prefix = kind[:2] // shell and service begin alike
	}
	id = prefix + strconv.FormatUint(r.last, 10)
	r.entries[id] = &entry{id: id, kind: kind, name: shortName(name), order: r.last, process: p}
	return id
}

func shortName(name string) string { return shorten(name, maxName) }

// shorten cuts a text that has more than limit bytes, at a character.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// remove takes an entry out, and returns once nobody deals with its tree.
func (r *registry) remove(id string) {
	r.mu.Lock()
	e := r.entries[id]
	delete(r.entries, id)
	r.mu.Unlock()
	if e == nil {
		return
	}
	e.inUse.Lock()
	defer e.inUse.Unlock()
	e.gone = true
}

// all lists the entries by age.
func (r *registry) all() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*entry, 0, len(r.entries))
	for _, e := range r.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	return list
}

// with calls do while the tree of an entry is certainly there to be dealt
// with, and reports whether it was.
func (e *entry) with(do func(*spawn.Process)) bool {
	e.inUse.RLock()
	defer e.inUse.RUnlock()
	if !e.gone {
		do(e.process)
	}
	return !e.gone
}

// withID is with for an id.
func (r *registry) withID(id string, do func(*spawn.Process)) error {
	if id = strings.TrimSpace(id); id == "" {
		return &wire.Error{Code: wire.CodeBadRequest, Object: "id", Message: "id is required"}
	}
	r.mu.Lock()
	e := r.entries[id]
	r.mu.Unlock()
	if e == nil || !e.with(do) {
		return noSuch(id)
	}
	return nil
}

func noSuch(id string) error {
	return &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "no exec, shell or service has the id " + id}
}

func (box *sandbox) signalByID(q *wire.SignalRequest) (*wire.SignalResult, error) {
	sig := signalNumber(strings.ToUpper(strings.TrimSpace(q.Signal)))
	if sig == 0 {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: "signal", Message: "unknown signal " + strconv.Quote(q.Signal)}
	}
	var failed error
	if err := box.running.withID(q.ID, func(p *spawn.Process) { failed = box.signalJob(p, sig) }); err != nil {
		return nil, err
	}
	var errno unix.Errno
	switch {
	case errors.Is(failed, unix.ESRCH):
		return nil, noSuch(q.ID) // it has ended, and its end is being told
	case errors.As(failed, &errno):
		return nil, &wire.Error{Code: wire.CodeFailed, Object: q.ID, Errno: int(errno), Message: "cannot signal " + q.ID + ": " + errno.Error()}
	case failed != nil:
		return nil, failed
	}
	return &wire.SignalResult{ID: q.ID, Signal: unix.SignalName(sig)}, nil
}

func (box *sandbox) killByID(q *wire.KillRequest) (*wire.KillResult, error) {
	res := &wire.KillResult{ID: q.ID}
	err := box.running.withID(q.ID, func(p *spawn.Process) { res.Killed, res.DeathProved = box.trees.Kill(p.Mark) })
	if err != nil {
		return nil, err
	}
	return res, nil
}

// bounds are the limits that a command may have met, besides its time.
type bounds struct {
	oomKilled    bool
	forksRefused bool
	asked        wire.Limits // of the request for each process, 0 where it says nothing
	ended        bool        // the agent has killed it
}

// denials are what the tree of a process was refused since the last call: by the
// filter, and by limits. Refusals by mounts and Landlock are nowhere to be seen, so
// the list is never complete.
func (box *sandbox) denials(p *spawn.Process, b bounds) []wire.Denial {
	list := p.Denied.Take()
	limit := func(rule, hint string, guess bool) {
		list = append(list, wire.Denial{Layer: "limit", Rule: rule, Hint: hint, Guess: guess})
	}
	if b.oomKilled {
		limit("memory", "give it more memory: --memory", false)
	}
	if b.forksRefused {
		limit("processes", "let it start more: --processes", false)
	}
	select {
	case <-p.Done:
	default:
		return list
	}
	most := strictest(box.limits.CPUSeconds, b.asked.CPUSeconds)
	switch p.Status.Signal() { // which commands send each other, too
	case unix.SIGXCPU:
		if most > 0 {
			limit("cpu_time", moreTime, false)
		}
	case unix.SIGKILL: // programs that ignore SIGXCPU, as those of Go do, get it a second later
		used := time.Duration(p.Usage.Utime.Nano() + p.Usage.Stime.Nano())
		if most > 0 && uint64(used/time.Second) >= most && !b.oomKilled && !b.ended {
			limit("cpu_time", moreTime, true)
		}
	case unix.SIGXFSZ:
		if strictest(box.limits.FileSize, b.asked.FileSizeBytes) > 0 {
			limit("file_size", "let it write larger files: --file-size", false)
		}
	}
	return list
}

const moreTime = "give it more processor time: --cpu-time"
