//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func wallCells() []cell {
	network := func(word string) func(*policy.Spec) { return func(s *policy.Spec) { s.Network.Mode = word } }
	return []cell{
		{name: "network: none by default", do: func(ctx context.Context, b *box) error { return b.dials(ctx, false) }},
		{name: "network: none, written", opens: network("none"), do: func(ctx context.Context, b *box) error { return b.dials(ctx, false) }},
		{name: "network: host, written", opens: network("host"), do: func(ctx context.Context, b *box) error { return b.dials(ctx, true) }},
		{name: "wall: files of the host cannot be read", do: func(ctx context.Context, b *box) error {
			out, err := b.s.Command(ctx, "cat", filepath.Join(b.outside, "secret")).CombinedOutput()
			return must(err != nil && !strings.Contains(string(out), "of the host"), "it was read")
		}},
		{name: "wall: files of the host cannot be changed", do: func(ctx context.Context, b *box) error {
			secret := filepath.Join(b.outside, "secret")
			_ = b.s.Command(ctx, "sh", "-c", "echo changed >> "+secret+"; echo made > "+filepath.Join(b.outside, "made")).Run()
			text, err := os.ReadFile(secret)
			_, made := os.Stat(filepath.Join(b.outside, "made"))
			defer func() { _ = os.WriteFile(secret, []byte("of the host\n"), 0o666) }()
			return errors.Join(err, same(string(text), "of the host\n"), must(errors.Is(made, os.ErrNotExist), "a file was made"), os.RemoveAll(filepath.Join(b.outside, "made")))
		}},
		hostSocket(),
		{name: "wall: processes of the host cannot be seen", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			_, end, err := b.victim(mark)
			if err != nil {
				return err
			}
			defer end()
			cmd := b.s.Command(ctx, "./probe", "look", "-")
			cmd.Stdin = strings.NewReader(mark + "\n")
			return must(cmd.Run() != nil, "it was seen")
		}},
		{name: "wall: processes of the host cannot be signalled", do: func(ctx context.Context, b *box) error {
			pid, end, err := b.victim(newMark())
			if err != nil {
				return err
			}
			defer end()
			err = b.s.Command(ctx, "./probe", "signal", fmt.Sprint(pid)).Run()
			return must(err != nil, "it was reached")
		}},
		{name: "wall: commands are not the host's root", do: func(ctx context.Context, b *box) error {
			mark := newMark()
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			cmd := b.s.Command(own, "./probe", "sleep", mark)
			if err := cmd.Start(); err != nil {
				return err
			}
			defer func() { cancel(); _ = cmd.Wait() }()
			if err := await(ctx, mark, some); err != nil {
				return err
			}
			info, err := os.Stat("/proc/" + marked(mark)[0])
			return errors.Join(err, must(err != nil || !strings.HasPrefix(ownerOf(info), "0:"), "they are"))
		}},
		{name: "wall: no new privileges", do: func(ctx context.Context, b *box) error { return b.status(ctx, "NoNewPrivs:\t1") }},
		{name: "wall: system calls are filtered", do: func(ctx context.Context, b *box) error { return b.status(ctx, "Seccomp:\t2") }},
		{name: "wall: no capabilities", do: func(ctx context.Context, b *box) error { return b.status(ctx, "CapEff:\t0000000000000000") }},
		{name: "wall: what holds is verified from outside", do: func(_ context.Context, b *box) error {
			return must(b.s.Isolation().Verified, "it is the agent's word")
		}},
	}
}

// hostSocket connects to what a program of the host listens at in the workspace.
func hostSocket() cell {
	const name = "host.sock"
	var l net.Listener
	listen := func(s *policy.Spec) {
		if at := s.Workspace.Source; at != "" { // else nothing of the host is there
			var err error
			if l, err = net.Listen("unix", filepath.Join(at, name)); err == nil {
				_ = os.Chmod(filepath.Join(at, name), 0o777) // an error shows at the first wall without covers
			}
		}
	}
	return cell{name: "wall: sockets of the host cannot be connected to", opens: listen, do: func(ctx context.Context, b *box) error {
		if l == nil {
			return must(b.dir == "", "nobody listens")
		}
		defer l.Close()
		return must(b.s.Command(ctx, "./probe", "unix", name).Run() != nil, "one was reached")
	}}
}

// dials reports whether commands reach a port of the host, as wanted.
func (b *box) dials(ctx context.Context, want bool) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	out, err := b.s.Command(ctx, "./probe", "dial", l.Addr().String()).CombinedOutput()
	if want {
		return must(err == nil, "it was not reached: %s", out)
	}
	return must(err != nil, "it was reached")
}

// status wants a line of a command's status.
func (b *box) status(ctx context.Context, line string) error {
	out, err := b.output(ctx, "cat", "/proc/self/status")
	return errors.Join(err, must(strings.Contains(out, line+"\n"), "there is no line %q", line))
}

// victim returns a process of the host, of the user that runs the tests.
func (b *box) victim(mark string) (pid int, end func(), err error) {
	cmd := exec.Command(programs.probe, "sleep", mark)
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

func ownerOf(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "nobody is known"
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

func (b *box) limitsOfOneCommand(ctx context.Context) error {
	r, err := b.wire.Exec(ctx, wire.ExecRequest{Argv: []string{"sh", "-c", "ulimit -n"}, Limits: &wire.Limits{OpenFiles: 50}})
	return errors.Join(err, same(r.Stdout, "50\n"))
}
