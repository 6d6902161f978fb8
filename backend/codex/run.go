//go:build linux

package codex

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/internal/text"
)

// Bounds of one run of the CLI for a look at it. A start takes it well below
// a second; the first one may read its hundreds of megabytes from a slow disk.
// Tests shorten the time.
var runTimeout = 20 * time.Second

const (
	maxPrinted = 64 << 10 // bytes kept of each stream
	afterExit  = time.Second
)

// errHangs says that the CLI did not come to an end by itself.
var errHangs = errors.New("it did not end in time")

// printed is what one run printed, bounded.
type printed struct{ out, err text.Head }

// wholeLines drops the last line if its writer was ended within it, unless it is the only one:
// a question that waits for its answer says why nothing goes on.
func wholeLines(h *text.Head) {
	if i := bytes.LastIndexByte(h.Bytes(), '\n'); i >= 0 {
		h.Cut(i + 1)
	}
}

// run executes argv in a session of its own, and ends what it leaves behind in
// it. The error is errHangs, or what the program ended with.
func run(ctx context.Context, h home, dir, input string, argv []string) (*printed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, errHangs)
	defer cancel()
	p := printed{text.Head{Max: maxPrinted}, text.Head{Max: maxPrinted}}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, h.env()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &p.out, &p.err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = afterExit
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		wholeLines(&p.out)
		wholeLines(&p.err)
		return &p, context.Cause(ctx)
	}
	return &p, err
}

// env returns the environment of the CLI itself, which commands do not get: little
// of the caller's, and its files in directories of the sandbox.
func (h home) env() []string {
	return []string{"CODEX_HOME=" + h.dir, "HOME=" + h.dir, "TMPDIR=" + h.shared, "RUST_BACKTRACE=0", "LC_ALL=C", "PATH=" + h.path}
}

// said returns the line of what a program printed that says most about its end: the
// first that tells of an error, else the last.
func (p *printed) said() string {
	var last string
	for line := range strings.Lines(p.err.String() + "\n" + p.out.String()) {
		line = strings.TrimSpace(line)
		lower := strings.ToLower(line)
		switch {
		case line == "" || strings.HasPrefix(line, "note:") || strings.HasPrefix(line, "WARNING:"):
		case strings.HasPrefix(lower, "error") || strings.HasPrefix(line, "bwrap:"):
			return shorten(line)
		default:
			last = line
		}
	}
	return shorten(last)
}

// maxSaid bounds what an error repeats of what a program printed, in bytes.
const maxSaid = 300

func shorten(s string) string {
	return text.Truncate(text.Printable(s, ' '), maxSaid)
}
