//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/wire"
)

func lifeCells() []cell {
	return []cell{
		{name: "attach: commands beside the owner", do: func(ctx context.Context, b *box) error {
			return b.attached(ctx, func(s *paddock.Sandbox) error {
				out, err := s.Command(ctx, "echo", "attached").Output()
				return errors.Join(err, same(string(out), "attached\n"), same(s.Isolation().Backend, b.s.Isolation().Backend))
			})
		}},
		{name: "attach: a shell goes on where it was", do: func(ctx context.Context, b *box) error {
			if err := errors.Join(openShell(ctx, b.wire, "on"), writeShell(ctx, b.wire, "on", "X=kept; echo fi''rst")); err != nil {
				return err
			}
			_, next, err := readShell(ctx, b.wire, "on", 0, "first")
			if err != nil {
				return err
			}
			return b.attached(ctx, func(s *paddock.Sandbox) error {
				if err := writeShell(ctx, s.Client(), "on", "echo $X-second"); err != nil {
					return err
				}
				text, _, err := readShell(ctx, s.Client(), "on", next, "kept-second")
				return errors.Join(err, must(!strings.Contains(text, "first"), "what was read before comes again: %q", text))
			})
		}},
		{name: "attach: the output of a service", do: func(ctx context.Context, b *box) error {
			if _, err := b.service(ctx, "beside", "echo hello; touch beside; exec sleep 1000", `{"type":"file","path":"/workspace/beside"}`); err != nil {
				return err
			}
			return errors.Join(b.attached(ctx, func(s *paddock.Sandbox) error {
				r, err := wire.Call(ctx, s.Client(), wire.LogsService, wire.LogsServiceRequest{ServiceName: "beside"})
				return errors.Join(err, same(r.Stdout, "hello\n"))
			}), b.stop(ctx, "beside"))
		}},
		{name: "end: nothing is left", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			before, err := b.remains(ctx)
			if err != nil {
				return err
			}
			fresh, err := b.open(ctx, nil)
			if err != nil {
				return err
			}
			err = fresh.s.Command(ctx, "./probe", "sleep", mark).Start()
			if err == nil {
				err = await(ctx, mark, some)
			}
			err = errors.Join(err, fresh.close(), gone(mark))
			after, aerr := b.remains(ctx)
			return errors.Join(err, aerr, same(after, before))
		}},
		{name: "end: its own is told", do: func(ctx context.Context, b *box) error {
			fresh, err := b.open(ctx, nil)
			if err != nil {
				return err
			}
			err = fresh.close()
			run := fresh.s.Command(ctx, "true").Run()
			return errors.Join(err, must(fresh.ended(), "Done is open"), must(errors.Is(run, paddock.ErrClosed), "a command gives %v", run))
		}},
		{name: "end: an owner that is killed takes all with it", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			owner, err := b.startOwner(ctx, mark)
			if err != nil {
				return err
			}
			seen := await(ctx, mark, some)
			_ = owner.Process.Kill()
			_ = owner.Wait()
			return errors.Join(seen, await(ctx, mark, none))
		}},
		{name: "end: what a killed owner left goes with the next start", do: func(ctx context.Context, b *box) error {
			sweep := func() error {
				next, err := b.open(ctx, nil)
				if err != nil {
					return err
				}
				return next.close()
			}
			serr := sweep()
			before, err := b.remains(ctx)
			if err := errors.Join(serr, err); err != nil {
				return err
			}
			mark := newMark()
			owner, err := b.startOwner(ctx, mark)
			if err != nil {
				return err
			}
			_ = owner.Process.Kill()
			_ = owner.Wait()
			err = await(ctx, mark, none)
			serr = sweep()
			after, aerr := b.remains(ctx)
			return errors.Join(err, serr, aerr, same(after, before))
		}},
	}
}

// attached has do use a second handle on the sandbox.
func (b *box) attached(ctx context.Context, do func(*paddock.Sandbox) error) error {
	s, err := paddock.Attach(ctx, b.s.ID(), b.options())
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// remains returns what sandboxes have outside of themselves, as text: their state,
// mounts, control groups, temporary files and containers.
func (b *box) remains(ctx context.Context) (string, error) {
	var all []string
	dirs, err := os.ReadDir(filepath.Join(b.state, "sandboxes"))
	for _, d := range dirs {
		all = append(all, "state "+d.Name())
	}
	mounts, merr := os.ReadFile("/proc/self/mountinfo")
	all = append(all, fmt.Sprint("mounts ", strings.Count(string(mounts), b.host.dir)))
	temporary, terr := os.ReadDir(os.TempDir()) // of these tests alone
	for _, d := range temporary {
		all = append(all, "temporary "+d.Name())
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil // there was no sandbox yet
	}
	merr = errors.Join(merr, terr)
	if b.Left != nil {
		left, lerr := b.Left(ctx)
		merr = errors.Join(merr, lerr)
		all = append(all, left...)
	}
	return strings.Join(all, "\n"), errors.Join(err, merr)
}
