package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

const (
	maxOutputWait = 10 * time.Minute
	// gather is how long one that waits is given what comes next, too: who follows
	// a command that prints line by line would ask for each of them.
	gather = 200 * time.Millisecond
)

// OutputReadInput asks for a part of an output.
type OutputReadInput struct{ output.OutputReadInput }

// Desc describes the operation output_read.
func (OutputReadInput) Desc() op.Desc {
	return op.Desc{
		Name: "output_read", Summary: "Read output of a command by cursor, also while it runs",
		Doc: `Read what a command printed: the rest of what an answer had no room for, or what
a background exec has printed so far. output is the exec's id, or the id that an
answer names; stream says which of the two. cursor is where to begin, and
next_cursor of the answer where to go on; eof says that nothing is left. tail
gives the last lines instead. With wait the call returns soon after there is
something new, or the command has ended: ask again with next_cursor to follow
it, instead of asking often. Text is UTF-8 without control sequences; base64 is
every byte as it was printed.

Of each stream the first and the last 16 MiB are kept; lost_bytes says how many
bytes before the text are not. Outputs are dropped with their sandbox, and the
oldest that have ended where there are too many.`,
		Lasting: true, Profile: op.ProfileRun | op.ProfileWorkspace, // answers of run name it
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

// Do runs the operation.
func (in OutputReadInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (output.OutputReadOutput, error) {
	if err := in.check(); err != nil {
		return output.OutputReadOutput{}, err
	}
	n, err := env.Outputs.Find(env.PrincipalName(), in.Output)
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
		defer stream.Beat(time.Duration(*in.Wait), n.Printed)()
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
