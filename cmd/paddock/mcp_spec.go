//go:build mcp

package main

import (
	"os"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// operatorSpec is the sandbox that models are given: the spec's words, over the
// workspace. Errors tell of flags.
func (f *mcpFlags) operatorSpec(named bool) (policy.Spec, error) {
	var spec policy.Spec
	if f.spec != "" {
		text, err := readOwn(f.spec)
		if err != nil {
			return spec, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: hostpath.Reason(err), Hint: hostpath.Hint(err)}
		}
		if spec, err = specfile.Decode(f.spec, text); err != nil {
			return spec, err
		}
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
			return "", &policy.FieldError{Field: "--workspace", Reason: "there is no current directory: " + err.Error(), Hint: "name a directory: paddock mcp --workspace DIR"}
		}
		if what := hostpath.Unasked(dir); what != "" {
			return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: "the current directory is or holds " + what + ": models should not change that unasked",
				Hint: "name a directory: paddock mcp --workspace DIR"}
		}
	}
	if dir == "" {
		return "", &policy.FieldError{Field: "--workspace", Reason: "it is empty", Hint: "name a directory, or leave it out for the current one"}
	}
	abs, err := hostpath.Abs(dir)
	if err != nil {
		return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: err.Error()}
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: "it is no directory", Hint: "make it first"}
	}
	return abs, nil
}
