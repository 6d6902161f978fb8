package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/output"
)

// maxCommand bounds the stored text of a command, in bytes.
const maxCommand = 1 << 10

// StoredCommand returns as much of a command's text as is stored. Secrets are hidden when it is
// shown; in a longer one before, since it may be cut within one.
func (h *Sandbox) StoredCommand(command string) string {
	if len(command) > maxCommand {
		command = h.Hide(context.Background(), command)[0]
	}
	return text.Truncate(command, maxCommand)
}

// StartJob starts a command that belongs to the sandbox, and copies its output to an output of
// the principal.
func (h *Sandbox) StartJob(cmd *paddock.Cmd, command string, limit TimeLimit, outputs *output.Outputs) (*Exec, error) {
	h.adopting.Lock() // or else it would be adopted meanwhile
	defer h.adopting.Unlock()
	began := time.Now()
	job, err := cmd.StartBackground()
	if err != nil {
		return nil, err
	}
	x := h.newJob(job, command, began, outputs)
	x.Limit = limit
	if err := h.Execs.Add(x); err != nil {
		x.End()
		x.Out.Drop()
		return nil, err
	}
	go h.copyJob(x, paddock.ExecCursors{})
	return x, nil
}

func (h *Sandbox) newJob(job *paddock.Exec, command string, began time.Time, outputs *output.Outputs) *Exec {
	x := &Exec{Out: outputs.NewNamed(h.Principal, h.jobName(job.ID())), Command: h.StoredCommand(command), Began: began, Job: job, Done: make(chan struct{})}
	x.copying, x.leave = context.WithCancel(context.Background())
	x.End = func() {
		ctx, cancel := context.WithTimeout(context.Background(), EndTime)
		defer cancel()
		if _, err := job.Kill(ctx); err != nil && !errors.Is(err, paddock.ErrNotFound) && !errors.Is(err, paddock.ErrClosed) {
			_ = h.Sandbox.End() // its agent does not answer
		}
	}
	return x
}

// jobName returns the id that a command of the sandbox has for its principal, whose other
// sandboxes have commands of the same ids. It is the same in each server.
func (h *Sandbox) jobName(id string) string {
	_, own, _ := strings.Cut(h.ID(), "-")
	return id + "-" + text.Prefix(own, 7)
}

// AdoptJobs finds the commands in the sandbox that other servers have started, and copies what
// they have printed.
func (h *Sandbox) AdoptJobs(ctx context.Context, outputs *output.Outputs) error {
	h.adopting.Lock()
	defer h.adopting.Unlock()
	list, err := h.Sandbox.Execs(ctx)
	if err != nil {
		return err
	}
	for _, one := range list {
		if h.Execs.Find(h.jobName(one.ID)) != nil {
			continue
		}
		x := h.newJob(h.Sandbox.Exec(one.ID), strings.TrimPrefix(one.Command, "/bin/sh -c "), one.Started, outputs)
		if err := h.Execs.Add(x); err != nil {
			x.Out.Drop()
			return err
		}
		at := paddock.ExecCursors{}
		for at.Stdout < one.StdoutBytes || at.Stderr < one.StderrBytes { // cursors of the principal may be there
			var out paddock.ExecOutput
			if out, err = x.copyPart(ctx, at, 0); err != nil || out.Next == at {
				break
			}
			at = out.Next
		}
		go h.copyJob(x, at)
	}
	return nil
}

// copyPart copies what is stored from the cursors on, and waits for some.
func (x *Exec) copyPart(ctx context.Context, at paddock.ExecCursors, wait time.Duration) (paddock.ExecOutput, error) {
	out, err := x.Job.Read(ctx, at, wait)
	if err != nil {
		return out, err
	}
	for i, part := range []struct {
		dropped int64
		data    []byte
	}{{out.StdoutDropped, out.Stdout}, {out.StderrDropped, out.Stderr}} {
		side := x.Out.Side(i)
		side.Skip(part.dropped)
		_, _ = side.Write(part.data) // it never fails
	}
	return out, nil
}

// jobRetry is how long a copy waits after the agent has not answered.
const jobRetry = time.Second

// copyJob copies the output of a command until it has ended, or the server does.
func (h *Sandbox) copyJob(x *Exec, at paddock.ExecCursors) {
	defer close(x.Done)
	for {
		out, err := x.copyPart(x.copying, at, time.Minute)
		switch {
		case err == nil && out.Complete:
			h.endJob(x, out.Result)
			return
		case err == nil:
			at = out.Next
		case x.copying.Err() != nil || errors.Is(err, paddock.ErrNotFound) || errors.Is(err, paddock.ErrClosed) || h.Ended():
			x.Err = h.Explain(err)
			x.Out.End(x.How())
			return
		default:
			select {
			case <-h.Done():
			case <-x.copying.Done():
			case <-time.After(jobRetry):
			}
		}
	}
}

// endJob records how a command has ended, and what it was refused.
func (h *Sandbox) endJob(x *Exec, r *paddock.Result) {
	x.Result = r
	var refused []paddock.Denial
	if !r.Success() {
		r.Denials = h.GuessBackgroundDenials(r, append(x.Out.Side(0).Bytes(), x.Out.Side(1).Bytes()...), x.Command)
		refused = r.Denials
	}
	x.Out.End(x.How(), refused...)
}
