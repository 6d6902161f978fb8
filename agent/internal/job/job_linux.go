// Package job keeps commands that run in the background: each outlives the request that
// started it, and its output is stored within bounds and read by position.
package job

import (
	"context"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/wire"
)

// keptOutput is how much of the end of each stream is stored, in bytes.
const keptOutput = 4 << 20

// job is a command in the background. The table's lock guards what follows ended.
type job struct {
	about  wire.BackgroundExec // as it was when it started
	hidden *core.Redactor      // of secrets that were set later
	cancel context.CancelFunc  // kills it with its tree
	ended  chan struct{}       // closed when its tree and its output have ended

	stdout, stderr core.Ring
	changed        core.Change
	endedAt        *float64
	result         *wire.ExecResult // nil while it runs
}

// output is a stream of a job, which its command writes.
type output struct {
	table *Table
	job   *job
	ring  *core.Ring
}

// Write stores p. It never fails.
func (o *output) Write(p []byte) (int, error) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	before := o.ring.Size()
	n, err := o.ring.Write(p)
	o.table.stored += o.ring.Size() - before
	o.table.makeRoom()
	if n > 0 {
		o.job.changed.Notify()
	}
	return n, err
}

// run waits for the command's end, and keeps how it ended.
func (t *Table) run(ctx context.Context, j *job, c *exec.Command) {
	defer j.cancel()
	res := c.Finish(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	j.result, j.endedAt = res, core.Now()
	j.changed.Notify()
	close(j.ended)
	t.evict()
}

// describe returns what is known of a job. The lock is held.
func (j *job) describe() wire.BackgroundExec {
	r := j.about
	r.Command = j.hidden.OnlyValues(r.Command)
	r.StdoutBytes, r.StderrBytes = j.stdout.End(), j.stderr.End()
	if j.result != nil {
		res := *j.result
		res.StdoutBytes, res.StdoutTruncated = r.StdoutBytes, j.stdout.Start() > 0
		res.StderrBytes, res.StderrTruncated = r.StderrBytes, j.stderr.Start() > 0
		r.State, r.EndedAt, r.Result = wire.ExecEnded, j.endedAt, &res
	}
	return r
}

// part returns what is stored of a stream from a cursor on.
func part(ring *core.Ring, cursor, limit int64) wire.StreamPart {
	data, at := ring.Read(cursor, limit)
	if data == nil {
		data = []byte{} // which is "" in JSON, not null
	}
	next := at + int64(len(data))
	return wire.StreamPart{Cursor: at, NextCursor: next, Data: data, DroppedBytes: max(0, at-cursor), More: next < ring.End()}
}
