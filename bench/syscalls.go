//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
)

// site is a copy of the chores' files, on one side of the wall.
type site struct {
	dir string // on the host
	// run runs a program in a directory below dir and gives what it printed
	// on either stream.
	run func(ctx context.Context, dir string, argv []string) ([]byte, error)
}

// measureSyscalls compares work that makes many system calls in a running
// sandbox with the same work outside, each in its own copy of the files: git
// takes files that it saw from the other side for changed ones.
func measureSyscalls(ctx context.Context, b *bench) (err error) {
	const files = 20_000
	outside := site{dir: filepath.Join(b.dir, "outside")}
	inside := site{dir: filepath.Join(b.dir, "inside")}
	if err := makeChores(ctx, outside.dir, files, filesPerDir); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", outside.dir, inside.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy the files: %w: %s", err, out)
	}
	box, err := b.openSite(ctx, inside.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	inside.run = func(ctx context.Context, dir string, argv []string) ([]byte, error) {
		cmd := box.Command(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	env := choreEnv(outside.dir)
	outside.run = func(ctx context.Context, dir string, argv []string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = filepath.Join(outside.dir, dir), os.Environ()
		for _, name := range slices.Sorted(maps.Keys(env)) {
			cmd.Env = append(cmd.Env, name+"="+env[name])
		}
		return cmd.CombinedOutput()
	}
	return b.compareSites(ctx, chores(files), outside, inside)
}

// openSite opens a sandbox where Go is at its place on the host.
func (b *bench) openSite(ctx context.Context, dir string) (*paddock.Sandbox, error) {
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: dir}, Env: choreEnv("/workspace")}
	if root, err := goRoot(ctx); err == nil {
		if !strings.HasPrefix(root, "/usr/") && !strings.HasPrefix(root, "/opt/") { // those are there already
			spec.Mounts = []paddock.Mount{{Source: root}}
		}
		spec.Env["PATH"] = root + "/bin:/usr/local/bin:/usr/bin:/bin"
	}
	return paddock.Open(ctx, spec, paddock.Options{Agent: b.agent, StateDir: b.state})
}

// compareSites does each chore on both sides in turn. Beside it, a program
// that does nothing shows how much of the difference is the exec itself.
func (b *bench) compareSites(ctx context.Context, all []chore, outside, inside site) error {
	rounds := b.rounds(30, 5)
	t := table{Title: fmt.Sprintf("work with many system calls in a running sandbox, %d rounds", rounds)}
	var promises []promise
	for _, c := range all {
		if why := notInstalled(c.argv[0]); why != "" {
			t.Rows = append(t.Rows, row{Name: c.name, Absent: c.argv[0] + " is not installed"})
			promises = append(promises, atMost(c.name+", to the same outside", 0, 1.05, "×").unless(why))
			continue
		}
		within := &benchCase{name: c.name + ", inside", run: c.at(inside, outside)}
		without := &benchCase{name: "  the same outside", run: c.at(outside, inside)}
		nothing := chore{argv: []string{"/bin/true"}}
		nothingWithin := &benchCase{name: "  /bin/true after it, inside", run: nothing.at(inside, outside)}
		nothingWithout := &benchCase{name: "  /bin/true after it, outside", run: nothing.at(outside, inside)}
		if err := interleave(ctx, warmups, rounds, within, nothingWithin, without, nothingWithout); err != nil {
			return err
		}
		t.Rows = append(t.Rows, times("", time.Millisecond, without, within, without, nothingWithin, nothingWithout).Rows...)
		promises = append(promises, atMost(c.name+", to outside", ratio(within.sample.median(), without.sample.median()), 1.05, "×"))
	}
	b.add(t, promises...)
	return nil
}
