//go:build mcp

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/server/install"
)

// install sets the client up, or prints how.
func (f *installFlags) install() error {
	dir, err := hostpath.Getwd()
	if err != nil {
		return fmt.Errorf("cannot find the project: %w", err)
	}
	target, err := install.Find(f.client, install.Scope(f.scope), dir)
	if err != nil {
		return err
	}
	server, err := f.server(target)
	if err != nil {
		return err
	}
	if err := server.Check(); err != nil {
		return err
	}
	switch {
	case target.Path == "":
		fmt.Fprintln(os.Stderr, "paddock: note: "+f.client+" keeps its user's servers itself; run this:")
		fmt.Println(target.Command(server))
		return nil
	case f.print:
		fmt.Fprintln(os.Stderr, "paddock: note: this belongs into "+target.Path)
		fmt.Print(target.Snippet(server))
		return nil
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return err
	}
	target.Follow = func(path string) (string, error) {
		way, err := hostpath.LocateOwn(state, path)
		if err != nil {
			return "", err
		}
		return way.Path, nil
	}
	changed, err := target.Add(server, f.force)
	if err != nil {
		return f.notWritten(target, server, err)
	}
	if !changed {
		fmt.Printf("%s has the server %s already\n", target.Path, server.Name)
		return nil
	}
	fmt.Printf("wrote the server %s into %s\nnext: %s\n", server.Name, target.Path, target.Next)
	return nil
}

// notWritten says what to do by hand.
func (f *installFlags) notWritten(target *install.Target, server install.Server, err error) error {
	unsafe, link := (*install.UnsafeError)(nil), (*hostpath.LinkError)(nil)
	switch {
	case errors.As(err, &link):
		fmt.Print(target.Snippet(server))
		return &paddock.Error{
			Message: hostpath.Printable("cannot edit " + target.Path + ": " + err.Error()),
			Hint:    hostpath.Printable("remove the link, if you did not make it, or add by hand what was printed, to " + link.Leads),
		}
	case errors.Is(err, install.ErrOther):
		return &paddock.Error{
			Message: "cannot add the server " + server.Name + " to " + target.Path + ": another one has this name",
			Hint:    "replace it with --force, or choose another name with --name",
		}
	case errors.As(err, &unsafe):
		fmt.Print(target.Snippet(server))
		return &paddock.Error{Message: err.Error(), Hint: "add by hand what was printed"}
	}
	return err
}

// server is what the client is to start.
func (f *installFlags) server(target *install.Target) (install.Server, error) {
	s := install.Server{Name: f.name, Command: f.command, Args: []string{"mcp"}}
	if s.Command == "" {
		self, err := os.Executable()
		if err != nil {
			return s, fmt.Errorf("cannot find this program: %w", err)
		}
		// This is paddock-mcp, which paddock becomes.
		s.Command = filepath.Join(filepath.Dir(self), "paddock")
	}
	switch {
	case f.workspace != "":
		dir, err := filepath.Abs(f.workspace)
		if info, statErr := os.Stat(dir); err != nil || statErr != nil || !info.IsDir() {
			return s, &policy.FieldError{Field: "--workspace", Value: f.workspace, Reason: "it is no directory", Hint: "make it first"}
		}
		s.Args = append(s.Args, "--workspace", dir)
	case f.client == "vscode" && target.Scope == install.Project:
		s.Args = append(s.Args, "--workspace", "${workspaceFolder}") // it starts servers in the user's home
	}
	if f.spec != "" {
		file, err := filepath.Abs(f.spec)
		if info, statErr := os.Stat(file); err != nil || statErr != nil || info.IsDir() {
			return s, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: "it is no file", Hint: "write it first; the server does not start without it"}
		}
		s.Args = append(s.Args, "--spec", file)
	}
	if f.profile != "" {
		m := mcpFlags{profile: f.profile}
		if _, err := m.profileOf(); err != nil {
			return s, err
		}
		s.Args = append(s.Args, "--profile", f.profile)
	}
	return s, nil
}
