//go:build linux

package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// What controls come to, beside the answers of the kernel.
const (
	succeeded = "succeeded"
	notRun    = "not tried"
	needsRoot = "needs root"
	inVM      = "vm only"
)

// disposableEnv says that nothing is lost with this machine. Such a machine is
// an emulated one, and slow: there the grid leaves out what only repeats.
const disposableEnv = "PADDOCK_DISPOSABLE_MACHINE"

var emulated = os.Getenv(disposableEnv) != ""

// patience is for an attack that hangs. Some take long where the machine is emulated.
const patience = 6 * time.Minute

// outcome is what an attack came to, in one word or a few: "succeeded", an
// errno, or the attacker's own words.
func outcome(stdout []byte, status string) string {
	var v struct {
		Succeeded bool
		Errno     string
		Detail    string
	}
	if json.Unmarshal(stdout, &v) != nil {
		return "crashed (" + strings.TrimSpace(status) + ")"
	}
	switch {
	case v.Succeeded:
		return succeeded
	case v.Errno != "":
		return v.Errno
	default:
		return v.Detail
	}
}

// targets are the processes that attacks name. On the host's side each is a
// new one, that anybody may do anything to.
var targets = []string{"{init}", "{agent}", "{host}", "{sibling}"}

// without runs the attack on the host's side.
func (h *host) without(t *testing.T, r row) string {
	t.Helper()
	switch {
	case r.control == never:
		return notRun
	case r.control == vmOnly && !emulated:
		return inVM
	case r.control == root && os.Geteuid() != 0:
		return needsRoot
	case r.control == ordinary && os.Geteuid() == 0:
		return "needs an ordinary user"
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := h.control(ctx, t, r.args, r.control == private)
	stdout, err := cmd.Output()
	status := "status 0"
	if err != nil {
		status = err.Error()
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	got := outcome(stdout, status)
	if got == succeeded {
		return got
	}
	if !oneOf(got, r.unless) {
		detail := ""
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			detail = string(exit.Stderr)
		}
		t.Errorf("without the wall: %s, want succeeded: %s%s", got, stdout, detail)
	}
	return "n/a: host refuses, " + got
}

// control is the attacker on the host's side; private gives it namespaces of
// its own to break.
func (h *host) control(ctx context.Context, t *testing.T, args []string, private bool) *exec.Cmd {
	t.Helper()
	side := []string{"{ws}", h.outside, "{prepare}", "prepare"}
	for _, target := range targets {
		if slices.Contains(args, target) {
			side = append(side, target, h.victim(t))
		}
	}
	cmd := exec.CommandContext(ctx, h.program(), h.expand(args, side...)...)
	cmd.Dir = h.outside
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if private {
		own := cmd.SysProcAttr
		own.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
		if os.Geteuid() != 0 {
			own.Cloneflags |= unix.CLONE_NEWUSER
			own.UidMappings = oneID(os.Getuid())
			own.GidMappings = oneID(os.Getgid())
		}
		own.Unshareflags = unix.CLONE_NEWNS // makes the mounts private
	}
	// The leaked directory reaches the control as it would any program.
	if leaked, err := os.Open(h.dir); err == nil {
		cmd.ExtraFiles = []*os.File{leaked}
	}
	return cmd
}

func oneID(id int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
}

// within runs the attack inside.
func (h *host) within(t *testing.T, r row) cell {
	t.Helper()
	landlock := h.Level == policy.LevelLandlock
	if landlock && r.absent != "" {
		return cell{r.absent, absent}
	}
	unchanged := h.watchCopied(t, r)
	got, err := h.attack(t.Context(), h.box, r.args)
	if err != nil {
		t.Fatal(err)
	}
	want := r.want
	switch {
	case landlock && r.lost != "":
		want = succeeded
		if !strings.Contains(strings.Join(h.box.lost, "\n"), r.lost) {
			t.Errorf("no loss of the level says %q", r.lost)
		}
	case landlock && r.landlock != "":
		want = r.landlock
	}
	switch {
	case !oneOf(got, want):
		t.Errorf("inside: %s, want %s", got, want)
		return cell{got, hole}
	case got != succeeded:
		return cell{got, stopped}
	case landlock && r.lost != "":
		return cell{"lost: " + r.lost, lost}
	case r.copied != "" && !unchanged():
		t.Errorf("%s of the host's is changed", r.copied)
		return cell{got, hole}
	default:
		return cell{"harmless", harmless}
	}
}

// watchCopied returns what reports whether the row's copied file is still as it was.
func (h *host) watchCopied(t *testing.T, r row) func() bool {
	t.Helper()
	if r.copied == "" {
		return func() bool { return false }
	}
	file := h.expand([]string{r.copied}, "{ws}", h.inside)[0]
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		after, err := os.ReadFile(file)
		return err == nil && bytes.Equal(before, after)
	}
}

func oneOf(got, wants string) bool { return slices.Contains(strings.Split(wants, "|"), got) }

// attack runs the attacker in a sandbox of the host's.
func (h *host) attack(ctx context.Context, b *box, args []string) (string, error) {
	limit := patience.Seconds()
	res, err := b.client.Exec(ctx, wire.ExecRequest{
		Argv: append([]string{b.attacker}, h.expand(args, b.names...)...), TimeoutSeconds: &limit,
	})
	if err != nil {
		return "", err
	}
	return outcome([]byte(res.Stdout), fmt.Sprintf("status %d %s", res.ExitCode, res.Signal)), nil
}
