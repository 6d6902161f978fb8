package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// ownName is how the name of a server begins.
const ownName = "paddock"

// install sets the client up, or prints how.
func (f *installFlags) install() error {
	if f.print {
		return f.setUp(nil)
	}
	return alone(f.setUp)
}

// setUp is install, which adds to a record where the client's own tools are turned off.
func (f *installFlags) setUp(record restricted) error {
	target, dir, err := f.target(install.Scope(f.scope))
	if err != nil {
		return err
	}
	server, err := f.server(target, dir)
	if err != nil {
		return err
	}
	if err := server.Check(); err != nil {
		return err
	}
	if target.Path == "" {
		if target.Command == nil {
			fmt.Print(target.Server(server, f.force).Text)
			fmt.Fprintf(os.Stderr, "paddock: note: the command alone: %s\n", install.Words(append([]string{server.Command}, server.Args...)))
			return nil
		}
		fmt.Fprintln(os.Stderr, "paddock: note: "+f.client+" keeps its user's servers itself; run this:")
		fmt.Println(install.Words(target.Command(server)))
		return nil
	}
	steps, err := f.steps(target, server, dir)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if f.print {
			s.print()
			continue
		}
		changed, err := s.do()
		switch {
		case err != nil && s.undo:
			return err
		case err != nil:
			return f.notWritten(s.Change, server, err)
		case changed && s.Unmarked:
			record[s.Path] = true
		}
	}
	if target.Scope == install.Local && !f.print {
		if err := f.settle(target, server, dir); err != nil {
			return err
		}
	}
	f.tell(target, server, dir)
	return nil
}

// settle makes the directory that the client obeys, empty, where nobody sees commands
// make it; and takes it that the user has looked at what they have made.
func (f *installFlags) settle(target *install.Target, server install.Server, dir string) error {
	if server.Approved {
		switch err := os.Mkdir(filepath.Join(dir, target.Settings), 0o755); {
		case err == nil:
			fmt.Printf("made %s, empty: in a sandbox it is read-only, so that commands cannot make one\n", target.Settings)
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("cannot make what keeps commands out of %s: %w", target.Settings, err)
		}
	}
	h, err := newHeld(dir)
	if err != nil {
		return err
	}
	seen, err := h.seen()
	if len(seen) > 0 {
		fmt.Printf("kept %s, which commands have made: clients obey it\n", hostpath.Printable(op.Planted{Paths: seen}.Names()))
	}
	return err
}

// target is the file of the scope, and the project whose it is.
func (f *installFlags) target(scope install.Scope) (*install.Target, string, error) {
	dir, err := hostpath.Getwd()
	if err != nil {
		return nil, "", fmt.Errorf("cannot find the project: %w", err)
	}
	if f.print && !slices.Contains(install.Clients(), f.client) {
		return install.Any(), dir, nil
	}
	target, err := install.Find(f.client, scope, dir)
	if err != nil || target.Scope != install.Local {
		return target, dir, err
	}
	// The project is the workspace, under its real name, which is what clients see.
	if f.takesBack {
		dir, err = hostpath.Abs(cmp.Or(f.workspace, ".")) // whatever it is, or was: nothing is let in
	} else {
		dir, err = (&mcpFlags{workspace: f.workspace}).workspaceDir(f.workspace != "")
	}
	if err != nil {
		return nil, "", err
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, "", err
	}
	way, err := hostpath.Locate(state, dir)
	if err != nil {
		return nil, "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: hostpath.Reason(err), Hint: hostpath.Hint(err)}
	}
	dir = way.Path
	target, err = install.Find(f.client, scope, dir)
	return target, dir, err
}

// tell says what holds now: what models may do, and what is to be done.
func (f *installFlags) tell(target *install.Target, server install.Server, dir string) {
	switch {
	case f.print:
		return
	case server.Approved:
		fmt.Printf(`approved: in %s alone, models may do this without being asked about, in a sandbox without network:
  run any command; create, change and DELETE any file of this directory
  make what programs on the host run or obey where there is none yet, such as %s, which clients obey, unasked, when they start
What is there of that kind (%s, .git/hooks, .vscode and the like) stays as it is. Once commands have made what clients obey, no tool works here until you have looked at it.
--ask leaves the approval out; this takes it back: %s
`, dir, f.newFiles(), target.Settings, f.takenBackBy(dir))
	case target.Scope == install.Local && f.ask:
		fmt.Println("not approved: the client asks before a tool is used, and refuses where nobody can be asked")
	case target.Scope == install.Local:
		fmt.Println("not approved: " + f.unapproved(target, dir) + "; the client asks before a tool is used, and refuses where nobody can be asked")
	}
	for _, arg := range server.Args {
		if path, shown := strings.CutPrefix(arg, "--ro="); shown && server.Approved {
			fmt.Println("note: models may also read this unasked, and what they read goes to their provider: --ro " + path)
		}
	}
	how, off := target.Own, false
	if own := target.Exclusive(); own != nil {
		how = "--exclusive, or by hand " + how
		off, _ = own.There() // what cannot be read turns nothing off
	}
	switch {
	case f.exclusive:
		fmt.Println("note: " + target.Below(dir))
	case off:
		fmt.Printf("note: %s's own tools for commands and files are still turned off here. To turn them on again: %s\n", f.client, f.takenBackBy(dir))
	default:
		fmt.Printf("note: %s's own tools for commands and files stay, and work outside of the sandbox. To turn them off:\n  %s\n", f.client, how)
	}
	fmt.Println("next: " + target.Next)
}

