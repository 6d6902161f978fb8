//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// installFlags are the flags of install and uninstall.
type installFlags struct {
	client, scope, name, workspace, profile, spec, command string
	print, force, ask, exclusive                           bool
	takesBack                                              bool       // uninstall: the workspace need not exist any more
	sandbox                                                *cli.Input // flags for the server
}

// installCommand returns the command that sets up a client of the server.
func installCommand() *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use:   "install --client NAME",
		Short: "Set up a client: write the configuration that starts the server",
		Long: `Add "paddock mcp" to a client's configuration, or print what to add. The rest of the
file stays as it is, including comments. A server that is there already is not written
again, and another one of its name is only replaced with --force. In a project's file
one that has more than this command and its arguments is another one. If a file cannot
be edited safely, what to add is printed.

  claude-code  your ~/.claude.json, for this project alone, and approved; with
               --scope project .mcp.json here, for a team
  codex        your ~/.codex/config.toml ($CODEX_HOME), for this project alone, and
               approved; with --scope user for all; with --scope project
               .codex/config.toml here, which codex reads in projects it trusts
  cursor       .cursor/mcp.json here; with --scope user ~/.cursor/mcp.json
  gemini       your ~/.gemini/settings.json, for this project alone, and approved; with
               --scope user for all; with --scope project .gemini/settings.json here
  vscode       .vscode/mcp.json here; with --scope user the command is printed
  any other    --print prints what most of them read

Approved means that the model uses the tools without asking, which clients need that
run without a person. Only the default profile is approved, without a network,
without a spec, and with nothing writable but the workspace. Clients approve a server
by its name, so an approved one gets a random name, which no project's file can give
to another program. --ask leaves the approval out; "paddock mcp uninstall" takes
everything back.

Flags of "paddock run" that describe a sandbox are handed on to the server.

The client's own tools for commands and edits stay, and work outside of the sandbox.
--exclusive turns them off in this project (claude-code, codex and gemini), if the
client is started in its directory, and prints what holds in one below.`,
		Example: `  paddock mcp install --client claude-code
  paddock mcp install --client codex --workspace ~/src/app --exclusive
  paddock mcp install --client vscode --profile full
  paddock mcp install --print`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			if f.print {
				return f.install(nil)
			}
			return withInstallRecord(f.install)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.common(cmd)
	flags.BoolVar(&f.ask, "ask", false, "leave the approval out: the client asks before the model uses a tool")
	flags.BoolVar(&f.exclusive, "exclusive", false, "turn the client's own tools for commands and edits off, in this project")
	flags.BoolVar(&f.print, "print", false, "print what would be there, and write nothing")
	flags.StringVar(&f.profile, "profile", "", "which tools: run, workspace or full, as `NAME` (default: workspace)")
	flags.StringVar(&f.spec, "spec", "", "the `FILE` with the spec of the sandbox")
	f.sandbox = sandboxFlags(cmd)
	flags.StringVar(&f.command, "command", "", "the `PROGRAM` to start (default: this one)")
	flags.BoolVar(&f.force, "force", false, "replace another server of the same name")
	return cmd
}

// common adds the flags that select a client and a server.
func (f *installFlags) common(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.client, "client", "", "the client: claude-code, codex, cursor, gemini or vscode, as `NAME`")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`DIR` that models may change (default: where the client is started; for this project alone: the current directory)")
	flags.StringVar(&f.scope, "scope", "", "local (yours, this project alone), project or user, as `SCOPE` (default: local where the client has it, else project)")
	flags.StringVar(&f.name, "name", "", "what the client calls the server, `NAME` (default: paddock, or a name made up)")
}

// ownName is the name of paddock, and how the names of servers begin.
const ownName = "paddock"

