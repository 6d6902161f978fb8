//go:build linux

package codex

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// binaryID tells one installed version from another.
type binaryID struct {
	path  string
	size  int64
	mtime time.Time
}

// dialects remembers which version takes its arguments how.
var dialects sync.Map // of dialect, by version

// find resolves the CLI's name. A script that starts the real program (as the
// npm package has it) is followed to itself alone. One that commands of a sandbox
// could have written, or can through these mounts, is refused.
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

// cannot returns a StartError about the CLI.
func cannot(op, object, cause, hint string) *backend.StartError {
	return &backend.StartError{Stage: "codex", Op: op, Object: object, Cause: cause, Hint: hint}
}

// failedRun tells what a run ended with, and what may help.
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
