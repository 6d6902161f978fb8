//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
)

// crowd is many persistent sandboxes, all over one directory.
type crowd struct {
	*bench
	opts  paddock.Options
	count int
	free  int64 // what the host had available before the first, in bytes
}

// measureLasting measures persistent sandboxes: an exec in one by the command line, and what many
// idle ones cost each, and one another.
func measureLasting(ctx context.Context, b *bench) (err error) {
	if err := measureNamedExec(ctx, b); err != nil {
		return err
	}
	c := &crowd{bench: b, count: b.rounds(1000, 100), free: meminfo("MemAvailable"),
		opts: paddock.Options{Agent: b.agent, StateDir: filepath.Join(b.dir, "crowd")}}
	defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx))) }()
	return c.measure(ctx)
}

// measureNamedExec compares an exec by the command line in a persistent sandbox with docker's.
func measureNamedExec(ctx context.Context, b *bench) (err error) {
	const name, promised = "bench-exec", "exec by the command line in a named sandbox, to docker exec"
	opts := paddock.Options{Agent: b.agent, StateDir: b.state}
	s, err := paddock.Create(ctx, b.spec(), opts, paddock.Lasting{Name: name})
	if err != nil {
		return err
	}
	defer func() {
		_, rerr := paddock.Remove(context.WithoutCancel(ctx), name, true, opts)
		err = errors.Join(err, s.Close(), rerr)
	}()
	ours := command("paddock exec NAME -- true", b.cli, "", "exec", name, "--", "/bin/true")
	e, err := engines.Docker(ctx)
	if err != nil {
		peer := missing("docker exec", err.Error())
		if err := interleave(ctx, warmups, b.rounds(100, 20), ours); err != nil {
			return err
		}
		b.add(times("exec of /bin/true by the command line", time.Millisecond, peer, ours, peer), atMost(promised, 0, 0.1, "×").unless(peer.absent))
		return nil
	}
	defer e.Close()
	const container = "paddock-bench-exec"
	if _, err := e.Run(ctx, nil, "run", "--detach", "--rm", "--network", "none", "--name", container, engines.Shell, "/bin/sleep", "3600"); err != nil {
		return err
	}
	defer func() { _, _ = e.Run(context.WithoutCancel(ctx), nil, "rm", "--force", container) }()
	peer := command("docker exec", func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, e.Binary, argv...)
		cmd.Env = append(os.Environ(), e.Env...)
		return cmd, nil
	}, "", "exec", container, "/bin/true")
	rounds := b.rounds(100, 20)
	if err := interleave(ctx, warmups, rounds, ours, peer); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("exec of /bin/true by the command line, %d rounds", rounds), time.Millisecond, peer, ours, peer),
		atMost(promised, ratio(ours.sample.median(), peer.sample.median()), 0.1, "×"))
	return nil
}

// spec is that of a sandbox over the empty directory.
func (b *bench) spec() paddock.Spec {
	return paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}}
}

// cli is paddock with these arguments.
func (b *bench) cli(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, b.paddock, argv...)
	cmd.Dir = b.workspace
	return cmd, nil
}

func (c *crowd) measure(ctx context.Context) error {
	first, second := c.count/2, c.count-c.count/2
	before, few := c.starting("a start where there are none"), c.listing("list of ten")
	// The same program without a sandbox tells how busy the host was in the meantime.
	quiet, loud := c.help(), c.help()
	if err := interleave(ctx, warmups, c.rounds(40, 20), before, quiet); err != nil {
		return err
	}
	if _, err := c.make(ctx, 0, 10, c.create); err != nil {
		return err
	}
	if err := interleave(ctx, warmups, c.rounds(40, 20), few); err != nil {
		return err
	}
	inside, err := c.make(ctx, 10, first, c.create)
	if err != nil {
		return err
	}
	byCLI, err := c.make(ctx, first, first+second, c.createByCLI)
	if err != nil {
		return err
	}
	after, all := c.starting(fmt.Sprintf("a start beside %d", c.count)), c.listing(fmt.Sprintf("list of %d", c.count))
	if err := interleave(ctx, warmups, c.rounds(40, 20), after, loud); err != nil {
		return err
	}
	if err := interleave(ctx, warmups, c.rounds(20, 10), all); err != nil {
		return err
	}
	c.add(times("starts by the command line, one after another", time.Millisecond, before, before, quiet, after, loud),
		atMost(fmt.Sprintf("start beside %d idle sandboxes, to one beside none", c.count), ratio(after.sample.median(), before.sample.median()), 1.2, "×"))
	c.add(times("paddock list", time.Millisecond, few, few, all),
		atMost(fmt.Sprintf("list of %d sandboxes, to one of ten", c.count), ratio(all.sample.median(), few.sample.median()), 10, "×"))
	c.add(table{Title: fmt.Sprintf("%d sandboxes, two at a time", c.count), Rows: []row{
		{Name: fmt.Sprintf("from one process, the first %d", first), Median: inside, Unit: "/s"},
		{Name: fmt.Sprintf("by the command line, the last %d", second), Median: byCLI, Unit: "/s"}}},
		atLeast("sandboxes made by one process", inside, 50, "/s"), atLeast("sandboxes made by the command line", byCLI, 25, "/s"))
	return c.measureMemory(ctx)
}

