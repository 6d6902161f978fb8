package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// source is something that prints in the background.
type source struct {
	id   string
	read func(context.Context, paddock.ExecCursors, time.Duration) (paddock.ExecOutput, error)
}

// printed is where the output of a source goes.
type printed struct {
	stdout, stderr io.Writer // nil drops
	// notes gets a line for each gap; nil: nothing.
	notes                  io.Writer
	stdoutLost, stderrLost int64 // bytes of all gaps
}

// copy writes what is stored of a source, and with follow what comes, until it ends or the
// caller interrupts. It returns the source's last state.
func (p *printed) copy(ctx context.Context, from source, follow bool, stream *op.Stream) (paddock.ExecStatus, error) {
	var wait time.Duration
	following := ctx
	if follow {
		wait = time.Minute
		var stop func()
		following, stop = stream.UntilInterrupted(ctx)
		defer stop()
	}
	last, err := p.pass(following, from, wait)
	if ctx.Err() == nil && following.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return last, err
}

// pass writes what is stored and, if wait is not 0, what comes, until the source ends.
func (p *printed) pass(ctx context.Context, from source, wait time.Duration) (last paddock.ExecStatus, err error) {
	for at := (paddock.ExecCursors{}); ; {
		out, err := from.read(ctx, at, wait)
		if err != nil {
			return last, err
		}
		last, at = out.ExecStatus, out.Next
		for _, s := range []struct {
			name string
			to   io.Writer
			data []byte
			gap  int64
			lost *int64
		}{{"standard output", p.stdout, out.Stdout, out.StdoutDropped, &p.stdoutLost}, {"standard error", p.stderr, out.Stderr, out.StderrDropped, &p.stderrLost}} {
			if s.to == nil {
				continue
			}
			*s.lost += s.gap
			if s.gap > 0 && p.notes != nil {
				if _, err := fmt.Fprintf(p.notes, "paddock: %d bytes of the %s of %s are missing: they are not stored any more\n", s.gap, s.name, from.id); err != nil {
					return last, err
				}
			}
			if _, err := s.to.Write(s.data); err != nil {
				return last, err
			}
		}
		if out.Complete || wait == 0 && len(out.Stdout)+len(out.Stderr) == 0 {
			return last, nil
		}
	}
}

// maxLine is how much of a line is held back until its end, in bytes.
const maxLine = 64 << 10

// lines writes whole lines, each with a prefix. Several may write to one writer.
type lines struct {
	to     io.Writer
	turn   *sync.Mutex
	prefix string
	begun  []byte // a line without its end
}

// Write writes the lines that p completes.
func (l *lines) Write(p []byte) (int, error) {
	l.begun = append(l.begun, p...)
	return len(p), l.flush(false)
}

// Close writes the last line.
func (l *lines) Close() error { return l.flush(true) }

func (l *lines) flush(all bool) error {
	var out []byte
	for len(l.begun) > 0 {
		line, rest, whole := bytes.Cut(l.begun, []byte{'\n'})
		switch {
		case len(line) > maxLine:
			line, rest = line[:maxLine], l.begun[maxLine:]
		case !whole && !all:
			return l.write(out)
		}
		out = append(append(append(out, l.prefix...), line...), '\n')
		l.begun = rest
	}
	return l.write(out)
}

func (l *lines) write(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	_, err := l.to.Write(out)
	return err
}
