//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// use is what the egress process takes.
type use struct {
	memory      int64 // its share of it (PSS), in bytes
	descriptors int
}

// whyNotSeen says why the egress process cannot be looked at: it is one that others cannot read.
func whyNotSeen() string {
	if os.Geteuid() != 0 {
		return "only root can look at the process"
	}
	return ""
}

// use looks at the egress process: the least of some looks, since it gives back what it does not
// need only after a while.
func (w *world) use(ctx context.Context, connections int) (least use, err error) {
	if err := w.await(ctx, connections); err != nil {
		return least, err
	}
	for look := range 30 {
		time.Sleep(100 * time.Millisecond)
		var now use
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.egress))
		if err != nil {
			return least, err
		}
		now.descriptors = len(entries)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", w.egress))
		if err != nil {
			return least, err
		}
		for line := range strings.Lines(string(text)) {
			if _, err := fmt.Sscanf(line, "Pss: %d kB", &now.memory); err == nil {
				now.memory <<= 10
				break
			}
		}
		if now.memory == 0 {
			return least, errors.New("the kernel does not tell the memory of a process")
		}
		if look == 0 {
			least = now
		}
		least.memory, least.descriptors = min(least.memory, now.memory), min(least.descriptors, now.descriptors)
	}
	return least, nil
}

// await waits until so many connections are open.
func (w *world) await(ctx context.Context, connections int) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		state, err := w.box.Network(ctx)
		if err != nil {
			return err
		}
		if state.Open == connections {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d connections are open, not %d", state.Open, connections)
		}
	}
}

// measureIdle looks at the process before the first connection.
func (w *world) measureIdle(ctx context.Context) error {
	const name = "memory of an egress process that is idle"
	var idle use
	if whyNotSeen() == "" {
		var err error
		if idle, err = w.use(ctx, 0); err != nil {
			return err
		}
	}
	w.add(table{Title: "the egress process before the first connection", Rows: []row{
		{Name: "memory", Median: mebibytes(idle.memory), Unit: "MiB", Absent: whyNotSeen()},
		{Name: "descriptors", Median: float64(idle.descriptors), Absent: whyNotSeen()}}},
		atMost(name, mebibytes(idle.memory), 12, "MiB").unless(whyNotSeen()))
	return nil
}

// measureHeld looks at the memory of the process while 500 connections are open that have done
// something.
func (w *world) measureHeld(ctx context.Context) error {
	const many = 500
	t := table{Title: fmt.Sprintf("the egress process with %d open connections", many)}
	var promises []promise
	for _, c := range []struct {
		name  string
		e     errand
		limit float64
	}{
		{"copied", errand{Address: named(copiedHost, w.at.HTTPS), HTTPS: true}, 20},
		{"intercepted", errand{Address: named(interceptedHost, w.at.HTTPS), HTTPS: true}, 35},
		{"intercepted, HTTP/2", errand{Address: named(interceptedHost, w.at.HTTPS), HTTPS: true, Two: true}, 35},
	} {
		var held use
		if whyNotSeen() == "" {
			var err error
			if held, err = w.hold(ctx, c.e, many); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		t.Rows = append(t.Rows, row{Name: "memory, " + c.name, Median: mebibytes(held.memory), Unit: "MiB", Absent: whyNotSeen()})
		promises = append(promises, atMost(fmt.Sprintf("memory of an egress process, %d %s", many, c.name), mebibytes(held.memory), c.limit, "MiB").unless(whyNotSeen()))
	}
	w.add(t, promises...)
	return nil
}

// hold returns what the process takes while so many connections are open.
func (w *world) hold(ctx context.Context, e errand, many int) (use, error) {
	e.AtOnce, e.Bytes, e.Stay = many, 1, true
	cmd := w.box.Command(ctx, w.client)
	cmd.AddEnv, cmd.Stderr = []string{clientEnv + "=" + e.String()}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return use{}, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return use{}, err
	}
	var held use
	if _, err = bufio.NewReader(out).ReadString('\n'); err == nil {
		held, err = w.use(ctx, many)
	}
	_ = in.Close()
	return held, errors.Join(err, cmd.Wait(), w.await(ctx, 0))
}

// measureRules compares the replacement of all rules with asking the process for them.
func (w *world) measureRules(ctx context.Context) error {
	ask := &benchCase{name: "a round trip to the egress process", run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		_, err := w.box.Network(ctx)
		return time.Since(began), err
	}}
	turns := 0
	replace := &benchCase{name: "all rules replaced", run: func(ctx context.Context) (time.Duration, error) {
		network := w.network()
		if turns++; turns%2 == 0 { // each time others than before
			network.Allow = network.Allow[:1]
		}
		began := time.Now()
		err := w.box.SetNetwork(ctx, network)
		return time.Since(began), err
	}}
	rounds := w.rounds(1000, 100)
	if err := interleave(ctx, warmups, rounds, ask, replace); err != nil {
		return err
	}
	w.add(times(fmt.Sprintf("rules of a running sandbox, %d rounds", rounds), time.Microsecond, ask, ask, replace),
		atMost("rules replaced, to a round trip to their process", ratio(replace.sample.median(), ask.sample.median()), 3, "×"))
	return w.box.SetNetwork(ctx, w.network())
}

// mostLeft is how much larger the process may be after thousands of connections: what a look at
// its memory is off by, and less than 100 bytes for each of them.
const mostLeft = 1 << 20

// measureLeft makes connections one after another, and at once, and looks at whether the process
// is afterwards as it was before.
func (w *world) measureLeft(ctx context.Context) error {
	sequence, many := w.rounds(10_000, 500), w.rounds(500, 50)
	if why := whyNotSeen(); why != "" {
		title := "the egress process after many connections"
		w.add(table{Title: title}, atMost(title+", descriptors more", 0, 0, "").unless(why), atMost(title+", memory more", 0, mostLeft>>20, "MiB").unless(why))
		return nil
	}
	var wrong []error
	for _, c := range []struct{ name, host string }{{"copied", copiedHost}, {"intercepted", interceptedHost}} {
		e := errand{Address: named(c.host, w.at.HTTPS), HTTPS: true, Bytes: 1, AtOnce: many}
		run := func(times int) (use, error) {
			e.Times = times
			if _, err := w.inside(ctx, e); err != nil {
				return use{}, err
			}
			return w.use(ctx, 0)
		}
		before, err := run(sequence / 2) // until it has all that it keeps for the next ones
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		after, err := run(sequence)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		what := fmt.Sprintf("%d connections one after another and %d at once, %s", sequence, many, c.name)
		w.add(table{Title: "the egress process after " + what + ", none failed", Rows: []row{
			{Name: "descriptors", Median: float64(after.descriptors), Note: fmt.Sprintf("before: %d", before.descriptors)},
			{Name: "memory", Median: mebibytes(after.memory), Unit: "MiB", Note: fmt.Sprintf("before: %.2f MiB", mebibytes(before.memory))},
		}},
			atMost("descriptors more after connections, "+c.name, float64(after.descriptors-before.descriptors), 0, ""),
			atMost("memory more after connections, "+c.name, mebibytes(after.memory-before.memory), mostLeft>>20, "MiB"))
		if after.descriptors > before.descriptors || after.memory > before.memory+mostLeft {
			wrong = append(wrong, fmt.Errorf("something is left of %s: %+v, before %+v", what, after, before))
		}
	}
	return errors.Join(wrong...)
}
