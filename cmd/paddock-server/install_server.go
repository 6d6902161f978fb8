//go:build unix

package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// inFolder returns a path as a configuration that a project's people share has it, if it lies in
// the project.
func inFolder(target *install.Target, dir, path string) string {
	if inside, err := filepath.Rel(dir, path); target.Scope == install.Project && err == nil && filepath.IsLocal(inside) {
		return filepath.Join(target.Folder, inside)
	}
	return path
}

// server returns the server that the client is to start.
func (f *installFlags) server(target *install.Target, dir string) (install.Server, error) {
	s := install.Server{Name: cmp.Or(f.name, ownName), Command: f.command, Args: []string{"mcp"}}
	shared := target.Scope == install.Project
	if s.Command == "" {
		self, err := os.Executable()
		if err != nil {
			return s, fmt.Errorf("cannot find this program: %w", err)
		}
		// This is paddock-server, which paddock becomes.
		s.Command = filepath.Join(filepath.Dir(self), ownName)
		found, err := os.Stat(inPath(ownName, dir))
		beside, wrong := os.Stat(s.Command)
		if shared && err == nil && wrong == nil && os.SameFile(found, beside) {
			s.Command = ownName // elsewhere it is in another directory
		}
	}
	workspace := ""
	switch {
	case target.Scope == install.Local:
		s.Args = append(s.Args, "--project", dir)
	case f.workspace != "":
		abs, err := filepath.Abs(f.workspace)
		if info, statErr := os.Stat(abs); err != nil || statErr != nil || !info.IsDir() {
			return s, &policy.FieldError{Field: "--workspace", Value: f.workspace, Reason: "it is not a directory", Hint: "make it first"}
		}
		workspace = inFolder(target, dir, abs)
	case shared:
		workspace = target.Folder // it starts servers in the user's home
	}
	if workspace != "" && workspace != "." {
		s.Args = append(s.Args, "--workspace", workspace)
	}
	if f.spec != "" {
		file, err := filepath.Abs(f.spec)
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.IsDir() {
			return s, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: "it is not a file", Hint: "write it first; the server does not start without it"}
		}
		s.Args = append(s.Args, "--spec", inFolder(target, dir, file))
	}
	if f.profile != "" {
		if _, err := cli.ParseProfile(f.profile); err != nil {
			return s, err
		}
		s.Args = append(s.Args, "--profile", f.profile)
	}
	for _, word := range f.sandbox.Words {
		name, path, _ := strings.Cut(word, "=")
		if (name == "--ro" || name == "--rw") && path != "" && !strings.HasPrefix(path, "~") && !filepath.IsAbs(path) {
			switch {
			case !shared:
				abs, err := filepath.Abs(path)
				if err != nil {
					return s, err
				}
				word = name + "=" + abs
			case target.Folder != "":
				word = name + "=" + filepath.Join(target.Folder, path)
			}
		}
		s.Args = append(s.Args, word)
	}
	if target.Scope != install.Local {
		return s, nil
	}
	s.Approved = !f.ask && f.unapproved(target, dir) == ""
	if s.Approved && !slices.Contains(s.Args, noNetwork) {
		s.Args = append(s.Args, noNetwork) // whatever the project's file says, now or later
	}
	err := f.nameLocal(target, &s, dir)
	return s, err
}

// noNetwork is the word without which a project's file could give a server the network.
const noNetwork = "--network=none"

// madeUp matches the random names of approved servers.
var madeUp = lazyregexp.New(`^` + ownName + `_[a-z2-7]{10}$`)

// nameLocal chooses the name of a project's own server: a random one, which no other file can
// have, or its present name, if that matches no approval that a client has for another server.
func (f *installFlags) nameLocal(target *install.Target, s *install.Server, dir string) error {
	if f.name != "" && s.Approved {
		return &policy.FieldError{Field: "--name", Value: f.name, Reason: "clients approve by the name of a server, so an approved one has a name that nobody can know", Hint: "leave --name out, or the approval, with --ask"}
	}
	s.Name = cmp.Or(f.name, ownName+"_"+strings.ToLower(rand.Text()[:10]))
	before, err := f.before(target, *s, dir)
	if err != nil {
		return err
	}
	for _, old := range before {
		same := !s.Approved && old.Command == s.Command && slices.Equal(old.Args, s.Args)
		switch {
		case f.name == "" && (same || s.Approved && madeUp().MatchString(old.Name)):
			s.Name = old.Name
			return nil
		case f.name == old.Name:
			return nil
		}
	}
	if madeUp().MatchString(f.name) {
		return &policy.FieldError{Field: "--name", Value: f.name, Reason: "names of this form are made up: one that somebody knows could be approved later", Hint: "choose another, or leave it out"}
	}
	return nil
}

// unapproved returns why models must ask before they use the tools. It is empty if they
// need not: with no network, and nothing writable but a workspace that is not a home.
func (f *installFlags) unapproved(target *install.Target, dir string) string {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	approval, wrong := target.Approval(ownName)
	inside := strings.Contains(f.command, "/")
	switch {
	case hostpath.Unasked(dir) != "":
		return "the workspace " + hostpath.Unasked(dir)
	case err == nil && info.Mode().IsRegular():
		return "this is a linked worktree, and commands could also change the repository that it belongs to, its objects and branches"
	case reaches(target.Path, dir) || wrong != nil || approval != nil && reaches(approval.Path, dir):
		return "commands could change the client's own configuration, which is in the workspace"
	case inside && reaches(f.command, dir):
		return "commands could replace the program that --command names in the workspace"
	case f.command != "" && !inside && inPath(f.command, dir) == "":
		return "--command " + f.command + " is not in PATH, or PATH leads into the workspace first, where commands could make it"
	case f.spec != "":
		return "a spec may give more than the workspace"
	case f.profile != "" && f.profile != op.ProfileWorkspace.String():
		return "that is for the profile workspace alone"
	}
	for _, word := range f.sandbox.Words {
		name, _, _ := strings.Cut(word, "=")
		if word != noNetwork && !slices.Contains(harmless, name) {
			return "with " + name + " models may do more than work in the workspace"
		}
	}
	return ""
}

// harmless are the flags with which there is still no network, nothing more that can
// be written, and walls as strong.
var harmless = []string{
	"--ro", "--env", "--env-pass", "--workspace-mode", "--hostname", "--redact", "--timeout", "--max-output", "--cpu-time", "--file-size",
	"--open-files", "--processes", "--tmp", "--memory", "--memory-high", "--swap", "--cpus", "--disk",
}

// reaches reports whether a path lies in a directory, or leads through it, or whether
// that cannot be known.
func reaches(path, dir string) bool {
	way, err := hostpath.Follow(filepath.Clean(path))
	if err != nil {
		return true
	}
	at := []string{filepath.Clean(path), way.Path}
	for _, link := range way.Links {
		at = append(at, link.Path)
	}
	return slices.ContainsFunc(at, func(at string) bool { _, in := hostpath.Within(at, dir); return in })
}

// inPath returns where PATH has a program. It is empty if PATH has none, and if commands
// that can write dir could put one before it.
func inPath(name, dir string) string {
	for _, at := range filepath.SplitList(os.Getenv("PATH")) {
		at = filepath.Join(at, name)
		if reaches(at, dir) {
			return ""
		}
		if found, err := exec.LookPath(at); err == nil {
			return found
		}
	}
	return ""
}
