//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

func sessionCells() []cell {
	return []cell{
		{name: "session: keeps its state between commands", do: func(ctx context.Context, b *box) error {
			if err := b.openSession(ctx, "state"); err != nil {
				return err
			}
			_, err := b.inSession(ctx, "state", "X=kept; cd /; f() { printf '%s-%s' \"$X\" \"$PWD\"; }")
			if err != nil {
				return err
			}
			r, err := b.inSession(ctx, "state", "f; echo err >&2; (exit 3)")
			return errors.Join(err, same(printed(r, "stdout"), "kept-/"), same(printed(r, "stderr"), "err\n"), same(r.ExitCode, 3), b.closeSession(ctx, "state"))
		}},
		{name: "session: a timeout ends the command and what it started", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			if err := b.openSession(ctx, "time"); err != nil {
				return err
			}
			r, err := wire.Call(ctx, b.wire, wire.RunSession, wire.RunSessionRequest{
				SessionID: "time", Command: osstring.String("./probe daemon " + mark + "; ./probe sleep " + mark), Timeout: 1,
			})
			left := gone(mark)
			next, nerr := b.inSession(ctx, "time", "echo again")
			return errors.Join(err, must(r.TimedOut, "%+v", r), left, nerr, same(printed(next, "stdout"), "again\n"), b.closeSession(ctx, "time"))
		}},
		{name: "session: its lines are bounded and counted", do: func(ctx context.Context, b *box) error {
			if err := b.openSession(ctx, "lines"); err != nil {
				return err
			}
			r, err := b.inSession(ctx, "lines", "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done")
			return errors.Join(err, must(r.TruncatedByLines && r.TotalLines == 500, "%d lines, truncated %v", r.TotalLines, r.TruncatedByLines), b.closeSession(ctx, "lines"))
		}},
		{name: "session: bytes that are not UTF-8", do: func(ctx context.Context, b *box) error {
			if err := b.openSession(ctx, "bytes"); err != nil {
				return err
			}
			_, err := b.inSession(ctx, "bytes", "mkdir caf\xe9 && cd caf\xe9")
			r, werr := b.inSession(ctx, "bytes", "rmdir ../caf\xe9 && echo $?")
			return errors.Join(err, werr, must(r.ExitCode == 0 && path.Base(string(r.Cwd)) == "caf\xe9", "%+v", r), b.closeSession(ctx, "bytes"))
		}},
		{name: "session: many commands one after the other", do: func(ctx context.Context, b *box) error {
			s, err := b.s.OpenSession(ctx, paddock.SessionOptions{})
			if err != nil {
				return err
			}
			for i := range commands(300) { // over one connection, which is kept
				if r, err := s.Run(ctx, paddock.SessionCommand{Text: inDoors}); err != nil || r.ExitCode != 7 {
					return errors.Join(fmt.Errorf("command %d: %+v", i, r), err, s.Close())
				}
			}
			return s.Close()
		}},
		{name: "session: its end is that of all it started", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			if err := b.openSession(ctx, "end"); err != nil {
				return err
			}
			_, err := b.inSession(ctx, "end", "./probe sleep "+mark+" &")
			return errors.Join(err, await(ctx, mark, some), b.closeSession(ctx, "end"), gone(mark))
		}},
	}
}

func (b *box) openSession(ctx context.Context, id string) error {
	_, err := wire.Call(ctx, b.wire, wire.OpenSession, wire.OpenSessionRequest{
		SessionID: id, Cwd: "/workspace", CommandTimeout: 30, StartupTimeout: 30, TerminationTimeout: 10, MaxOutputLines: 100,
	})
	return err
}

func (b *box) inSession(ctx context.Context, id, command string) (wire.RunSessionResult, error) {
	return wire.Call(ctx, b.wire, wire.RunSession, wire.RunSessionRequest{SessionID: id, Command: osstring.String(command)})
}

func (b *box) closeSession(ctx context.Context, id string) error {
	r, err := wire.Call(ctx, b.wire, wire.CloseSession, wire.SessionRequest{SessionID: id})
	return errors.Join(err, must(err != nil || r.DeathProved, "its end is not proved"))
}

// printed returns what went to one stream.
func printed(r wire.RunSessionResult, stream string) string {
	text := ""
	for _, chunk := range r.Output {
		if chunk.Stream == stream {
			text += chunk.Data
		}
	}
	return text
}
