//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	helloSource = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"
	megabyte    = 1e6
)

// measureAgent looks at the size of the agent, and compares its start with
// that of a Go program that does nothing.
func measureAgent(ctx context.Context, b *bench) error {
	hello := b.hello(ctx)
	agent, err := printing(ctx, "paddock-agent --version", b.agent, "--version")
	if err != nil {
		return err
	}
	cli, err := printing(ctx, "paddock version", b.paddock, "version")
	if err != nil {
		return err
	}
	info, err := os.Stat(b.agent)
	if err != nil {
		return err
	}
	agent.note = fmt.Sprintf("%.2f MB", float64(info.Size())/megabyte)
	rounds := b.rounds(200, 40)
	if err := interleave(ctx, warmups, rounds, agent, cli, hello); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("start of the programs, %d rounds", rounds), time.Millisecond, hello, agent, cli, hello),
		atMost("start of the agent, to a bare Go program", ratio(agent.sample.median(), hello.sample.median()), 1.5, "×").unless(hello.absent),
		atMost("size of the agent", float64(info.Size())/megabyte, 5, "MB"))
	return nil
}

// printing is a case of a program that always prints what it prints now.
func printing(ctx context.Context, name string, argv ...string) (*benchCase, error) {
	_, out, err := finish(ctx, host, argv...)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(out, "paddock") {
		return nil, fmt.Errorf("cannot trust %s: it printed %q", name, out)
	}
	return command(name, host, out, argv...), nil
}

// hello builds the least Go program that prints, as the agent is built.
func (b *bench) hello(ctx context.Context) *benchCase {
	const name = "a bare Go program"
	source, program := filepath.Join(b.dir, "hello.go"), filepath.Join(b.dir, "hello")
	if err := os.WriteFile(source, []byte(helloSource), 0o644); err != nil {
		return missing(name, err.Error())
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return missing(name, fmt.Sprintf("cannot build it: %v %s", err, out))
	}
	return command(name, host, "hello\n", program)
}
