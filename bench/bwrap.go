//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/confine"
)

// bubblewrap renders a plan as arguments of bwrap: the same namespaces, binds,
// links, files and file systems. It has no word for an id-mapped workspace,
// for a second pid namespace, for a clean keyring, for a bound on the inodes
// of a tmpfs, and it neither looks at the finished walls from outside nor
// proves the end of what it started. What it could do and is spared, in its
// favour: --disable-userns and --seccomp.
func bubblewrap(name string, plan *confine.Plan, b *bench) isolator {
	if why := notInstalled("bwrap"); why != "" {
		return isolator{name: name, absent: why}
	}
	args, files, err := bwrapArgs(plan, b.dir)
	if err != nil {
		return isolator{name: name, absent: err.Error()}
	}
	return isolator{name: name, maker: func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, "bwrap", slices.Concat(args, []string{"--"}, argv)...)
		cmd.Env = environ(plan)
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		}
		return cmd, nil
	}}
}

// bwrapArgs gives bwrap's arguments, and the files that it reads from
// descriptors 3 and up.
func bwrapArgs(plan *confine.Plan, dir string) (args, files []string, err error) {
	args = []string{"--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--chdir", plan.Workspace, "--dev", "/dev"}
	for _, s := range plan.Setup {
		mode := fmt.Sprintf("%04o", s.Mode)
		switch {
		case s.Do == confine.OpTmpfs && s.Target != "/":
			args = append(args, "--perms", mode, "--size", strconv.FormatInt(s.Size, 10), "--tmpfs", s.Target)
		case s.Target == "/" && s.Do != confine.OpReadOnly, strings.HasPrefix(s.Target, "/dev/"):
			// bwrap makes a root and a /dev of its own.
		case s.Do == confine.OpBind && slices.Contains(s.Flags, confine.FlagReadOnly):
			args = append(args, "--ro-bind", s.Source, s.Target)
		case s.Do == confine.OpBind:
			args = append(args, "--bind", s.Source, s.Target)
		case s.Do == confine.OpSymlink:
			args = append(args, "--symlink", s.Source, s.Target)
		case s.Do == confine.OpMkdir:
			args = append(args, "--perms", mode, "--dir", s.Target)
		case s.Do == confine.OpProc:
			args = append(args, "--proc", s.Target)
		case s.Do == confine.OpReadOnly:
			args = append(args, "--remount-ro", s.Target)
		case s.Do == confine.OpHostname:
			args = append(args, "--hostname", s.Source)
		case s.Do == confine.OpFile:
			path := filepath.Join(dir, "bwrap-"+filepath.Base(s.Target))
			if err := os.WriteFile(path, s.Data, 0o644); err != nil {
				return nil, nil, err
			}
			args = append(args, "--perms", mode, "--file", strconv.Itoa(3+len(files)), s.Target)
			files = append(files, path)
		}
	}
	return args, files, nil
}

// environ is the plan's environment as programs get it.
func environ(plan *confine.Plan) []string {
	env := []string{}
	for name, value := range plan.Env {
		env = append(env, name+"="+value)
	}
	return env
}
