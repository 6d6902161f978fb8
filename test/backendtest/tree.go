//go:build linux

package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/paddock-dev/paddock"
)

// forking is a command that has a daemon beside it, and waits.
const forking = `./probe daemon "$1" && exec ./probe sleep "$1"`

func treeCells() []cell {
	return []cell{
		{name: "tree: a timeout ends all of it", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			cmd := b.s.Command(ctx, "sh", "-c", forking, "x", mark)
			cmd.Timeout = 1500 * time.Millisecond
			if err := cmd.Start(); err != nil {
				return err
			}
			seen := await(ctx, mark, func(n int) bool { return n >= 2 })
			err := cmd.Wait()
			return errors.Join(seen, must(errors.Is(err, paddock.ErrTimeout), "it is %v", err), gone(mark))
		}},
		{name: "tree: its death is proved", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", forking, "x", newMark())
			cmd.Timeout = 300 * time.Millisecond
			_ = cmd.Run()
			r := cmd.Result()
			return must(r != nil && r.TimedOut && r.DeathProved, "%+v", r)
		}},
		{name: "tree: the caller's end ends all of it", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			cmd := b.s.Command(own, "sh", "-c", forking, "x", mark)
			if err := cmd.Start(); err != nil {
				return err
			}
			seen := await(ctx, mark, func(n int) bool { return n >= 2 })
			cancel()
			err := cmd.Wait()
			return errors.Join(seen, must(errors.Is(err, context.Canceled), "it is %v", err), gone(mark))
		}},
		{name: "tree: what is left behind is killed", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			cmd := b.s.Command(ctx, "./probe", "daemon", mark)
			err := cmd.Run()
			r := cmd.Result()
			return errors.Join(err, gone(mark), must(r != nil && r.SurvivorsKilled > 0, "%+v", r))
		}},
		{name: "tree: what is detached lives on, until the end", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			fresh, err := b.open(ctx, nil)
			if err != nil {
				return err
			}
			cmd := fresh.s.Command(ctx, "./probe", "daemon", mark)
			cmd.Detach = true
			err = cmd.Run()
			lives := must(len(marked(mark)) > 0, "it has ended")
			return errors.Join(err, lives, fresh.close(), gone(mark))
		}},
	}
}

// gone reports whether no process has the mark, at once.
func gone(mark string) error {
	found := marked(mark)
	return must(len(found) == 0, "processes %v are left", found)
}
