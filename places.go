package paddock

import (
	"bytes"
	"context"
	"os"
	"path"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// projects are what tools say where they find no project, and the file or directory at
// the top of one.
var projects = []struct{ text, top string }{
	{"not a git repository (or any", ".git"},
	{"does not contain main module", "go.mod"},
	{"go.mod file not found", "go.mod"},
	{"cannot find main module", "go.mod"},
	{"could not find `Cargo.toml`", "Cargo.toml"},
	{"Could not read package.json", "package.json"},
}

// absent are what programs say of a file that does not exist.
var absent = []string{"o such file or directory", "ENOENT", "bad interpreter", "does not exist"}

// guessPlaces adds to the denials what the output of a command that failed says of places
// of this host that are not there inside, or are elsewhere: the project that the workspace
// is a part of, and the workspace by its own path.
func (s *Sandbox) guessPlaces(list []Denial, said []byte) []Denial {
	source := s.spec.Workspace.Source
	if s.discreet || s.spec.Backend != policy.BackendLinux || !path.IsAbs(source) || len(said) == 0 {
		return list
	}
	for _, p := range projects {
		if !bytes.Contains(said, []byte(p.text)) || exists(path.Join(source, p.top)) {
			continue
		}
		for dir := path.Dir(source); hostpath.Home(dir) == ""; dir = path.Dir(dir) {
			if exists(path.Join(dir, p.top)) {
				below := strings.TrimPrefix(source, dir+"/")
				return append(list, Denial{Layer: "mount", Rule: "workspace", Object: dir, Guess: true,
					Hint: "the workspace is a part of the project in " + dir + ", which is not visible: --workspace " + policy.ShellWord(dir) + " --cwd " + policy.ShellWord(below)})
			}
		}
	}
	if s.hides(source) && bytes.Contains(said, []byte(source)) {
		for _, text := range absent {
			if bytes.Contains(said, []byte(text)) {
				return append(list, Denial{Layer: "mount", Rule: "workspace", Object: source, Guess: true,
					Hint: source + " is " + policy.WorkspacePath + " inside"})
			}
		}
	}
	return list
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// hides reports whether the workspace is not there inside by its path on this host.
func (s *Sandbox) hides(source string) bool {
	for _, m := range s.spec.Mounts {
		if _, in := hostpath.Within(source, m.Target); in {
			return false
		}
	}
	_, in := hostpath.Within(source, policy.WorkspacePath)
	return !in && len(source) > 1
}

// ownProgram says what to write for a command that was not found, or cannot be executed,
// and that is a file of the workspace; empty where it is none.
func (s *Sandbox) ownProgram(name, dir string) string {
	file := name
	if source := s.spec.Workspace.Source; !s.discreet && s.spec.Backend == policy.BackendLinux && path.IsAbs(source) && s.hides(source) {
		if below, in := hostpath.Within(path.Clean(name), source); in {
			file = path.Join(policy.WorkspacePath, below)
		}
	}
	call := file
	if !strings.Contains(file, "/") {
		call = "./" + file
	}
	cmd := s.Command(context.Background(), "/bin/sh", "-c", `if [ ! -f "$1" ]; then echo none; elif [ -x "$1" ]; then echo program; else echo file; fi`, "sh", call)
	cmd.Dir, cmd.Timeout = dir, lookupTime
	out, err := cmd.Output()
	call = policy.ShellWord(call)
	switch kind := strings.TrimSpace(string(out)); {
	case err != nil:
		return ""
	case kind == "file":
		return "it is a file that nobody may execute: chmod +x " + call + ", or name the program that reads it: sh " + call
	case kind == "program" && call != name:
		return "it lies in the workspace: call it " + call
	}
	return ""
}
