package op

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/project"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// projectSpec returns the spec in the project's file of the workspace, if the user trusts it,
// else the given spec. The file is read once, and what was read is what is compared and
// parsed. It is not read under a ceiling, if the input names a spec or rejects the file, for
// backends without walls of ours, and in homes and directories of the system that nobody named.
func (in SpecInput) projectSpec(ctx context.Context, env *Env, spec policy.Spec) (policy.Spec, *specfile.File, error) {
	if env.Project == nil || env.Ceiling != nil || in.SpecFile != "" || in.NoProjectFile || in.otherWalls() {
		return spec, nil, nil
	}
	dir := in.workspaceDir(env)
	if dir == "" {
		return spec, nil, nil
	}
	file, err := trustedProject(env, dir)
	if unused := (*unusedError)(nil); errors.As(err, &unused) {
		env.Project(unused.note(dir))
		return spec, nil, nil
	}
	if err != nil || file == nil {
		return spec, nil, err
	}
	if env.Call != nil {
		env.Call.spec, env.Call.project = file, file.Name()
	}
	return file.Spec, file, ctx.Err()
}

// ProjectFile returns the path of the project's file that this call has read, "" if none is used.
func (e *Env) ProjectFile() string {
	if e.Call == nil {
		return ""
	}
	return e.Call.project
}

// otherWalls reports whether the input chooses a backend that has no walls, or whose walls are a
// command of the caller's: it would not keep what the file says.
func (in SpecInput) otherWalls() bool {
	return in.Wrapper != nil || in.Backend != nil && (*in.Backend == policy.BackendHost || *in.Backend == policy.BackendWrapper)
}

// workspaceDir returns the absolute path of the workspace, "" if it has none or the start
// will refuse it.
func (in SpecInput) workspaceDir(env *Env) string {
	base := policy.Base{Dir: env.Options.Dir}
	base.Home, _ = os.UserHomeDir() // without one, "~" is refused
	if dir, err := hostpath.Abs(base.Dir); err == nil {
		base.Dir = dir
	}
	if in.Workspace == nil {
		if hostpath.Unasked(base.Dir) != "" {
			return ""
		}
		return base.Dir
	}
	resolved, err := policy.Spec{Workspace: policy.Workspace{Source: string(*in.Workspace)}}.Resolve(base)
	if err != nil || *in.Workspace == "" {
		return ""
	}
	return resolved.Workspace.Source
}

// unusedError says why a project's file is not used.
type unusedError struct {
	reason string
	do     string // a command for the directory that helps, and what it is for; "" if none does
}

// What to do about a file that is not used.
const (
	toTrust  = "to look at it and decide: paddock trust"
	toForget = "to end this line: paddock trust --remove"
)

// Error returns the reason.
func (e *unusedError) Error() string { return e.reason }

// note returns the line for people, with the command to type.
func (e *unusedError) note(dir string) string {
	line := text.Escape(specfile.ProjectName + " is not used: " + e.reason)
	if e.do == "" {
		return line + "; --no-project-file starts without this line"
	}
	if here, err := hostpath.Getwd(); err == nil && here == dir {
		return line + "; " + e.do
	}
	return line + "; " + e.do + " " + policy.ShellWord(dir)
}

// trustedProject returns the project's file of a directory, if the user trusts it. It returns
// nil if there is none. The error of a file that is not used is not that of a file that is
// trusted and invalid, which is one or more [*policy.FieldError].
func trustedProject(env *Env, dir string) (*specfile.File, error) {
	if !project.Exists(dir) {
		return nil, goneProject(env, dir)
	}
	file, err := project.Read(env.StateDir(), dir)
	unfit := (*project.UnfitError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, goneProject(env, dir)
	case errors.As(err, &unfit):
		return nil, &unusedError{reason: unfit.Reason}
	case err != nil: // the start reports what is wrong with the directory
		return nil, nil //nolint:nilerr // see above
	}
	store, err := project.Open(env.StateDir())
	if err != nil {
		return nil, &unusedError{reason: err.Error()}
	}
	trusted, err := store.Find(file.Dir)
	switch {
	case err != nil:
		return nil, &unusedError{reason: err.Error()}
	case trusted == nil:
		return nil, &unusedError{reason: "you have not trusted it", do: toTrust}
	case !trusted.Here(file):
		return nil, &unusedError{reason: "you have trusted it in another directory that was here", do: toTrust}
	case !trusted.Same(file):
		return nil, &unusedError{reason: "it has changed since you trusted it", do: toTrust}
	}
	return specfile.ParseProject(file.Path(), file.Text)
}

// goneProject returns an [*unusedError] for a directory without a file where the user trusts one,
// else nil. Without the file, sandboxes may be less strict than the user thinks.
func goneProject(env *Env, dir string) error {
	store, err := project.Open(env.StateDir())
	var all []project.Trusted
	if err == nil {
		all, err = store.List()
	}
	if err == nil && len(all) > 0 {
		at, err := project.PathOf(env.StateDir(), dir) // the start reports what is wrong with the directory
		if err == nil && slices.ContainsFunc(all, func(t project.Trusted) bool { return string(t.Dir) == at }) {
			return &unusedError{reason: "it is gone since you trusted it", do: toForget}
		}
	}
	return nil
}
