//go:build linux

package piped

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/wire"
)

const someNonce = "0123456789abcdef0123456789abcdef"

// What is no guest's line is refused at once: in the answer where there is a
// nonce to answer with, else on standard error.
func TestGuestRefusals(t *testing.T) {
	line := func(more string) string {
		return `{"version":1,"nonce":"` + someNonce + `","seccomp":"default"` + more + "}\n"
	}
	for _, tt := range []struct{ name, line, answers, says string }{
		{"nothing", "", "", "cannot read the guest's line"},
		{"no JSON", "GET / HTTP/1.1\r\n", "", "cannot read the guest's line"},
		{"too long", strings.Repeat("x", wire.MaxGuest+1) + "\n", "", "longer than 4194304 bytes"},
		{"an unknown name", line(`,"shell":"x"`), "unknown field", ""},
		{"another version", strings.Replace(line(""), `"version":1`, `"version":2`, 1), "speaks version 2", ""},
		{"no workspace", line(`,"workspace":"/nonexistent"`), "cannot use the workspace /nonexistent: no such file or directory", ""},
		{"a file for a workspace", line(`,"workspace":"/etc/passwd"`), "not a directory", ""},
		{"no such filter", strings.Replace(line(""), `"default"`, `"none of them"`, 1), "unknown seccomp profile", ""},
		{"an impossible variable", line(`,"env":{"A=B":""}`), "impossible name", ""},
		{"a relative path", line(`,"workspace":"w"`), "must be an absolute path", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), boxtest.Agent, "guest")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.line), &out, &errs
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 125 {
				t.Errorf("ended with %v", err)
			}
			ready, _, _, err := wire.FindGuestReady(out.Bytes(), someNonce)
			if tt.answers != "" && (err != nil || ready == nil || ready.Failed == nil || !strings.Contains(ready.Failed.Message, tt.answers)) {
				t.Errorf("answers %q: %+v, %v", out.String(), ready, err)
			}
			if tt.answers == "" && out.Len() > 0 || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("says %q, and answers %q", errs.String(), out.String())
			}
		})
	}
}

// A terminal would change what passes.
func TestGuestOnTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	number, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err := cmp.Or(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), boxtest.Agent, "guest")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, &errs
	if err := cmd.Run(); err == nil || !strings.Contains(errs.String(), "is a terminal") || !strings.Contains(errs.String(), "hint: ") {
		t.Errorf("%v: %s", err, errs.String())
	}
}

// A keeper is nothing to start by hand.
func TestKeeperByHand(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), boxtest.Agent, "keep").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "only paddock starts this") {
		t.Errorf("%v: %s", err, out)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		box, err := Start(b.Context(), request(b), plain(b))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := box.Stop(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExec(b *testing.B) {
	box, err := Start(b.Context(), request(b), plain(b))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = box.Stop(b.Context(), 0) }()
	client := wire.Client{Dial: box.Dial}
	for b.Loop() {
		if r, err := client.Exec(b.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil || r.ExitCode != 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	box, err := Start(b.Context(), request(b), plain(b))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = box.Stop(b.Context(), 0) }()
	client := wire.Client{Dial: box.Dial}
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		p, err := client.Start(b.Context(), wire.ExecRequest{Argv: []string{"head", "-c", "268435456", "/dev/zero"}}, wire.Streams{Stdout: counter(0)})
		if err != nil {
			b.Fatal(err)
		}
		if r, err := p.Wait(); err != nil || r.StdoutBytes != size {
			b.Fatalf("%+v, %v", r, err)
		}
		_ = p.Close()
	}
}

type counter int

func (counter) Write(p []byte) (int, error) { return len(p), nil }