// measureMemory measures what each sandbox takes, once commands have run in all.
func (c *crowd) measureMemory(ctx context.Context) error {
	execs := c.rounds(100, 5)
	began := time.Now()
	err := each(0, c.count, func(i int) error {
		s, err := paddock.Attach(ctx, crowdName(i), c.opts)
		if err != nil {
			return err
		}
		defer s.Close()
		for range execs {
			if err := s.Command(ctx, "/bin/true").Run(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rate := float64(c.count*execs) / time.Since(began).Seconds()
	time.Sleep(3 * time.Second) // agents give back what their commands took
	fell := float64(c.free-meminfo("MemAvailable")) / float64(c.count) / (1 << 20)
	share, n, err := c.share()
	if err == nil && n != c.count {
		err = fmt.Errorf("there are %d keepers of %d sandboxes", n, c.count)
	}
	if err != nil {
		return err
	}
	per := float64(share) / float64(c.count) / (1 << 20)
	c.add(table{Title: fmt.Sprintf("%d idle sandboxes, %d execs in each", c.count, execs), Rows: []row{
		{Name: "execs, two at a time", Median: rate, Unit: "/s"},
		{Name: "PSS of each, keeper and agent", Median: per, Unit: "MiB"},
		{Name: "fall of MemAvailable for each", Median: fell, Unit: "MiB", Note: "the host's, whoever took it"}}},
		atMost("PSS of an idle sandbox, keeper and agent", per, 3, "MiB"), atMost("fall of MemAvailable for an idle sandbox", fell, 3, "MiB"))
	return nil
}

func crowdName(i int) string { return "crowd-" + strconv.Itoa(i) }

// make makes the sandboxes from a number up to another, and says how many it made a second.
func (c *crowd) make(ctx context.Context, from, to int, create func(context.Context, string) error) (rate float64, err error) {
	began := time.Now()
	err = each(from, to, func(i int) error { return create(ctx, crowdName(i)) })
	return float64(to-from) / time.Since(began).Seconds(), err
}

// each calls do for the numbers from one up to another, two at a time, until one fails.
func each(from, to int, do func(int) error) error {
	var next atomic.Int64
	next.Store(int64(from))
	var wait sync.WaitGroup
	errs := make([]error, 2)
	for worker := range errs {
		wait.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= to {
					return
				}
				errs[worker] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (c *crowd) create(ctx context.Context, name string) error {
	s, err := paddock.Create(ctx, c.spec(), c.opts, paddock.Lasting{Name: name})
	if err != nil {
		return err
	}
	return s.Close()
}

func (c *crowd) createByCLI(ctx context.Context, name string) error {
	_, _, err := finish(ctx, c.cli, "create", "--quiet", name)
	return err
}

// cli is paddock with the crowd's state directory.
func (c *crowd) cli(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	cmd, err := c.bench.cli(ctx, argv...)
	cmd.Env = append(os.Environ(), paddock.StateDirEnv+"="+c.opts.StateDir)
	return cmd, err
}

// starting is a case of a start by the command line. The sandbox is removed outside of the time.
func (c *crowd) starting(name string) *benchCase {
	const started = "started"
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		took, _, err := finish(ctx, c.cli, "create", "--quiet", started)
		if err == nil {
			_, err = paddock.Remove(ctx, started, true, c.opts)
		}
		return took, err
	}}
}

// help is a case of the program without a sandbox.
func (c *crowd) help() *benchCase {
	return &benchCase{name: "  paddock help meanwhile", run: func(ctx context.Context) (time.Duration, error) {
		took, _, err := finish(ctx, c.cli, "help")
		return took, err
	}}
}

func (c *crowd) listing(name string) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		took, out, err := finish(ctx, c.cli, "list")
		if err == nil && !strings.Contains(out, crowdName(0)+" ") {
			err = fmt.Errorf("it printed %q", out)
		}
		return took, err
	}}
}

// remove ends and removes them all.
func (c *crowd) remove(ctx context.Context) error {
	all, err := paddock.ListLasting(ctx, c.opts)
	if err != nil {
		return err
	}
	return each(0, len(all), func(i int) error {
		_, err := paddock.Remove(ctx, all[i].ID, true, c.opts)
		return err
	})
}

// share is the proportional share of memory of the crowd's keepers and all that descends from
// them, in bytes, and how many keepers there are.
func (c *crowd) share() (bytes int64, n int, err error) {
	parents := map[int]int{}
	for _, p := range processes() {
		parents[p.pid] = p.parent
	}
	running, err := state.List(c.opts.StateDir, func(string) bool { return false })
	keepers := map[int]bool{}
	for _, r := range running {
		keepers[parents[r.PID]] = true
	}
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if keepers[up] {
				bytes += fileNumber(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss") << 10
				break
			}
		}
	}
	return bytes, len(keepers), err
}

// meminfo is a number of /proc/meminfo, in bytes.
func meminfo(name string) int64 { return fileNumber("/proc/meminfo", name) << 10 }
