package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// question is one thing that the agent must answer, over any transport.
type question struct {
	name string
	ask  func(context.Context, *wire.Client) error
}

func (q question) put(ctx context.Context, c *wire.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return q.ask(ctx, c)
}

var questions = []question{
	{"who it is", askWho},
	{"a command", askCommand},
	{"a timeout", askTimeout},
	{"a killed tree", askKill},
	{"a stream", askStream},
	{"a terminal", askTerminal},
	{"files", askFiles},
	{"archives", askArchives},
	{"large bodies", askBodies},
	{"shells", askShells},
	{"services", askServices},
	{"secrets", askSecrets},
	{"many at once", askMany},
}

// differ is an error where two values are not the same.
func differ(what string, got, want any) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s is %#v, want %#v", what, got, want)
}

// first gives the first error of some checks.
func first(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// sh runs a shell command and gives what it printed.
func sh(ctx context.Context, c *wire.Client, text string) (string, error) {
	res, err := c.Exec(ctx, wire.ExecRequest{Argv: []string{"/bin/sh", "-c", text}})
	if err != nil {
		return "", err
	}
	return res.Stdout, first(differ("the exit code of "+text, res.ExitCode, 0), differ("the proof of death", res.DeathProved, true))
}

// prints runs a shell command that must print what is wanted.
func prints(ctx context.Context, c *wire.Client, text, want string) error {
	got, err := sh(ctx, c, text)
	return first(err, differ("the output of "+text, got, want))
}

// askWho wants a process 1 that has mounted what a machine needs.
func askWho(ctx context.Context, c *wire.Client) error {
	hello, err := c.Hello(ctx)
	return first(err,
		differ("the protocol", hello.Version, wire.Version),
		prints(ctx, c, "cat /proc/1/comm", "paddock-agent\n"),
		prints(ctx, c, "for d in /proc /sys /dev /dev/pts /dev/shm /run /tmp; do grep -c \" $d \" /proc/mounts; done", strings.Repeat("1\n", 7)),
	)
}

func askCommand(ctx context.Context, c *wire.Client) error {
	res, err := c.Exec(ctx, wire.ExecRequest{Command: `read x; echo "$x $y"; pwd; echo no >&2; exit 7`, Stdin: "in\n", Env: map[string]string{"y": "out"}})
	return first(err, differ("stdout", res.Stdout, "in out\n/workspace\n"), differ("stderr", res.Stderr, "no\n"), differ("the exit code", res.ExitCode, 7))
}

func askTimeout(ctx context.Context, c *wire.Client) error {
	limit := 0.3
	res, err := c.Exec(ctx, wire.ExecRequest{Argv: []string{"sh", "-c", "trap '' TERM; (setsid sleep 1000 &); sleep 1000"}, TimeoutSeconds: &limit})
	return first(err, differ("timed out", res.TimedOut, true), differ("the exit code", res.ExitCode, 124), differ("the proof of death", res.DeathProved, true))
}

// askKill kills a tree that has left its session and its parent.
func askKill(ctx context.Context, c *wire.Client) error {
	p, err := start(ctx, c, wire.ExecRequest{Argv: []string{"sh", "-c", "(setsid sh -c 'trap \"\" TERM; sleep 1000 & echo ready; wait' &); sleep 1000"}})
	if err != nil {
		return err
	}
	defer p.Close()
	k, err := wire.Call(ctx, c, wire.Kill, wire.KillRequest{ID: p.ID()})
	if err != nil {
		return err
	}
	res, err := p.Wait()
	return first(err, differ("the signal", res.Signal, "SIGKILL"), differ("the proof of death", k.DeathProved, true),
		differ("at least three are dead", k.Killed >= 3, true))
}

// start runs a command until it has said a line.
func start(ctx context.Context, c *wire.Client, q wire.ExecRequest) (*wire.Process, error) {
	said := make(chan struct{}, 1)
	p, err := c.Start(ctx, q, wire.Streams{Stdout: writer(func(b []byte) {
		select {
		case said <- struct{}{}:
		default:
		}
	})})
	if err != nil {
		return nil, err
	}
	select {
	case <-said:
		return p, nil
	case <-ctx.Done():
		p.Close()
		return nil, ctx.Err()
	}
}

// writer is told what is written.
type writer func([]byte)

// Write tells.
func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

func askStream(ctx context.Context, c *wire.Client) error {
	const size = 8 << 20
	var out, errs bytes.Buffer
	p, err := c.Start(ctx, wire.ExecRequest{Argv: []string{"sh", "-c", "cat; echo end >&2"}},
		wire.Streams{Stdin: io.LimitReader(zeros{}, size), Stdout: &out, Stderr: &errs})
	if err != nil {
		return err
	}
	res, err := p.Wait()
	return first(err, differ("the exit code", res.ExitCode, 0), differ("bytes that came back", out.Len(), size), differ("stderr", errs.String(), "end\n"))
}

type zeros struct{}

// Read gives zeros.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func askTerminal(ctx context.Context, c *wire.Client) error {
	var out bytes.Buffer
	p, err := c.Start(ctx, wire.ExecRequest{Argv: []string{"sh", "-c", "tty; stty size"}, TTY: &wire.TTY{Rows: 10, Cols: 77}}, wire.Streams{Stdout: &out})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return first(err, differ("a terminal of this size", strings.HasPrefix(out.String(), "/dev/pts/") && strings.HasSuffix(out.String(), "\r\n10 77\r\n"), true))
}

func askMany(ctx context.Context, c *wire.Client) error {
	const n = 20
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- prints(ctx, c, fmt.Sprintf("sleep 0.2; echo %d", i), fmt.Sprintln(i)) }()
	}
	var err error
	for range n {
		err = first(err, <-failed)
	}
	return err
}
