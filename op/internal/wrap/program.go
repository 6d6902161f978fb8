package wrap

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// program is where an agent's program is inside, and what must be shown for that.
type program struct {
	path  string
	shown string // a directory or a file of the host's, read-only at the same path; "" if nothing is missing
}

// systemDirs are the host's directories of programs that every sandbox shows.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/opt", "/nix/store"}

// findProgram finds the program of an agent that is called name, and judges it: commands of a
// sandbox, or another user, must not have been able to write it. plan and spec are those of the
// sandbox without it.
func findProgram(env *op.Env, name string, plan *confine.Plan, spec policy.Spec) (program, error) {
	found, err := lookUp(env, name)
	if err != nil {
		return program{}, err
	}
	under := func(at string, dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return hostpath.Under(at, dir) })
	}
	if under(found, systemDirs) && under(hostpath.Real(found), systemDirs) { // as for any command
		return program{path: found}, nil
	}
	refuse := func(at string, err error) (program, error) {
		return program{}, &paddock.Error{Message: "cannot wrap " + name + ": " + at + ": " + hostpath.Reason(err),
			Hint: "install it where no sandbox could write, or name another program by its path", Code: wire.CodeNotExecutable}
	}
	way, err := hostpath.LocateOwn(env.StateDir(), found)
	if err != nil {
		return refuse(found, err)
	}
	visible := slices.Clone(systemDirs)
	for _, t := range plan.Holds.Toolchains {
		visible = append(visible, t.Dirs...)
	}
	if under(way.Path, visible) {
		if under(found, visible) { // a program may go by the name under which it is called
			return program{path: found}, nil
		}
		return program{path: way.Path}, nil
	}
	for _, m := range spec.Mounts {
		if rel, ok := hostpath.Within(way.Path, m.Source); ok && m.Mode == "ro" {
			return program{path: path.Join(m.Target, rel)}, nil
		}
	}
	shown := way.Path
	if i := strings.Index(shown+"/", "/node_modules/"); i >= 0 { // a package of npm's, with those that it needs
		shown = shown[:i+len("/node_modules")]
	}
	req := backend.Request{Spec: spec, StateDir: env.StateDir()}
	judge := hostpath.ToolDir
	if shown == way.Path {
		judge = hostpath.ToolFile
	}
	if _, err := judge(req, "/", shown); err != nil {
		return refuse(shown, err)
	}
	if err := hostpath.Program("wrap", env.StateDir(), name, way.Path, nil); err != nil {
		return program{}, err
	}
	return program{path: way.Path, shown: shown}, nil
}

// lookUp finds a program by its path, or in the caller's PATH.
func lookUp(env *op.Env, name string) (string, error) {
	why := "no program of this name is in PATH"
	if strings.Contains(name, "/") {
		at, err := hostpath.Abs(name)
		if err == nil {
			err = executable(at)
		}
		if err == nil {
			return at, nil
		}
		why = hostpath.Reason(err)
	} else {
		search, _ := env.Lookup("PATH")
		for _, dir := range filepath.SplitList(search) {
			if at := path.Join(dir, name); path.IsAbs(dir) && executable(at) == nil {
				return at, nil
			}
		}
	}
	return "", &paddock.Error{Message: "cannot wrap " + name + ": it is not installed: " + why, Hint: "install it, or name it by its path", Code: wire.CodeNotFound}
}

// executable returns why a path is not a program.
func executable(at string) error {
	info, err := os.Stat(at)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = errors.New("it is not an executable file")
	}
	return err
}
