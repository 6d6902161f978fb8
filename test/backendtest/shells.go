//go:build linux

package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

func terminalCells() []cell {
	return []cell{
		{name: "terminal: of the size that was asked for", do: func(ctx context.Context, b *box) error {
			var out bytes.Buffer
			cmd := b.s.Command(ctx, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size")
			cmd.TTY, cmd.Stdout = &paddock.TTY{Rows: 33, Cols: 101}, &out
			return errors.Join(cmd.Run(), same(strings.TrimSpace(out.String()), "33 101"))
		}},
		{name: "terminal: resized, and interrupted by a key", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", `read x; stty size; exec sh -c "echo in; exec cat"`) // a shell that waits could swallow the key
			cmd.TTY = &paddock.TTY{Rows: 24, Cols: 80}
			in, err := cmd.StdinPipe()
			if err != nil {
				return err
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			err = cmd.Resize(50, 120)
			_, werr := io.WriteString(in, "\n")
			text := ""
			for buf := make([]byte, 256); !strings.Contains(text, "50 120\r\nin\r\n"); {
				n, rerr := out.Read(buf)
				text += string(buf[:n])
				if rerr != nil {
					return errors.Join(err, werr, rerr, fmt.Errorf("it prints %q", text))
				}
			}
			_, kerr := io.WriteString(in, "\x03")
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			return errors.Join(err, werr, kerr, same(cmd.Result().Signal, "SIGINT"))
		}},
	}
}

// readShell reads what a shell prints from a cursor on, until it has printed text.
func readShell(ctx context.Context, c *wire.Client, id string, cursor int64, text string) (all string, next int64, err error) {
	for next = cursor; !strings.Contains(all, text); {
		r, err := wire.Call(ctx, c, wire.ReadShell, wire.ReadShellRequest{ShellID: id, Cursor: next, MaxChars: 65536, WaitMS: 2000})
		if err != nil {
			return all, next, err
		}
		all, next = all+r.Output, r.NextCursor
		if r.State != "running" && r.Output == "" {
			return all, next, fmt.Errorf("it has ended, and printed %q", all)
		}
	}
	return all, next, nil
}

func writeShell(ctx context.Context, c *wire.Client, id, text string) error {
	_, err := wire.Call(ctx, c, wire.WriteShell, wire.WriteShellRequest{ShellID: id, Input: text})
	return err
}

func openShell(ctx context.Context, c *wire.Client, id string) error {
	_, err := wire.Call(ctx, c, wire.OpenShell, wire.OpenShellRequest{ShellID: id, Cwd: "/workspace", Cols: 100, Rows: 30, Env: map[string]string{"PS1": "$ "}})
	return err
}

func shellCells() []cell {
	return []cell{
		{name: "shell: keeps its state between lines", do: func(ctx context.Context, b *box) error {
			err := errors.Join(openShell(ctx, b.wire, "state"), writeShell(ctx, b.wire, "state", "X=kept; cd /"),
				writeShell(ctx, b.wire, "state", "echo $X-$PWD-end"))
			if err != nil {
				return err
			}
			_, _, err = readShell(ctx, b.wire, "state", 0, "kept-/-end")
			return err
		}},
		{name: "shell: an interrupt reaches the foreground", do: func(ctx context.Context, b *box) error {
			err := errors.Join(openShell(ctx, b.wire, "int"), writeShell(ctx, b.wire, "int", "sh -c 'echo rea''dy; exec sleep 100'")) // what prints is in the foreground already
			if err != nil {
				return err
			}
			_, next, err := readShell(ctx, b.wire, "int", 0, "ready")
			if err != nil {
				return err
			}
			if _, err := wire.Call(ctx, b.wire, wire.SignalShell, wire.SignalShellRequest{ShellID: "int", Signal: "INT"}); err != nil {
				return err
			}
			if err := writeShell(ctx, b.wire, "int", "echo al''ive"); err != nil {
				return err
			}
			_, _, err = readShell(ctx, b.wire, "int", next, "alive")
			return err
		}},
		{name: "shell: its end is that of all it started", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			err := errors.Join(openShell(ctx, b.wire, "end"), writeShell(ctx, b.wire, "end", "./probe daemon "+mark+"; echo do''ne"))
			if err != nil {
				return err
			}
			_, _, err = readShell(ctx, b.wire, "end", 0, "done")
			seen := must(len(marked(mark)) > 0, "there was no daemon")
			r, cerr := wire.Call(ctx, b.wire, wire.CloseShell, wire.ShellRequest{ShellID: "end"})
			return errors.Join(err, seen, cerr, gone(mark), must(r.DeathProved, "it is not proved"))
		}},
		{name: "service: ready when its file is there", do: func(ctx context.Context, b *box) error {
			s, err := b.service(ctx, "file", "sleep 0.3; touch ready-file; exec sleep 1000", `{"type":"file","path":"/workspace/ready-file"}`)
			return errors.Join(err, must(err != nil || s.State == "running" && s.ReadyAt != nil, "%+v", s), b.stop(ctx, "file"))
		}},
		{name: "service: ready when its command says so", do: func(ctx context.Context, b *box) error {
			s, err := b.service(ctx, "command", "touch ready-command; exec sleep 1000", `{"type":"command","command":"test -e ready-command"}`)
			return errors.Join(err, must(err != nil || s.State == "running" && s.ReadyAt != nil, "%+v", s), b.stop(ctx, "command"))
		}},
		{name: "service: one that ends before it is ready", do: func(ctx context.Context, b *box) error {
			s, err := b.service(ctx, "failing", "exit 3", `{"type":"file","path":"/workspace/never"}`)
			return errors.Join(err, must(err != nil || s.State == "failed" && s.ExitCode != nil && *s.ExitCode == 3, "%+v", s))
		}},
		{name: "service: its output", do: func(ctx context.Context, b *box) error {
			_, err := b.service(ctx, "logs", "echo one; echo two >&2; touch logged; exec sleep 1000", `{"type":"file","path":"/workspace/logged"}`)
			if err != nil {
				return err
			}
			r, err := wire.Call(ctx, b.wire, wire.LogsService, wire.LogsServiceRequest{ServiceName: "logs"})
			return errors.Join(err, same(r.Stdout, "one\n"), same(r.Stderr, "two\n"), b.stop(ctx, "logs"))
		}},
		{name: "service: a stop ends all that it started", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			_, err := b.service(ctx, "tree", "./probe daemon "+mark+"; touch treed; exec ./probe sleep "+mark, `{"type":"file","path":"/workspace/treed"}`)
			if err != nil {
				return err
			}
			seen := await(ctx, mark, func(n int) bool { return n >= 2 })
			return errors.Join(seen, b.stop(ctx, "tree"), gone(mark))
		}},
	}
}

func (b *box) service(ctx context.Context, name, command, readiness string) (wire.Service, error) {
	return wire.Call(ctx, b.wire, wire.StartService, wire.StartServiceRequest{
		ServiceName: name, Command: osstring.String(command), Cwd: "/workspace", Readiness: json.RawMessage(readiness), ReadyTimeoutSeconds: 20, ReadyIntervalMS: 20,
	})
}

func (b *box) stop(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := wire.Call(ctx, b.wire, wire.StopService, wire.ServiceRequest{ServiceName: name})
	return errors.Join(err, must(err != nil || r.State == "stopped" && r.DeathProved, "%+v", r))
}
