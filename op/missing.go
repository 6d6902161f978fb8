package op

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// lookup finds out where a program is that a sandbox does not find.
type lookup struct {
	ctx     context.Context //nolint:containedctx // of the command that is explained
	sandbox *paddock.Sandbox
	path    string // the caller's PATH
	bounded bool   // who asks is not told where things of this host are
}

func (e *Env) lookupIn(ctx context.Context, s *paddock.Sandbox) lookup {
	return lookup{ctx, s, e.Options.Path, e.Ceiling != nil}
}

// explain returns the error of a command that does not exist with a hint that says
// where its program is, where that is known.
func (l lookup) explain(err error, name string) error {
	e := (*paddock.Error)(nil)
	if !errors.Is(err, paddock.ErrNotFound) || !errors.As(err, &e) {
		return err
	}
	hint := l.hint(name)
	if hint == "" && l.here() && l.path != "" && len(programs(name, l.path)) == 0 {
		hint = "this host has no program of that name in PATH either"
	}
	if hint != "" {
		told := *e
		told.Hint = hint
		return &told
	}
	return err
}

// unfound is what shells, and env(1), say of a program that they do not find.
var unfound = regexp.MustCompile(`(?m)(?:^|[ \t])([A-Za-z0-9_.+-]{1,64}): (?:command )?not found$|: command not found: ([A-Za-z0-9_.+-]{1,64})$|^env: ['‘]([A-Za-z0-9_.+-]{1,64})['’]: No such file`)

// guess adds to the result of a command that ended as shells do where they do not
// find a program what its error output says of that.
func (l lookup) guess(r *paddock.Result, stderr io.Writer) {
	kept, ok := stderr.(paddock.Kept)
	if !ok || r == nil || r.ExitCode != statusNotFound {
		return
	}
	found := unfound.FindSubmatch(kept.Bytes())
	if found == nil {
		return
	}
	name := string(bytes.Join(found[1:], nil)) // one of them
	if hint := l.hint(name); hint != "" {
		r.Denials = append(r.Denials, paddock.Denial{Layer: "path", Rule: "not found", Object: name, Hint: hint, Guess: true})
	}
}

// lookupTime bounds the question to the sandbox.
const lookupTime = 5 * time.Second

// hint says where a program is, and what to write so that it is found; empty where
// that is not known.
func (l lookup) hint(name string) string {
	spec := l.sandbox.Spec()
	if spec.Commands != nil || spec.Backend == policy.BackendHost || strings.Contains(name, "/") {
		return ""
	}
	files := programs(name, l.path)
	cmd := l.sandbox.Command(l.ctx, "/bin/sh", append([]string{"-c", `echo "$PATH"; for f; do if [ -f "$f" ] && [ -x "$f" ]; then echo "$f"; break; fi; done`, "sh"}, files...)...)
	cmd.Timeout = lookupTime
	out, err := cmd.Output()
	search, visible, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(out) > maxHeard || visible != "" && !slices.Contains(files, visible) {
		return "" // it has no shell, say, or one that answers something else
	}
	search = hostpath.Printable(search)
	switch {
	case visible != "" && slices.Contains(strings.Split(search, ":"), filepath.Dir(visible)):
		return "" // it is found, and what runs it is not
	case visible != "":
		return "it is at " + visible + ", outside of PATH: call it by that path, or write --env PATH=" + filepath.Dir(visible) + ":" + search
	case !l.here() || len(files) == 0:
		return ""
	case l.bounded:
		return "this host has it, in a directory that the sandbox does not show: --ro makes one visible"
	}
	dir := filepath.Dir(files[0])
	hint := "it is at " + files[0] + " on this host, which the sandbox does not show: --ro " + dir
	if target, err := filepath.EvalSymlinks(files[0]); err == nil && filepath.Dir(target) != dir && !strings.HasPrefix(target, "/usr/") {
		hint += " --ro " + filepath.Dir(target)
	}
	return hint + ", and what else it needs"
}

// here reports whether programs inside are this host's.
func (l lookup) here() bool {
	spec := l.sandbox.Spec()
	return spec.Backend == policy.BackendLinux && spec.RootFS == policy.RootHost && spec.Commands == nil
}

// elsewhere are directories in which programs are that nobody has in PATH.
var elsewhere = []string{"/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/go-*/bin", "/usr/games", "/usr/local/games", "/opt/*/bin", "/opt/*"}

// programs lists the files of this host that a program's name may stand for, those
// in the caller's PATH first.
func programs(name, search string) []string {
	const most = 16
	var files []string
	for _, pattern := range slices.Concat(strings.Split(search, ":"), strings.Split(policy.SearchPath, ":"), elsewhere) {
		dirs := []string{pattern}
		if slices.Contains(elsewhere, pattern) {
			dirs, _ = filepath.Glob(pattern) // the patterns are well-formed
		}
		for _, dir := range dirs {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(files, file) && len(files) < most {
				files = append(files, file)
			}
		}
	}
	return files
}
