//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

const (
	sleepers      = 20
	timeoutStatus = 124
	// lookEvery is how often the host's processes are looked at while the
	// sleepers start: there is no event to wait for.
	lookEvery = 20 * time.Millisecond
)

// measureTimeout lets a time-out end a command that has left twenty daemons
// behind, forked twice and each in a session of its own, and looks for them
// among the host's processes. timeout(1) is the control that leaves them.
func measureTimeout(ctx context.Context, b *bench) error {
	most := 0
	own := &benchCase{name: "paddock run --timeout 1s", run: func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, b.paddock, "run", "--timeout", "1s", "--")
		cmd.Dir = b.workspace
		took, left, err := expire(cmd)
		most = max(most, left)
		return took, err
	}}
	control := &benchCase{name: "timeout 1", absent: notInstalled("timeout"), run: func(ctx context.Context) (time.Duration, error) {
		took, left, err := expire(exec.CommandContext(ctx, "timeout", "1"))
		if err == nil && left != sleepers {
			err = fmt.Errorf("left %d daemons: they are no test of anything else, which %d would be", left, sleepers)
		}
		return took, err
	}}
	rounds := b.rounds(5, 2)
	if err := interleave(ctx, 0, rounds, own, control); err != nil {
		return err
	}
	own.note = fmt.Sprintf("%d of %d daemons left", most, sleepers)
	control.note = fmt.Sprintf("%d of %d daemons left", sleepers, sleepers)
	b.add(times(fmt.Sprintf("a time-out of 1 s with %d double-forked daemons, %d rounds", sleepers, rounds), time.Second, control, own, control),
		atMost("--timeout 1s, until the exit status, the slowest", own.sample.max().Seconds(), 1.5, "s"),
		atMost("daemons left by it", float64(most), 0, ""))
	return nil
}

// expire runs cmd with the daemons as its command, checks that it ends by
// time-out, and counts the daemons that are left. When it returns, none is.
func expire(cmd *exec.Cmd) (took time.Duration, left int, err error) {
	seconds := fmt.Sprintf("3600.%d", time.Now().UnixNano()) // nothing else sleeps this long
	argv := "sleep " + seconds
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do (setsid sh -c 'sleep "$0" &' %[2]s &); i=$((i+1)); done; exec sleep %[2]s`, sleepers, seconds)
	cmd.Args = append(cmd.Args, "sh", "-c", script)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		took = time.Since(began)
		close(ended)
	}()
	seen := await(argv, sleepers+1, ended) // the command itself sleeps too
	<-ended
	alive := withArgv(argv)
	for _, pid := range alive {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != timeoutStatus {
		return took, len(alive), fmt.Errorf("ended with %v, want exit status %d", err, timeoutStatus)
	}
	if !seen {
		return took, len(alive), fmt.Errorf("the %d daemons were never seen", sleepers)
	}
	return took, len(alive), nil
}

// await says whether that many such processes were seen at once before ended.
func await(argv string, want int, ended <-chan struct{}) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for len(withArgv(argv)) < want {
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
	return true
}