// install sets the client up, or prints how. It records the files in which it turns the
// client's own tools off.
func (f *installFlags) install(record installRecord) error {
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
			if !s.undo {
				fmt.Fprintln(os.Stderr, "paddock: note: this belongs into "+s.Path)
				fmt.Print(s.Text)
			}
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

// settle makes an empty directory for the client's settings if the tools are approved, since
// otherwise commands could make one without being noticed. Then it clears the record of files
// that commands have made: a user who installs has looked at them.
func (f *installFlags) settle(target *install.Target, server install.Server, dir string) error {
	if server.Approved {
		switch err := os.Mkdir(filepath.Join(dir, target.Settings), 0o755); {
		case err == nil:
			fmt.Printf("made %s, empty: in a sandbox it is read-only, so that commands cannot make one\n", target.Settings)
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("cannot make what keeps commands out of %s: %w", target.Settings, err)
		}
	}
	h, err := openHold(dir)
	if err != nil {
		return err
	}
	seen, err := h.clear()
	if len(seen) > 0 {
		fmt.Printf("kept %s, which commands have made: clients obey it\n", text.Escape(op.Planted{Paths: seen}.Names()))
	}
	return err
}

// target returns the file of the scope, and the project that it belongs to.
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
		dir, err = hostpath.Abs(cmp.Or(f.workspace, ".")) // unchecked, since no sandbox gets it
	} else {
		if dir = f.workspace; dir == "" {
			dir, err = currentDir()
		}
		if err == nil {
			dir, err = existingDir("--workspace", dir)
		}
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

// tell prints what models may do now, and the next steps for the user.
func (f *installFlags) tell(target *install.Target, server install.Server, dir string) {
	switch {
	case f.print:
		return
	case server.Approved:
		fmt.Printf(`approved: only in %s, models may do this without asking you, in a sandbox without network:
  run any command; create, change and DELETE any file of this directory
  create files that programs on the host run or obey, if they do not exist yet, such as %s, which clients obey, without asking, when they start
Existing files of that kind (%s, .git/hooks, .vscode and the like) are protected. If commands create a file that clients obey, no tool works here until you have looked at it.
--ask leaves the approval out; this takes it back: %s
`, dir, f.newFiles(), target.Settings, f.takenBackBy(dir))
	case target.Scope == install.Local && f.ask:
		fmt.Println("not approved: the client asks before a tool is used, and refuses if nobody can be asked")
	case target.Scope == install.Local:
		fmt.Println("not approved: " + f.unapproved(target, dir) + "; the client asks before a tool is used, and refuses if nobody can be asked")
	}
	for _, arg := range server.Args {
		if path, shown := strings.CutPrefix(arg, "--ro="); shown && server.Approved {
			fmt.Println("note: models may also read this unasked, and what they read goes to their provider: --ro " + path)
		}
	}
	how, off := target.Own, false
	if own := target.Exclusive(); own != nil {
		how = "--exclusive, or by hand " + how
		off, _ = own.There() // a file that cannot be read turns nothing off
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

// takenBackBy returns the command that undoes the installation for a directory.
func (f *installFlags) takenBackBy(dir string) string {
	words := []string{"paddock", "mcp", "uninstall", "--client", f.client}
	if f.workspace != "" {
		words = append(words, "--workspace", dir)
	}
	return install.Words(words)
}

// newFiles lists examples of files that commands can make and clients obey, this client's
// first.
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

// uninstallCommand returns the command that takes back what install has written.
func uninstallCommand() *cobra.Command {
	f := &installFlags{takesBack: true}
	cmd := &cobra.Command{
		Use:   "uninstall --client NAME",
		Short: "Take back what install has written",
		Long: `Take the server out of a client's configuration, its approval, and what --exclusive
has written: yours for this project, and the project's. What --scope user wrote
serves other projects too, and is taken back with --scope user. A restriction that
install has not written, or has no record of, stays and is printed.`,
		Example: `  paddock mcp uninstall --client claude-code
  paddock mcp uninstall --client codex --scope user`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			return withInstallRecord(f.uninstall)
		},
	}
	cmd.Flags().SortFlags = false
	f.common(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "take it out, too, where the server of this name is another program's")
	return cmd
}

// uninstall takes back what install wrote. What could be the user's own it takes out only
// if the record says that install has written it.
func (f *installFlags) uninstall(record installRecord) error {
	scopes := []install.Scope{install.Local, install.Project}
	if f.scope != "" {
		scopes = []install.Scope{install.Scope(f.scope)}
	}
	if _, err := install.Find(f.client, "", "/"); err != nil {
		return err
	}
	follow, err := follower()
	if err != nil {
		return err
	}
	found, looked, left := false, []string{}, []*install.Change(nil)
	for _, scope := range scopes {
		if f.scope == "" && !install.Has(f.client, scope) {
			continue
		}
		target, dir, err := f.target(scope)
		if err != nil {
			return err
		}
		if target.Path == "" {
			return &paddock.Error{Message: "cannot take the server out of " + f.client + ": it keeps its user's servers itself", Hint: "remove it there"}
		}
		changes, err := f.undone(target, dir, follow)
		if err != nil {
			return err
		}
		for _, c := range changes {
			c.Follow = follow
			if c.Unmarked && !record[c.Path] {
				if there, err := c.There(); err == nil && there {
					left = append(left, c)
				}
				continue
			}
			removed, err := step{c, true}.do()
			if err != nil {
				return err
			}
			delete(record, c.Path)
			looked, found = append(looked, c.Path), found || removed
		}
		if looked = append(looked, target.Path); target.Scope == install.Local && target.Settings != "" {
			_ = os.Remove(filepath.Join(dir, target.Settings)) // unless it is not empty
		}
	}
	if !found {
		slices.Sort(looked)
		fmt.Println("nothing of paddock's is in " + strings.Join(slices.Compact(looked), ", "))
	}
	for _, c := range left {
		fmt.Printf("left in %s what turns the client's own tools off, as nothing says that install wrote it; to turn them on again, remove by hand:\n%s", c.Path, c.Text)
	}
	return nil
}

// undone returns the edits to take back in a file, its approval first.
func (f *installFlags) undone(target *install.Target, dir string, follow func(string) (string, error)) ([]*install.Change, error) {
	servers, err := target.Servers(follow)
	if err != nil {
		return nil, err
	}
	var changes []*install.Change
	for _, s := range servers {
		name := s.Name
		other := len(s.Args) == 0 || s.Args[0] != "mcp" || !slices.Contains([]string{ownName, ownName + "-server"}, filepath.Base(s.Command))
		switch {
		case target.Scope == install.Local && (!isFor(s.Server, dir) || f.name != "" && f.name != name):
			continue
		case target.Scope != install.Local && name != cmp.Or(f.name, ownName):
			continue
		case other && !f.force:
			return nil, &paddock.Error{Message: "cannot take the server " + name + " out of " + target.Path + ": it starts another program", Hint: "take it out with --force, or name another with --name"}
		}
		approval, err := s.Target.Approval(name)
		if err != nil {
			return nil, err
		}
		if approval != nil {
			changes = append(changes, approval)
		}
		changes = append(changes, s.Target.Server(s.Server, false))
	}
	// With --workspace this target is the one whose project is meant.
	if own := target.Exclusive(); own != nil && (target.Scope == install.Local || f.scope == string(install.Project)) {
		changes = append(changes, own)
	}
	return changes, nil
}

// isFor reports whether a server is a project's alone.
func isFor(s install.Server, dir string) bool {
	return len(s.Args) >= 3 && s.Args[0] == "mcp" && s.Args[1] == "--project" && s.Args[2] == dir
}
