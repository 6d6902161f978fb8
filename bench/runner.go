//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// warmups are the rounds of each measurement that do not count.
const warmups = 3

// benchCase is one of the things that are compared.
type benchCase struct {
	name string
	// run does it once, checks the result and says how long it took.
	run    func(context.Context) (time.Duration, error)
	absent string // why it is not measured; then run is not called
	note   string // for the table
	sample sample
}

// missing is a case that cannot be measured here.
func missing(name, why string) *benchCase {
	return &benchCase{name: name, absent: why}
}

// interleave runs every case once in each round. Every other round goes
// backwards, so that no case always follows the same one. The first wrong
// result ends it.
func interleave(ctx context.Context, warmups, rounds int, cases ...*benchCase) error {
	for round := range warmups + rounds {
		for i := range cases {
			if round%2 == 1 {
				i = len(cases) - 1 - i
			}
			c := cases[i]
			if c.absent != "" {
				continue
			}
			took, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("cannot trust %s: round %d: %w", c.name, round+1, err)
			}
			if round >= warmups {
				c.sample = append(c.sample, took)
			}
		}
	}
	return nil
}

// maker prepares one run of a program with these arguments, outside the time
// that counts.
type maker func(ctx context.Context, argv ...string) (*exec.Cmd, error)

// host runs the program as it is.
func host(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	return exec.CommandContext(ctx, argv[0], argv[1:]...), nil
}

// command is a case that runs a program to its end.
func command(name string, m maker, want string, argv ...string) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		took, out, err := finish(ctx, m, argv...)
		if err == nil && out != want {
			err = fmt.Errorf("printed %q, want %q", out, want)
		}
		return took, err
	}}
}

// finish runs a program that must succeed and gives what it printed on
// either stream.
func finish(ctx context.Context, m maker, argv ...string) (time.Duration, string, error) {
	cmd, err := m(ctx, argv...)
	if err != nil {
		return 0, "", err
	}
	defer func() {
		for _, f := range cmd.ExtraFiles {
			_ = f.Close()
		}
	}()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if err != nil {
		err = fmt.Errorf("%w, and printed %q", err, strings.TrimSpace(out.String()))
	}
	return took, out.String(), err
}
