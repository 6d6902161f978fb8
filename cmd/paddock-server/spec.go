package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/server/mcp"
)

// operatorSpec is the sandbox that models are given: the spec's words, and the
// flags', over the workspace. Errors tell of flags, and of keys of the spec's file.
func (f *mcpFlags) operatorSpec(env *op.Env, named bool) (spec policy.Spec, err error) {
	var file *specfile.File
	if f.spec != "" {
		text, err := readOwn(f.spec)
		if err != nil {
			return spec, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: hostpath.Reason(err), Hint: hostpath.Hint(err)}
		}
		if file, err = specfile.Parse(f.spec, text); err != nil {
			return spec, err
		}
		spec = file.Spec
	}
	input, err := f.sandbox.Encode(nil)
	if err != nil {
		return spec, err
	}
	defer func() {
		op.LocateFields(err, input, file)
		op.NameFields(op.SpecFields(), err, input, cli.FlagName)
	}()
	if spec, err = op.SpecOver(context.Background(), env, spec, input); err != nil {
		return spec, err
	}
	if named || spec.Workspace.Source == "" && spec.Backend != policy.BackendWrapper {
		dir, err := f.workspaceDir(named)
		if err != nil {
			return spec, err
		}
		spec.Workspace.Source = dir
	}
	return op.OperatorSpec(spec)
}

// workspaceDir is the directory that is meant. Clients start servers in odd
// places: a home, or all of the system, is a workspace only for who says so.
func (f *mcpFlags) workspaceDir(named bool) (string, error) {
	dir := f.workspace
	if !named {
		var err error
		if dir, err = hostpath.Getwd(); err != nil {
			return "", &policy.FieldError{Field: "--workspace", Reason: "there is no current directory: " + err.Error(), Hint: "name a directory: --workspace DIR"}
		}
		if why := hostpath.Unasked(dir); why != "" {
			return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: "the current directory " + why + ": models should not change that unasked",
				Hint: "name a directory: --workspace DIR"}
		}
	}
	flag := "--workspace"
	if f.project != "" {
		flag = "--project"
	}
	if dir == "" {
		return "", &policy.FieldError{Field: flag, Reason: "it is empty", Hint: "name a directory, or leave it out for the current one"}
	}
	abs, err := hostpath.Abs(dir)
	if err != nil {
		return "", &policy.FieldError{Field: flag, Value: dir, Reason: err.Error()}
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", &policy.FieldError{Field: flag, Value: dir, Reason: "it is not a directory", Hint: "make it first"}
	}
	return abs, nil
}

// stayInProject takes the tools away where the client was started outside of the
// project: a user's configuration that a client obeys everywhere serves this one alone.
// Inside nothing is done where the user has to look at what commands have made.
func (f *mcpFlags) stayInProject(opts *mcp.Options) error {
	dir, err := hostpath.Getwd()
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	project, err := filepath.EvalSymlinks(f.project)
	if err != nil {
		return err
	}
	if _, in := hostpath.Within(dir, project); in {
		h, err := newHeld(project)
		if err != nil {
			return err
		}
		opts.Hold, opts.Planted = h.look, h.planted
		return h.left()
	}
	opts.Ops = []op.Op{}
	opts.Instructions = "This server works in " + project + " alone, and offers no tools here. To have it here: paddock mcp install"
	return nil
}
