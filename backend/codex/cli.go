//go:build linux

package codex

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
)

// binaryID identifies an installed version of the CLI.
type binaryID struct {
	path  string
	size  int64
	mtime time.Time
}

// dialects caches the dialect of each version.
var dialects sync.Map // of dialect, by version

// find resolves the CLI's name. The npm package installs a script that starts the real
// program; find does not look for that. It refuses a program that commands of a sandbox
// could have written, or can write through these mounts.
func find(binary, state string, mounts []hostpath.Mount) (binaryID, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return binaryID{}, &missingError{binary: binary}
	}
	if path, err = filepath.Abs(path); err != nil {
		return binaryID{}, err
	}
	if err := hostpath.Program("codex", state, binary, path, mounts); err != nil {
		return binaryID{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return binaryID{}, &missingError{binary: binary}
	}
	info, err := os.Stat(path)
	if err != nil {
		return binaryID{}, &missingError{binary: binary}
	}
	return binaryID{path: path, size: info.Size(), mtime: info.ModTime()}, nil
}

// askDialect asks the CLI how it takes its arguments, once for each version.
func askDialect(ctx context.Context, h home, id binaryID, platform string) (dialect, error) {
	type version struct {
		binaryID
		platform string
	}
	if d, ok := dialects.Load(version{id, platform}); ok {
		return d.(dialect), nil
	}
	help, err := askHelp(ctx, h, id.path, "sandbox", "--help")
	if err != nil {
		return dialect{}, err
	}
	d := dialect{word: namesCommand(help, platform)}
	if !d.word && !strings.Contains(help, "--config") {
		return dialect{}, cannot("ask for its arguments", id.path, "its help of \"sandbox\" names no platform and no --config", hintVersion)
	}
	if d.word {
		if help, err = askHelp(ctx, h, id.path, "sandbox", platform, "--help"); err != nil {
			return dialect{}, err
		}
		d.fullAuto = strings.Contains(help, "--full-auto")
	}
	dialects.Store(version{id, platform}, d)
	return d, nil
}

// askHelp returns the help that a command prints.
func askHelp(ctx context.Context, h home, argv ...string) (string, error) {
	p, err := run(ctx, h, h.dir, "", argv)
	if err != nil {
		return "", failedRun("ask for its arguments", argv[0], p, err)
	}
	return p.out.String(), nil
}

// namesCommand reports whether a help lists a subcommand of this name.
func namesCommand(help, name string) bool {
	_, list, found := strings.Cut(help, "Commands:")
	if !found {
		return false
	}
	for line := range strings.Lines(list) {
		switch fields := strings.Fields(line); {
		case len(fields) > 0 && !strings.HasPrefix(line, " "):
			return false // the next heading
		case len(fields) > 0 && fields[0] == name:
			return true
		}
	}
	return false
}

const (
	hintVersion = "install a version of the codex CLI that has \"codex sandbox\""
	hintLogin   = "the sandbox of the codex CLI needs no login: check what codex.binary names"
	hintWaits   = "check what codex.binary names: it waits for something"
	hintPanic   = "try another version of the codex CLI; paddock doctor says what works here"
)

// cannot returns a StartError of the stage "codex".
func cannot(op, object, cause, hint string) *backend.StartError {
	return &backend.StartError{Stage: "codex", Op: op, Object: object, Cause: cause, Hint: hint}
}

// failedRun returns the error of a run of the CLI that failed, with a hint.
func failedRun(op, object string, p *printed, err error) error {
	said := p.said()
	cause := err.Error()
	if said != "" {
		cause += ": " + said
	}
	lower := strings.ToLower(p.err.String() + p.out.String())
	switch {
	case strings.Contains(lower, "log in") || strings.Contains(lower, "login") || strings.Contains(lower, "sign in"):
		return cannot(op, object, cause, hintLogin)
	case strings.Contains(lower, "panicked") || strings.Contains(lower, "landlock"):
		return cannot(op, object, cause, hintPanic)
	case errors.Is(err, errHangs):
		return cannot(op, object, cause, hintWaits)
	}
	return cannot(op, object, cause, hintVersion)
}

// runTimeout is how long one run of the CLI may take. It usually takes well below a
// second, but the first run may read hundreds of megabytes from a slow disk. Tests
// shorten it.
var runTimeout = 20 * time.Second

const (
	maxPrinted = 64 << 10 // bytes kept of each stream
	afterExit  = time.Second
)

// errHangs is the error of a CLI that did not end by itself.
var errHangs = errors.New("it did not end in time")

// printed is the output of one run, bounded.
type printed struct{ out, err text.Head }

// wholeLines drops the last line if it is incomplete, because its writer was killed. It
// does not drop the only line: that may be a prompt that waits for an answer, which
// explains why the program hangs.
func wholeLines(h *text.Head) {
	if i := bytes.LastIndexByte(h.Bytes(), '\n'); i >= 0 {
		h.Cut(i + 1)
	}
}

// run executes argv in a new session, and kills the processes that it leaves behind in it.
// The error is errHangs, or how the program ended.
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

// env returns the environment of the CLI itself, which commands do not get: only PATH is
// the caller's, and its files are in directories of the sandbox.
func (h home) env() []string {
	return []string{"CODEX_HOME=" + h.dir, "HOME=" + h.dir, "TMPDIR=" + h.shared, "RUST_BACKTRACE=0", "LC_ALL=C", "PATH=" + h.path}
}

// said returns the line of the output that best says why the program ended: the first one
// with an error, else the last.
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

// maxSaid is how much of a program's output an error repeats, in bytes.
const maxSaid = 300

// shorten makes a text a short printable line.
func shorten(s string) string {
	return text.Truncate(text.Printable(s, ' '), maxSaid)
}
