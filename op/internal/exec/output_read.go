package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

const (
	maxOutputWait = 10 * time.Minute
	// gather is how long a waiting call collects more output after the first: a client that
	// follows a command line by line would otherwise need a call for each line.
	gather = 200 * time.Millisecond
)

type OutputReadInput struct{ output.OutputReadInput }

func (OutputReadInput) Desc() op.Desc {
	return op.Desc{
		Name: "output_read", Summary: "Read output of a command by cursor, also while it runs",
		Doc: `Read what a command printed: the rest of output for which an answer had no room,
or the output of a background exec so far. output is the exec's id, or the id in
an answer; stream is stdout or stderr. Reading starts at cursor and continues at
the answer's next_cursor; eof says that nothing is left. tail returns the last
lines instead. With wait the call returns soon after there is something new, or
the command has ended: to follow a command, call again with next_cursor instead
of polling. Text is UTF-8 without control sequences; base64 is every byte as it
was printed.

The first and the last 16 MiB of each stream are kept, and by a sandbox itself the
last 4 MiB of what runs in the background; lost_bytes says how many bytes before the
text are missing. Outputs are dropped with their sandbox; if there
are too many, the oldest of ended commands are dropped first.`,
		Lasting: true, Profile: op.ProfileRun | op.ProfileWorkspace, // answers of run have ids for it
		Hints: op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true},
	}
}

func (in OutputReadInput) check() error {
	if in.Cursor != nil && in.Tail != nil {
		return &policy.FieldError{Field: "tail", Reason: "a cursor is given, too", Hint: "give one of the two"}
	}
	if err := errors.Join(op.OneOf("stream", in.Stream, "stdout", "stderr"), op.OneOf("encoding", in.Encoding, "text", "base64")); err != nil {
		return err
	}
	if in.Wait != nil && (*in.Wait < 0 || time.Duration(*in.Wait) > maxOutputWait) {
		return &policy.FieldError{Field: "wait", Value: in.Wait.String(), Reason: "it must be from 0s to 10m"}
	}
	return nil
}

// Do reads the output, and waits for more if the input asks for that.
func (in OutputReadInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (output.OutputReadOutput, error) {
	if err := in.check(); err != nil {
		return output.OutputReadOutput{}, err
	}
	n, err := env.Outputs.Find(env.PrincipalName(), in.Output)
	if errors.Is(err, paddock.ErrNotFound) && env.Sandboxes != nil {
		env.AdoptJobs(ctx) // it may be of a command that another server has started
		n, err = env.Outputs.Find(env.PrincipalName(), in.Output)
	}
	if err != nil {
		return output.OutputReadOutput{}, err
	}
	limit := env.Room(20000)
	if in.Limit != nil {
		limit = min(int(*in.Limit), env.Room(1<<20))
	}
	var late <-chan time.Time
	gathers := false
	if in.Wait != nil && *in.Wait > 0 {
		timer := time.NewTimer(time.Duration(*in.Wait))
		defer timer.Stop()
		late = timer.C
		defer stream.ReportProgress(time.Duration(*in.Wait), n.Printed)()
	}
	for {
		out, more, err := n.Part(in.OutputReadInput, limit)
		switch {
		case err != nil:
			return output.OutputReadOutput{}, err
		case late == nil || out.Ended || out.NextCursor < out.TotalBytes && out.NextCursor > out.Cursor:
			return out, nil
		case out.NextCursor > out.Cursor && !gathers:
			gathers, late = true, time.After(gather)
		}
		select {
		case <-more:
		case <-late:
			late = nil
		case <-ctx.Done():
			return output.OutputReadOutput{}, fmt.Errorf("cannot wait for output: %w", ctx.Err())
		}
	}
}
