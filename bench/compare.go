//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
)

// measureCompare measures what it costs to protect and compare what programs of the
// host execute or obey before and after a sandbox: over large repositories, one with
// few directories and one with many, beside git status there, and in a small
// directory beside a whole run.
func measureCompare(ctx context.Context, b *bench) error {
	for _, perDir := range []int{filesPerDir, 5} {
		if err := compareOver(ctx, b, perDir); err != nil {
			return err
		}
	}
	run := command("paddock run -- true", b.run, "", "true")
	small := comparing("before and after", b.workspace)
	if err := interleave(ctx, warmups, b.rounds(200, 40), small, run); err != nil {
		return err
	}
	b.add(times("comparison in a small directory", time.Millisecond, run, small, run),
		atMost("comparison in a small directory, to paddock run -- true", ratio(small.sample.median(), run.sample.median()), 0.05, "×"))
	return nil
}

// compareOver measures it over a repository of 50,000 files, so many in a directory.
func compareOver(ctx context.Context, b *bench, perDir int) error {
	files := 50_000
	if b.short {
		files /= 10
	}
	dir := filepath.Join(b.dir, "compare")
	if err := makeChores(ctx, dir, files, perDir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	status := command("git status, warm", host, " M d000/f00000\n?? new\n", "git", "-C", filepath.Join(dir, "repo"), "status", "--porcelain")
	large := comparing("before and after", filepath.Join(dir, "repo"))
	rounds := b.rounds(60, 10)
	if err := interleave(ctx, warmups, rounds, large, status); err != nil {
		return err
	}
	over := fmt.Sprintf("comparison over %d files in %d directories", files, files/perDir)
	table := times(fmt.Sprintf("%s, %d rounds", over, rounds), time.Millisecond, status, large, status)
	if perDir < filesPerDir {
		b.add(table) // the cost goes by directories more than that of git does: shown, not promised
		return nil
	}
	b.add(table, atMost(over+", to a warm git status", ratio(large.sample.median(), status.sample.median()), 0.3, "×"))
	return nil
}

// comparing is a case of all that a start looks at in a directory, of what is kept on
// disk, and of the look after the commands.
func comparing(name, dir string) *benchCase {
	req := backend.Request{Spec: policy.Spec{Workspace: policy.Workspace{Source: dir, Mode: policy.ModeBind, Access: "rw"}}}
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		req.Seen = hostpath.NewSeen(nil)
		mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
		if err != nil {
			return 0, err
		}
		p, err := obeyed.Protect(ctx, req, mounts, nil)
		if err != nil {
			return 0, err
		}
		before := p.Take(ctx, obeyed.Watch{Workspace: dir, Roots: []string{dir}, Homes: p.Homes, Search: hostpath.ShellDirs(dir)})()
		text := before.Encode()
		found := before.Compare(ctx)
		took := time.Since(began)
		if len(text) == 0 || len(found.List)+len(found.Unseen) > 0 {
			return 0, fmt.Errorf("nothing was changed, and found was %+v", found)
		}
		return took, nil
	}}
}
