package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/server/install"
)

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
			_ = os.Remove(filepath.Join(dir, target.Settings)) // it stays where it is not empty
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