// takenBackBy is the command that takes back what was written for a directory.
func (f *installFlags) takenBackBy(dir string) string {
	words := []string{"paddock", "mcp", "uninstall", "--client", f.client}
	if f.workspace != "" {
		words = append(words, "--workspace", dir)
	}
	return install.Words(words)
}

// newFiles are examples of what commands can make and clients obey: first what this
// client does.
func (f *installFlags) newFiles() string {
	all := map[string]string{"claude-code": ".mcp.json", "codex": ".codex/config.toml in a directory below", "gemini": ".gemini/settings.json in a directory below"}
	list := []string{all[f.client]}
	for _, other := range []string{".mcp.json", ".cursor/mcp.json"} {
		if !slices.Contains(list, other) {
			list = append(list, other)
		}
	}
	return strings.Join(list, ", ")
}

// unapproved says why models are not let use the tools unasked; empty where they
// are: with no network, and no place to write but a workspace that is no home.
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
		if word != "--network=none" && !slices.Contains(harmless, name) {
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

func (f *installFlags) nameOr(usual string) string {
	if f.name != "" {
		return f.name
	}
	return usual
}

// follower resolves the links of a configuration, and refuses those that commands
// of a sandbox could have made.
func follower() (func(string) (string, error), error) {
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return func(path string) (string, error) {
		way, err := hostpath.LocateOwn(state, path)
		if err != nil {
			return "", err
		}
		return way.Path, nil
	}, nil
}

// notWritten says what to do by hand.
func (f *installFlags) notWritten(c *install.Change, server install.Server, err error) error {
	unsafe, link := (*install.UnsafeError)(nil), (*hostpath.LinkError)(nil)
	switch {
	case errors.As(err, &link):
		fmt.Print(c.Text)
		return &paddock.Error{
			Message: hostpath.Printable("cannot edit " + c.Path + ": " + err.Error()),
			Hint:    hostpath.Printable("remove the link, if you did not make it, or add by hand what was printed, to " + link.Leads),
		}
	case errors.Is(err, install.ErrOther):
		return &paddock.Error{
			Message: "cannot add the server " + server.Name + " to " + c.Path + ": another one has this name",
			Hint:    "replace it with --force, or choose another name with --name",
		}
	case errors.Is(err, install.ErrChanged):
		return &paddock.Error{Message: err.Error(), Hint: "run this again"}
	case errors.As(err, &unsafe):
		fmt.Print(c.Text)
		return &paddock.Error{Message: err.Error(), Hint: "add by hand what was printed"}
	}
	return err
}

// server is what the client is to start.
func (f *installFlags) server(target *install.Target, dir string) (install.Server, error) {
	s := install.Server{Name: f.nameOr(ownName), Command: f.command, Args: []string{"mcp"}}
	shared := target.Scope == install.Project
	if s.Command == "" {
		self, err := os.Executable()
		if err != nil {
			return s, fmt.Errorf("cannot find this program: %w", err)
		}
		// This is paddock-server, which paddock becomes.
		s.Command = filepath.Join(filepath.Dir(self), ownName)
		if found := inPath(ownName, dir); shared && found != "" && sameFile(found, s.Command) {
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
		workspace = abs
		if inside, err := filepath.Rel(dir, abs); shared && err == nil && filepath.IsLocal(inside) {
			workspace = filepath.Join(target.Folder, inside)
		}
	case shared:
		workspace = target.Folder // it starts servers in the user's home
	}
	if workspace != "" && workspace != "." {
		s.Args = append(s.Args, "--workspace", workspace)
	}
	if f.spec != "" {
		file, err := filepath.Abs(f.spec)
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.IsDir() {
			return s, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: "it is no file", Hint: "write it first; the server does not start without it"}
		}
		if inside, err := filepath.Rel(dir, file); shared && err == nil && filepath.IsLocal(inside) {
			file = filepath.Join(target.Folder, inside)
		}
		s.Args = append(s.Args, "--spec", file)
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
	err := f.nameLocal(target, &s, dir)
	return s, err
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, wrong := os.Stat(b)
	return err == nil && wrong == nil && os.SameFile(one, other)
}

// reaches reports whether a path lies in a directory, or leads through it. It is true
// where that is not known.
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

// inPath is where PATH has a program; "" where it has none, and where commands that can
// write a directory could put one before it.
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
