package job

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// maxRunning bounds the jobs that run at a time.
	maxRunning = 64
	// maxEnded is how many of those that have ended are kept, the last ones.
	maxEnded = 256
	// maxStored bounds the stored output of all jobs, in bytes.
	maxStored = 32 << 20
)

// Table holds the jobs that run, and the last of those that have ended.
type Table struct {
	box    *core.Sandbox
	hidden *core.Redactor

	mu       sync.Mutex
	starting int    // how many are being started
	jobs     []*job // oldest first
	stored   int    // the output of all, in bytes
}

// New returns an empty table.
func New(box *core.Sandbox) *Table { return &Table{box: box, hidden: box.OnlySecrets()} }

// Start starts a command in the background.
func (t *Table) Start(q *wire.ExecRequest) (*wire.BackgroundExec, error) {
	if err := check(q); err != nil {
		return nil, err
	}
	if err := t.reserve(); err != nil {
		return nil, err
	}
	if q.TimeoutSeconds == nil {
		q.TimeoutSeconds = new(float64) // none, for a command text too
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{hidden: t.hidden, cancel: cancel, ended: make(chan struct{}), stdout: core.Ring{Limit: keptOutput}, stderr: core.Ring{Limit: keptOutput}}
	c, werr := exec.Start(t.box, q, &output{t, j, &j.stdout}, &output{t, j, &j.stderr})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting--
	if werr != nil {
		cancel()
		return nil, werr
	}
	q.Stdin = "" // which would else be kept until the end
	j.about = wire.BackgroundExec{ID: c.ID, Command: c.Text(), State: wire.ExecRunning, StartedAt: core.UnixTime(c.Started())}
	t.jobs = append(t.jobs, j)
	go t.run(ctx, j, c)
	r := j.describe()
	return &r, nil
}

// check refuses what only a command with a client can have.
func check(q *wire.ExecRequest) error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"stream", q.Stream}, {"tty", q.TTY != nil}, {"pass", len(q.Pass) > 0}, {"detach", q.Detach}, {"max_output_bytes", q.MaxOutputBytes != 0}} {
		if f.given {
			return core.BadField(f.name, "a command in the background cannot have "+f.name)
		}
	}
	limit := wire.MaxBackgroundStdin
	if q.Encoding == "base64" {
		limit = base64.StdEncoding.EncodedLen(limit)
	}
	if len(q.Stdin) > limit {
		return core.BadField("stdin", fmt.Sprintf("stdin of a command in the background must be at most %d bytes", wire.MaxBackgroundStdin))
	}
	return nil
}

// reserve makes sure that one more may run.
func (t *Table) reserve() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	running := t.starting
	for _, j := range t.jobs {
		if j.result == nil {
			running++
		}
	}
	if running >= maxRunning {
		return &wire.Error{Code: wire.CodeBusy, Message: fmt.Sprintf("cannot start the command: %d run in the background", maxRunning),
			Hint: "wait until one has ended, or end one"}
	}
	t.starting++
	return nil
}

// makeRoom drops output until the rest is within the bound. The lock is held.
func (t *Table) makeRoom() {
	for t.stored > maxStored && t.dropSome() {
	}
}

// dropSome drops all output of the oldest job that has ended, or else the beginning of the
// longest stream. It reports whether there was any. The lock is held.
func (t *Table) dropSome() bool {
	var longest *core.Ring
	for _, j := range t.jobs {
		if j.result != nil && j.stdout.Size()+j.stderr.Size() > 0 {
			t.drop(j)
			return true
		}
		for _, ring := range []*core.Ring{&j.stdout, &j.stderr} {
			if longest == nil || ring.Size() > longest.Size() {
				longest = ring
			}
		}
	}
	if longest == nil || longest.Size() == 0 {
		return false
	}
	before := longest.Size()
	longest.DropChunk()
	t.stored -= before - longest.Size()
	return true
}

// drop drops the output of a job. The lock is held.
func (t *Table) drop(j *job) {
	t.stored -= j.stdout.Size() + j.stderr.Size()
	j.stdout.Drop()
	j.stderr.Drop()
}

// evict forgets the oldest of those that have ended. The lock is held.
func (t *Table) evict() {
	ended := 0
	for _, j := range t.jobs {
		if j.result != nil {
			ended++
		}
	}
	t.jobs = slices.DeleteFunc(t.jobs, func(j *job) bool {
		old := ended > maxEnded && j.result != nil
		if old {
			ended--
			t.drop(j)
		}
		return old
	})
}

// find returns the job with the id of a request.
func (t *Table) find(id string) (*job, error) {
	if id = strings.TrimSpace(id); id == "" {
		return nil, core.BadField("id", "id is required")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if j.about.ID == id {
			return j, nil
		}
	}
	return nil, &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "no command in the background has the id " + id}
}

// List returns all jobs, oldest first.
func (t *Table) List(*wire.ListExecsRequest) (*wire.ListExecsResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &wire.ListExecsResult{Execs: make([]wire.BackgroundExec, len(t.jobs))}
	for i, j := range t.jobs {
		r.Execs[i] = j.describe()
	}
	return r, nil
}

// Read returns output from the cursors on. Without new output it waits as long as the
// request says, or until the job has ended.
func (t *Table) Read(ctx context.Context, q *wire.ReadExecRequest) (*wire.ReadExecResult, error) {
	if err := core.CheckRead(q.StdoutCursor, q.StderrCursor, q.MaxBytes, q.WaitMS); err != nil {
		return nil, err
	}
	j, err := t.find(q.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMS)*time.Millisecond)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	for j.result == nil && j.stdout.End() <= q.StdoutCursor && j.stderr.End() <= q.StderrCursor && ctx.Err() == nil {
		changed := j.changed.Wait()
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		t.mu.Lock()
	}
	return &wire.ReadExecResult{BackgroundExec: j.describe(),
		Stdout: part(&j.stdout, q.StdoutCursor, q.MaxBytes), Stderr: part(&j.stderr, q.StderrCursor, q.MaxBytes)}, nil
}

// Signal sends a signal to the process group of a job.
func (t *Table) Signal(q *wire.SignalExecRequest) (*wire.SignalExecResult, error) {
	j, err := t.find(q.ID)
	if err != nil {
		return nil, err
	}
	sent, err := t.box.SignalByID(&wire.SignalRequest{ID: j.about.ID, Signal: q.Signal})
	if werr := (*wire.Error)(nil); errors.As(err, &werr) && werr.Code == wire.CodeNotFound {
		err = &wire.Error{Code: wire.CodeConflict, Object: j.about.ID, Message: "cannot signal " + j.about.ID + ": it has ended"}
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &wire.SignalExecResult{BackgroundExec: j.describe(), Signal: sent.Signal}, nil
}

// Kill kills the whole tree of a job, and returns how it ended. For a job that has
// ended, it returns that.
func (t *Table) Kill(q *wire.ExecIDRequest) (*wire.BackgroundExec, error) {
	j, err := t.find(q.ID)
	if err != nil {
		return nil, err
	}
	j.cancel()
	select {
	case <-j.ended:
	case <-time.After(3 * spawn.KillTimeout):
		return nil, &wire.Error{Code: wire.CodeFailed, Object: j.about.ID, Message: "cannot kill " + j.about.ID + ": the kernel does not end it",
			Hint: "a process waits in the kernel, for a disk or a file system perhaps"}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := j.describe()
	return &r, nil
}
