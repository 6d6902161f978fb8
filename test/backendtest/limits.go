//go:build linux

package backendtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

func limitCells() []cell {
	limited := func(change func(*policy.Limits)) func(*policy.Spec) {
		return func(s *policy.Spec) { change(&s.Limits) }
	}
	// told says whether a limit holds by the word of who keeps it.
	told := func(name string) func(context.Context, *box) error {
		return func(_ context.Context, b *box) error {
			how := b.s.Isolation().Limits
			return must(how[name] != "" && how[name] != "none", "the isolation tells nothing of it: %v", how)
		}
	}
	return []cell{
		{name: "limit: timeout", opens: limited(func(l *policy.Limits) { l.Timeout = policy.Duration(300 * time.Millisecond) }), do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "sleep", "100").Run()
			return must(errors.Is(err, paddock.ErrTimeout), "it is %v", err)
		}},
		{name: "limit: cpu_time", opens: limited(func(l *policy.Limits) { l.CPUTime = policy.Duration(time.Second) }), do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", "while :; do :; done")
			cmd.Timeout = 20 * time.Second
			_ = cmd.Run()
			r := cmd.Result()
			return must(r != nil && !r.TimedOut && r.Signal != "", "%+v", r)
		}},
		{name: "limit: file_size", opens: limited(func(l *policy.Limits) { l.FileSize = 32 * policy.MiB }), do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "sh", "-c", "head -c 40000000 /dev/zero > large").Run()
			if err == nil {
				return errors.New("it was written")
			}
			return b.sh(ctx, "wc -c < large | tr -d ' '", "33554432\n")
		}},
		{name: "limit: open_files", opens: limited(func(l *policy.Limits) { l.OpenFiles = 40 }), do: func(ctx context.Context, b *box) error {
			return b.sh(ctx, "ulimit -n; ulimit -Hn", "40\n40\n")
		}},
		{name: "limit: processes", opens: limited(func(l *policy.Limits) { l.Processes = 40 }), do: func(ctx context.Context, b *box) error {
			out, err := b.s.Command(ctx, "./probe", "fork", "100").CombinedOutput()
			return must(err != nil || strings.TrimSpace(string(out)) != "100", "there were 100")
		}},
		{name: "limit: tmp", opens: limited(func(l *policy.Limits) { l.Tmp = 2 * policy.MiB }), do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "sh", "-c", "head -c 4000000 /dev/zero > /tmp/large").Run()
			return must(err != nil, "it was written")
		}},
		{name: "limit: disk of a copied workspace", opens: func(s *policy.Spec) { s.Workspace.Mode, s.Limits.Disk = policy.ModeCopy, 32*policy.MiB }, do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "sh", "-c", "head -c 40000000 /dev/zero > large").Run()
			return must(err != nil, "it was written")
		}},
		{name: "limit: memory", opens: limited(func(l *policy.Limits) { l.Memory = 128 * policy.MiB }), do: tooMuchMemory},
		{name: "limit: memory, allowed to be weaker", opens: func(s *policy.Spec) {
			s.Limits.Memory, s.AllowDegraded = 128*policy.MiB, []string{policy.DegradeMemory}
		}, do: tooMuchMemory},
		{name: "limit: memory_high", opens: limited(func(l *policy.Limits) { l.MemoryHigh = 128 * policy.MiB }), do: told("memory_high")},
		{name: "limit: swap", opens: limited(func(l *policy.Limits) { l.Memory, l.Swap = 128*policy.MiB, policy.MiB }), do: told("swap")},
		{name: "limit: cpus", opens: limited(func(l *policy.Limits) { l.CPUs = 500 }), do: told("cpus")},
		{name: "limit: one of a single command", do: func(ctx context.Context, b *box) error {
			return b.limitsOfOneCommand(ctx)
		}},
	}
}

func tooMuchMemory(ctx context.Context, b *box) error {
	if out, err := b.output(ctx, "./probe", "alloc", "8000000"); err != nil {
		return errors.New("little memory cannot be had either: " + out)
	}
	out, err := b.s.Command(ctx, "./probe", "alloc", "600000000").CombinedOutput()
	return must(err != nil, "it was had: %s", out)
}
