//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// measureCompare measures what it costs to compare what programs of the host
// execute or obey before and after a sandbox: over a large repository beside git
// status there, and in a small directory beside a whole run.
func measureCompare(ctx context.Context, b *bench) error {
	files := 50_000
	if b.short {
		files /= 10
	}
	dir := filepath.Join(b.dir, "compare")
	if err := makeChores(ctx, dir, files); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	status := command("git status, warm", host, " M d000/f00000\n?? new\n", "git", "-C", filepath.Join(dir, "repo"), "status", "--porcelain")
	large := comparing("before and after", filepath.Join(dir, "repo"))
	rounds := b.rounds(60, 10)
	if err := interleave(ctx, warmups, rounds, large, status); err != nil {
		return err
	}
	run := command("paddock run -- true", b.run, "", "true")
	small := comparing("before and after", b.workspace)
	if err := interleave(ctx, warmups, b.rounds(200, 40), small, run); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("comparison over %d files, %d rounds", files, rounds), time.Millisecond, status, large, status),
		atMost(fmt.Sprintf("comparison over %d files, to a warm git status", files), ratio(large.sample.median(), status.sample.median()), 0.3, "×"))
	b.add(times("comparison in a small directory", time.Millisecond, run, small, run),
		atMost("comparison in a small directory, to paddock run -- true", ratio(small.sample.median(), run.sample.median()), 0.05, "×"))
	return nil
}

// comparing is a case of both looks at a directory, and of what is kept on disk
// between them.
func comparing(name, dir string) *benchCase {
	watch := hostpath.Watch{Workspace: dir, Roots: []string{dir}, Homes: hostpath.Homes()}
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		before := hostpath.Take(ctx, watch)
		text := before.Encode()
		found := before.Compare(ctx)
		took := time.Since(began)
		if len(text) == 0 || len(found.List)+len(found.Unseen) > 0 {
			return 0, fmt.Errorf("nothing was changed, and found was %+v", found)
		}
		return took, nil
	}}
}
