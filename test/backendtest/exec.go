//go:build linux

package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func execCells() []cell {
	return []cell{
		{name: "exec: arguments arrive as they are", do: func(ctx context.Context, b *box) error {
			out, err := b.output(ctx, "sh", "-c", `printf '%s|' "$@"`, "x", "a b", "", "*", "$HOME", "ü")
			return errors.Join(err, same(out, "a b||*|$HOME|ü|"))
		}},
		{name: "exec: bytes that are not UTF-8", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", `mkdir -p "$1" && cd "$1" && printf '%s|' "${PWD##*/}" "$PD_BYTES"`, "x", "caf\xe9")
			cmd.AddEnv = []string{"PD_BYTES=\xff"}
			out, err := cmd.Output()
			err = errors.Join(err, same(string(out), "caf\xe9|\xff|"))
			cmd = b.s.Command(ctx, "sh", "-c", `printf %s "${PWD##*/}"; rmdir "$PWD"`)
			cmd.Dir = "caf\xe9"
			out, werr := cmd.Output()
			return errors.Join(err, werr, same(string(out), "caf\xe9"))
		}},
		{name: "exec: shell text", do: func(ctx context.Context, b *box) error {
			r, err := b.wire.Exec(ctx, wire.ExecRequest{Command: "echo $((6*7)) | cat; echo err >&2"})
			return errors.Join(err, same(r.Stdout, "42\n"), same(r.Stderr, "err\n"))
		}},
		{name: "exec: exit status", do: func(ctx context.Context, b *box) error {
			exit := (*paddock.ExitError)(nil)
			err := b.s.Command(ctx, "sh", "-c", "exit 7").Run()
			return must(errors.As(err, &exit) && exit.ExitCode == 7, "it is %v", err)
		}},
		{name: "exec: end by a signal", do: func(ctx context.Context, b *box) error {
			exit := (*paddock.ExitError)(nil)
			err := b.s.Command(ctx, "sh", "-c", "kill -TERM $$").Run()
			return must(errors.As(err, &exit) && exit.Signal == "SIGTERM" && exit.ExitCode == -15, "it is %v", err)
		}},
		{name: "exec: a command that does not exist", do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "no-such-command").Run()
			return must(errors.Is(err, paddock.ErrNotFound), "it is %v", err)
		}},
		{name: "exec: a command that cannot be executed", do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "/").Run()
			return must(errors.Is(err, paddock.ErrNotExecutable), "it is %v", err)
		}},
		{name: "exec: variables of the spec and of the command", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", "echo $PD_SPEC, $PD_OWN")
			cmd.AddEnv = []string{"PD_OWN=its own"}
			out, err := cmd.Output()
			return errors.Join(err, same(string(out), "from the spec, its own\n"))
		}},
		{name: "exec: nothing of the caller's variables", do: func(ctx context.Context, b *box) error {
			const name = "PADDOCK_BACKENDTEST_CALLER"
			if err := os.Setenv(name, "x"); err != nil {
				return err
			}
			defer os.Unsetenv(name)
			fresh, err := b.open(ctx, nil)
			if err != nil {
				return err
			}
			return errors.Join(fresh.sh(ctx, "echo ${"+name+"-unset}", "unset\n"), fresh.close())
		}},
		{name: "exec: working directory", do: func(ctx context.Context, b *box) error {
			if _, err := wire.Call(ctx, b.wire, wire.Mkdir, wire.MkdirRequest{Path: "/workspace/a/b"}); err != nil {
				return err
			}
			cmd := b.s.Command(ctx, "sh", "-c", "pwd")
			cmd.Dir = "a/b"
			out, err := cmd.Output()
			return errors.Join(err, must(strings.HasSuffix(string(out), "/a/b\n"), "it is %q", out))
		}},
		{name: "exec: standard input", do: func(ctx context.Context, b *box) error {
			text := strings.Repeat("0123456789abcdef", 1<<16)
			cmd := b.s.Command(ctx, "wc", "-c")
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.Output()
			return errors.Join(err, same(strings.TrimSpace(string(out)), fmt.Sprint(len(text))))
		}},
		{name: "exec: standard input is empty without one", do: func(ctx context.Context, b *box) error {
			out, err := b.output(ctx, "cat")
			return errors.Join(err, same(out, ""))
		}},
		{name: "exec: both outputs, apart", do: func(ctx context.Context, b *box) error {
			var stdout, stderr bytes.Buffer
			cmd := b.s.Command(ctx, "sh", "-c", "echo out; echo err >&2")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			return errors.Join(cmd.Run(), same(stdout.String(), "out\n"), same(stderr.String(), "err\n"))
		}},
		{name: "exec: binary output", do: func(ctx context.Context, b *box) error {
			out, err := b.s.Command(ctx, "printf", `\000\377\001\r\n\200`).Output()
			return errors.Join(err, same(string(out), "\x00\xff\x01\r\n\x80"))
		}},
		{name: "exec: 16 MiB of output, all of it", do: func(ctx context.Context, b *box) error {
			count := &counter{}
			cmd := b.s.Command(ctx, "head", "-c", "16777216", "/dev/zero")
			cmd.Stdout = count
			return errors.Join(cmd.Run(), same(count.n, 16<<20))
		}},
		{name: "exec: captured output is bounded", opens: func(s *policy.Spec) { s.Limits.Output = 64 * policy.KiB }, do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "head", "-c", "1000000", "/dev/zero")
			out, err := cmd.Output()
			r := cmd.Result()
			return errors.Join(err, must(r != nil && r.StdoutTruncated && r.StdoutBytes == 1000000 && len(out) < 80<<10, "%d bytes, %+v", len(out), r))
		}},
		{name: "exec: a pipe as output", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "head", "-c", "3000000", "/dev/zero")
			out, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, out)
			return errors.Join(err, cmd.Wait(), same(n, 3000000))
		}},
		{name: "exec: 20 commands at a time", do: func(ctx context.Context, b *box) error {
			errs := make([]error, 20)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = b.sh(ctx, fmt.Sprintf("echo %d", i), fmt.Sprintf("%d\n", i)) })
			}
			all.Wait()
			return errors.Join(errs...)
		}},
		{name: "exec: a signal for the command", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", `trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.1; done`)
			out, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			ready := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(out, ready); err != nil {
				return errors.Join(err, cmd.Wait())
			}
			err = cmd.Signal("USR1")
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			return errors.Join(err, same(string(rest), "caught\n"), same(cmd.Result().ExitCode, 3))
		}},
		{name: "exec: values are redacted, also split ones", do: func(ctx context.Context, b *box) error {
			r, err := b.wire.Exec(ctx, wire.ExecRequest{Command: "printf 'a ses'; sleep 0.1; printf 'ame b\n'", RedactValues: []string{"sesame"}})
			return errors.Join(err, same(r.Stdout, "a [REDACTED] b\n"))
		}},
		{name: "exec: rules of the spec, whoever asks", do: func(ctx context.Context, b *box) error {
			fresh, err := b.open(ctx, func(s *policy.Spec) {
				s.Redaction = []policy.Redaction{{Type: "email", Strategy: "mask"}, {Name: "ticket", Pattern: "JIRA-[0-9]+"}}
			})
			if err != nil {
				return err
			}
			const says = "echo joe@example.org; printf JIRA-; sleep 0.1; echo 12"
			const told = "j***@example.org\n[REDACTED_TICKET]\n"
			out, err := fresh.s.Command(ctx, "sh", "-c", says).Output()
			r, errRaw := fresh.wire.Exec(ctx, wire.ExecRequest{Command: says})
			return errors.Join(err, errRaw, same(string(out), told), same(r.Stdout, told), same(r.RedactionMatches["ticket"], int64(1)), fresh.close())
		}},
		{name: "exec: usage is told", do: func(ctx context.Context, b *box) error {
			cmd := b.s.Command(ctx, "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
			err := cmd.Run()
			r := cmd.Result()
			return errors.Join(err, must(r != nil && r.UserCPU > 0 && r.PeakMemory > 0 && r.Duration > 0, "%+v", r))
		}},
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
