//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// watchEvery is how often memory is looked at. What is read never falls, so
// that only growth in the last interval goes unseen.
const watchEvery = 20 * time.Millisecond

// memory is the most that the CLI and the agent have used, in bytes.
type memory struct{ cli, agent int64 }

// measureOutput compares the speed of a command's output with that of the
// same pipe without Paddock.
func measureOutput(ctx context.Context, b *bench) error {
	size := int64(1 << 30)
	if b.short {
		size = 256 << 20
	}
	var most memory
	producers := []struct{ name, script string }{
		{"head -c N /dev/zero", fmt.Sprintf("head -c %d /dev/zero", size)},
		{"yes | head -c N", fmt.Sprintf("yes | head -c %d", size)},
	}
	var cases []*benchCase
	for _, p := range producers {
		cases = append(cases,
			pipeline(p.name+" in paddock run", size, b.run, &most, p.script),
			pipeline(p.name, size, host, nil, p.script))
	}
	rounds := b.rounds(7, 3)
	if err := interleave(ctx, 1, rounds, cases...); err != nil {
		return err
	}
	t := table{Title: fmt.Sprintf("%d MiB of output through wc -c, %d rounds", size>>20, rounds)}
	var promises []promise
	for i := 0; i < len(cases); i += 2 {
		own, peer := cases[i], cases[i+1]
		speed := ratio(peer.sample.median(), own.sample.median())
		t.Rows = append(t.Rows, speedRow(own, size, speed), speedRow(peer, size, 1))
		promises = append(promises, atLeast("speed of "+peer.name+", to the same pipe", speed, 0.8, "×"))
	}
	t.Rows = append(t.Rows,
		row{Name: "most memory of the CLI", Median: mebibytes(most.cli), Unit: "MiB"},
		row{Name: "most memory of the agent", Median: mebibytes(most.agent), Unit: "MiB"})
	b.add(t, append(promises,
		atMost("memory of the CLI while it printed", mebibytes(most.cli), 32, "MiB"),
		atMost("memory of the agent while it printed", mebibytes(most.agent), 32, "MiB"))...)
	return nil
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// speedRow turns times into speeds: the p90 of the time is the speed that nine
// of ten runs reach.
func speedRow(c *benchCase, size int64, speed float64) row {
	per := func(d time.Duration) float64 { return mebibytes(size) / d.Seconds() }
	return row{Name: c.name, Median: per(c.sample.median()), P90: per(c.sample.quantile(0.9)), Unit: "MiB/s", Ratio: speed}
}

// pipeline is a case of a shell script whose output wc counts. Where most is
// given the script runs in Paddock, and its memory is watched.
func pipeline(name string, size int64, m maker, most *memory, script string) *benchCase {
	want := strconv.FormatInt(size, 10)
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		cmd, err := m(ctx, "/bin/sh", "-c", script)
		if err != nil {
			return 0, err
		}
		took, counted, err := count(ctx, cmd, most)
		if err == nil && counted != want {
			err = fmt.Errorf("wc counted %q bytes, want %s", counted, want)
		}
		return took, err
	}}
}

// count runs cmd with its output piped to wc -c.
func count(ctx context.Context, cmd *exec.Cmd, most *memory) (time.Duration, string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, "", err
	}
	var counted, problems bytes.Buffer
	wc := exec.CommandContext(ctx, "wc", "-c")
	wc.Stdin, wc.Stdout = r, &counted
	cmd.Stdout, cmd.Stderr = w, &problems
	began := time.Now()
	err = wc.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return 0, "", err
	}
	err = cmd.Start()
	_ = w.Close() // or wc would never see the end
	if err == nil {
		stop := watch(cmd.Process.Pid, most)
		err = cmd.Wait()
		stop()
	}
	if werr := wc.Wait(); err == nil {
		err = werr
	}
	took := time.Since(began)
	if err != nil || problems.Len() > 0 {
		return took, "", fmt.Errorf("the pipe broke: %v, printed %q", err, problems.String())
	}
	return took, strings.TrimSpace(counted.String()), nil
}

// watch follows the memory of a CLI and of its agent until stop is called.
func watch(cli int, most *memory) (stop func()) {
	if most == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		agent := 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if agent == 0 {
				agent = agentOf(cli)
			}
			most.cli = max(most.cli, peak(cli))
			most.agent = max(most.agent, peak(agent))
		}
	}()
	return func() { close(done); <-ended }
}
