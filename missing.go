package paddock

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// explainMissing returns the error of a command that does not exist, or cannot be
// executed, with a hint that says where its program is, where that is known. dir is the
// working directory.
func (s *Sandbox) explainMissing(err error, name, dir string) error {
	e, missing := (*Error)(nil), errors.Is(err, ErrNotFound)
	if !missing && !errors.Is(err, ErrNotExecutable) || !errors.As(err, &e) || !missing && e.Hint != "" || s.spec.Commands != nil {
		return err
	}
	hint := s.ownProgram(name, dir)
	if hint == "" && missing {
		hint = s.whereIs(name)
	}
	if hint == "" && missing && s.showsHost() && s.search != "" && !strings.Contains(name, "/") && len(programs(name, s.search)) == 0 {
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

// statusNotFound is the exit status of a shell that does not find a program.
const statusNotFound = 127

// guessMissing adds to the denials what the output of a command that ended as shells do
// where they do not find a program says of that.
func (s *Sandbox) guessMissing(list []Denial, status int, output []byte) []Denial {
	if status != statusNotFound {
		return list
	}
	found := unfound.FindSubmatch(output)
	if found == nil {
		return list
	}
	name := string(bytes.Join(found[1:], nil)) // one of them
	if hint := s.whereIs(name); hint != "" {
		list = append(list, Denial{Layer: "path", Rule: "not found", Object: name, Hint: hint, Guess: true})
	}
	return list
}

// lookupTime bounds the question to the sandbox.
const lookupTime = 5 * time.Second

// maxWhere bounds what the sandbox answers, in bytes.
const maxWhere = 64 << 10

// whereIs says where a program is, and what to write so that it is found; empty where
// that is not known.
func (s *Sandbox) whereIs(name string) string {
	if s.spec.Commands != nil || s.spec.Backend == policy.BackendHost || strings.Contains(name, "/") && (s.discreet || !filepath.IsAbs(name)) {
		return ""
	}
	files := programs(name, s.search)
	cmd := s.Command(context.Background(), "/bin/sh", append([]string{"-c", `echo "$PATH"; for f; do if [ -f "$f" ] && [ -x "$f" ]; then echo "$f"; break; fi; done`, "sh"}, files...)...)
	cmd.Timeout = lookupTime
	out, err := cmd.Output()
	search, visible, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(out) > maxWhere || visible != "" && !slices.Contains(files, visible) {
		return "" // it has no shell, say, or one that answers something else
	}
	search = hostpath.Printable(search)
	switch {
	case visible != "" && (visible == name || slices.Contains(strings.Split(search, ":"), filepath.Dir(visible))):
		return "" // it is found, and what runs it is not
	case visible != "":
		hint := "it is at " + visible + ", outside of PATH: call it by that path, or write --env PATH=" + filepath.Dir(visible) + ":" + search
		if !s.discreet && slices.Contains(strings.Split(s.search, ":"), filepath.Dir(visible)) {
			hint += `; "paddock plan" says why your PATH's directory was left out`
		}
		return hint
	case !s.showsHost() || len(files) == 0:
		return ""
	case s.discreet:
		return "this host has it, in a directory that the sandbox does not show: --ro makes one visible"
	}
	shown := func(file string) string {
		if dir := filepath.Dir(file); hostpath.Home(dir) == "" {
			return dir
		}
		return file // not a home with all that is in it
	}
	hint := "it is at " + files[0] + " on this host, which the sandbox does not show: --ro " + shown(files[0])
	if target, err := filepath.EvalSymlinks(files[0]); err == nil && filepath.Dir(target) != filepath.Dir(files[0]) && !strings.HasPrefix(target, "/usr/") {
		hint += " --ro " + shown(target)
	}
	return hint + ", and what else it needs"
}

// showsHost reports whether programs inside are this host's.
func (s *Sandbox) showsHost() bool {
	return s.spec.Backend == policy.BackendLinux && s.spec.RootFS == policy.RootHost && s.spec.Commands == nil
}

// elsewhere are directories in which programs are that nobody has in PATH.
var elsewhere = []string{"/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/go-*/bin", "/usr/games", "/usr/local/games", "/opt/*/bin", "/opt/*"}

// programs lists the files of this host that a program's name may stand for, those
// in the caller's PATH first; of a path the file itself.
func programs(name, search string) []string {
	const most = 16
	var files []string
	add := func(file string) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(files, file) && len(files) < most {
			files = append(files, file)
		}
	}
	if strings.Contains(name, "/") {
		add(filepath.Clean(name))
		return files
	}
	for _, pattern := range slices.Concat(strings.Split(search, ":"), strings.Split(policy.SearchPath, ":"), elsewhere) {
		dirs := []string{pattern}
		if slices.Contains(elsewhere, pattern) {
			dirs, _ = filepath.Glob(pattern) // the patterns are well-formed
		}
		for _, dir := range dirs {
			if filepath.IsAbs(dir) {
				add(filepath.Join(dir, name))
			}
		}
	}
	return files
}
