//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/paddock-dev/paddock/wire"
)

// printed ends the output of a terminal. The script that prints it must not
// contain it, since a terminal echoes what is typed.
const printed = "that-was-all"

// measurePTY compares a shell's output with the same through a bare terminal.
func measurePTY(ctx context.Context, b *bench) (err error) {
	g, err := b.startGuest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	size := int64(64 << 20)
	if b.short {
		size /= 4
	}
	script := fmt.Sprintf("yes abcdefghijklmnopqrstuvwxyz | head -c %d; echo that-was''-all", size)
	shell := &benchCase{name: "a shell of the agent", run: func(ctx context.Context) (time.Duration, error) { return g.shellOutput(ctx, script) }}
	bare := &benchCase{name: "a bare terminal", run: func(ctx context.Context) (time.Duration, error) { return bareOutput(ctx, script) }}
	rounds := b.rounds(7, 3)
	if err := interleave(ctx, 1, rounds, shell, bare); err != nil {
		return err
	}
	speed := ratio(bare.sample.median(), shell.sample.median())
	b.add(table{Title: fmt.Sprintf("%d MiB through a terminal, %d rounds", size>>20, rounds),
		Rows: []row{speedRow(shell, size, speed), speedRow(bare, size, 1)}},
		atLeast("speed of a shell's output, to a bare terminal", speed, 0.7, "×"),
		g.memoryPromise("ran shells"))
	return nil
}

// shellOutput types the script and reads until its end was printed.
func (g *guest) shellOutput(ctx context.Context, script string) (took time.Duration, err error) {
	c := &g.client
	if _, err := wire.Call(ctx, c, wire.OpenShell, wire.OpenShellRequest{ShellID: "bench"}); err != nil {
		return 0, err
	}
	defer func() {
		_, cerr := wire.Call(ctx, c, wire.CloseShell, wire.ShellRequest{ShellID: "bench"})
		err = errors.Join(err, cerr)
	}()
	began := time.Now()
	if _, err := wire.Call(ctx, c, wire.WriteShell, wire.WriteShellRequest{ShellID: "bench", Input: script}); err != nil {
		return 0, err
	}
	for cursor := int64(0); ; {
		r, err := wire.Call(ctx, c, wire.ReadShell, wire.ReadShellRequest{ShellID: "bench", Cursor: cursor, WaitMS: 10_000})
		switch {
		case err != nil:
			return 0, err
		case strings.Contains(r.Output, printed):
			return time.Since(began), nil
		case r.NextCursor == cursor || r.State != "running":
			return 0, fmt.Errorf("the shell fell silent at character %d, %s", cursor, r.State)
		}
		cursor = r.NextCursor
	}
}

// bareOutput runs the script on a terminal and reads until its end was printed.
func bareOutput(ctx context.Context, script string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	began := time.Now()
	terminal, err := pty.Start(cmd)
	if err != nil {
		return 0, err
	}
	defer terminal.Close()
	buf := make([]byte, 64<<10)
	var last []byte
	for !bytes.Contains(last, []byte(printed)) {
		n, err := terminal.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("the terminal ended early: %w", err)
		}
		last = append(last[max(0, len(last)-len(printed)):], buf[:n]...)
	}
	took := time.Since(began)
	return took, cmd.Wait()
}
