//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/policy"
	rules "github.com/paddock-dev/paddock/policy/command"
)

// measureDecisions measures what stands before a command is run: the rules
// for its text, and the record of what was asked for.
func measureDecisions(ctx context.Context, b *bench) error {
	list, err := rules.New(policy.DefaultCommands())
	if err != nil {
		return err
	}
	const loop = `for f in *.go; do if grep -q TODO "$f"; then echo "$f: $(wc -l < "$f")"; fi; done`
	short := many("a pipeline of three commands", judge(list, `grep -rn "a;b" . | sort | head -3`, true))
	long := many("a loop with a substitution", judge(list, loop, true))
	denied := many("a text that is denied", judge(list, "ls; curl example.com", false))
	whole := one("64 KiB of such loops", judge(list, strings.Repeat(loop+"\n", rules.MaxText/(len(loop)+1)), true))
	rounds := b.rounds(50, 10)
	if err := interleave(ctx, warmups, rounds, short, long, denied, whole); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("a verdict of the rules for commands, %d rounds of %d", rounds, checks), time.Microsecond, short, short, long, denied, whole),
		atMost("verdict on an ordinary text", max(micros(short), micros(long), micros(denied)), 100, "µs"),
		atMost("verdict on 64 KiB of commands", micros(whole)/1000, 250, "ms"))
	return measureRecords(ctx, b, rounds)
}

// measureRecords appends to a log as every operation does, and as those do
// that must not be acknowledged before the record is on the disk.
func measureRecords(ctx context.Context, b *bench, rounds int) error {
	log := audit.At(filepath.Join(b.dir, "audit"), audit.Options{})
	record := audit.Record{Kind: audit.KindCall, Op: "run", Principal: "user:somebody", Args: []byte(`{"argv":["go","test","./..."]}`), Outcome: audit.OutcomeOK}
	plain := many("appended", func(ctx context.Context) error { _, err := log.Append(ctx, record); return err })
	durable := one("appended and on the disk", func(ctx context.Context) error { _, err := log.AppendSync(ctx, record); return err })
	if err := errors.Join(interleave(ctx, warmups, rounds, plain, durable), log.Close()); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("a record of the audit log, %d rounds of %d", rounds, checks), time.Microsecond, plain, plain, durable),
		atMost("record of an operation", micros(plain), 100, "µs"))
	return nil
}

func judge(list *rules.Rules, text string, allowed bool) func(context.Context) error {
	return func(context.Context) error {
		if v := list.Shell(text); v.Allowed != allowed {
			return errors.New("the verdict is " + v.Rule + ": " + v.Reason)
		}
		return nil
	}
}

// many is a case of what is too short to be timed by itself.
func many(name string, do func(context.Context) error) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		return repeat(func() error { return do(ctx) })
	}}
}

func one(name string, do func(context.Context) error) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began), err
	}}
}
