//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// measureOverlay measures workspaces that are overlays: their starts, and what shows their changes.
func measureOverlay(ctx context.Context, b *bench) error {
	if err := b.measureOverlayStarts(ctx); err != nil {
		return err
	}
	return b.measureDiff(ctx)
}

// measureOverlayStarts compares starts of persistent sandboxes over a large directory and a small
// one.
func (b *bench) measureOverlayStarts(ctx context.Context) error {
	const few, size = 500, 1 << 30 / 50_000
	many := b.rounds(50_000, 5_000)
	large, small := filepath.Join(b.dir, "large"), filepath.Join(b.dir, "small")
	defer os.RemoveAll(large)
	defer os.RemoveAll(small)
	if err := errors.Join(makeTree(large, many, filesPerDir, size), makeTree(small, few, filesPerDir, size)); err != nil {
		return err
	}
	bind := b.creating(fmt.Sprintf("bind, %d files", few), small, policy.ModeBind)
	over, overFew := b.creating(fmt.Sprintf("overlay, %d files", many), large, policy.ModeOverlay), b.creating(fmt.Sprintf("overlay, %d files", few), small, policy.ModeOverlay)
	rounds := b.rounds(60, 10)
	if err := interleave(ctx, warmups, rounds, bind, over, overFew); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("paddock create, %d rounds", rounds), time.Millisecond, bind, bind, over, overFew),
		atMost(fmt.Sprintf("create with an overlay over %d files, to bind", many), ratio(over.sample.median(), bind.sample.median()), 1.5, "×"),
		atMost(fmt.Sprintf("create with an overlay over %d files, to %d", many, few), ratio(over.sample.median(), overFew.sample.median()), 1.2, "×"))
	return nil
}

// makeTree makes files of a size, so many in a directory.
func makeTree(dir string, files, perDir, size int) error {
	content := bytes.Repeat([]byte("some content\n"), size/13+1)[:size]
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("d%03d", i/perDir), fmt.Sprintf("f%05d", i))
		if i%perDir == 0 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// creating is a case of paddock create. The sandbox is removed outside of the time.
func (b *bench) creating(name, dir, mode string) *benchCase {
	const created = "created"
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		took, _, err := finish(ctx, b.cli, "create", "--quiet", "--workspace", dir, "--workspace-mode", mode, created)
		if err == nil {
			_, err = paddock.Remove(ctx, created, true, b.options())
		}
		return took, err
	}}
}

func (b *bench) options() paddock.Options {
	return paddock.Options{Agent: b.agent, StateDir: b.state}
}

// measureDiff compares what shows the changes of a layer over many files, and over few in as many
// directories, with git status over the same changes.
func (b *bench) measureDiff(ctx context.Context) error {
	const changed = 1_000
	many := b.rounds(50_000, 5_000)
	dirs := many / filesPerDir
	var cases []*benchCase
	var stops []func() error
	defer func() {
		for _, stop := range stops {
			_ = stop()
		}
	}()
	for _, files := range []int{many, changed} {
		dir := filepath.Join(b.dir, fmt.Sprintf("diff-%d", files))
		if err := makeChores(ctx, dir, files, files/dirs); err != nil {
			return err
		}
		layer := fmt.Sprintf("layer-%d", files)
		stop, err := b.changed(ctx, layer, filepath.Join(dir, "repo"), fmt.Sprintf(
			`for d in d*; do for f in $(ls $d | head -n %d); do echo changed >>$d/$f; done; done`, changed/dirs))
		stops = append(stops, stop)
		if err != nil {
			return err
		}
		cases = append(cases, b.reading(fmt.Sprintf("changes of %d files of %d", changed, files), layer, changed))
	}
	repo := filepath.Join(b.dir, fmt.Sprintf("diff-%d", many), "repo")
	status := &benchCase{name: "git status, warm, of the same changes"}
	showing := func(args ...string) *benchCase {
		args = append([]string{"diff", "--name-status"}, args...)
		return &benchCase{name: "paddock " + strings.Join(args, " "), run: func(ctx context.Context) (time.Duration, error) {
			took, out, err := finish(ctx, b.cli, append(args, fmt.Sprintf("layer-%d", many))...)
			return took, wantLines(out, changed, err)
		}}
	}
	shown, unscreened := showing(), showing("--quiet")
	// The layer has its own copy of what git compares.
	copied := filepath.Join(b.dir, "diff-copied")
	defer os.RemoveAll(copied)
	script := fmt.Sprintf(`cp -a "$0" "$1" && cd "$1" && git checkout -q . && rm -f new && git status >/dev/null && for d in d*; do for f in $(ls $d | head -n %d); do echo changed >>$d/$f; done; done`, changed/dirs)
	if out, err := exec.CommandContext(ctx, "sh", "-c", script, repo, copied).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy the repository: %w: %s", err, out)
	}
	status.run = func(ctx context.Context) (time.Duration, error) {
		took, out, err := finish(ctx, host, "git", "-C", copied, "status", "--porcelain")
		return took, wantLines(out, changed, err)
	}
	rounds := b.rounds(60, 10)
	if err := interleave(ctx, warmups, rounds, cases[0], cases[1], shown, unscreened, status); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("changes of a layer, in %d directories, %d rounds", dirs, rounds), time.Millisecond, status, append(cases, shown, unscreened, status)...),
		atMost(fmt.Sprintf("changes of %d files of %d, to those of %d of %d", changed, many, changed, changed), ratio(cases[0].sample.median(), cases[1].sample.median()), 1.5, "×"),
		atMost("changes from a running program, to a warm git status", ratio(cases[0].sample.median(), status.sample.median()), 0.2, "×"),
		atMost("paddock diff --name-status --quiet, to a warm git status", ratio(unscreened.sample.median(), status.sample.median()), 0.2, "×"),
		atMost("paddock diff --name-status, which looks for what is held back, to a warm git status", ratio(shown.sample.median(), status.sample.median()), 0.2, "×"))
	return nil
}

func wantLines(out string, n int, err error) error {
	if got := strings.Count(out, "\n"); err == nil && got != n {
		err = fmt.Errorf("it printed %d lines, want %d", got, n)
	}
	return err
}

// changed makes a stopped sandbox of a name whose layer over a directory has what a script changes.
func (b *bench) changed(ctx context.Context, name, dir, script string) (remove func() error, err error) {
	remove = func() error {
		_, err := paddock.Remove(context.WithoutCancel(ctx), name, true, b.options())
		return err
	}
	s, err := paddock.Create(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: dir, Mode: policy.ModeOverlay}}, b.options(), paddock.Lasting{Name: name})
	if err != nil {
		return remove, err
	}
	out, err := s.Command(ctx, "/bin/sh", "-c", script).CombinedOutput()
	if err = errors.Join(err, s.Close()); err != nil {
		return remove, fmt.Errorf("cannot change the files: %w: %s", err, out)
	}
	_, err = paddock.Stop(ctx, name, b.options())
	return remove, err
}

// reading is a case of the changes of a layer, read by this program.
func (b *bench) reading(name, layer string, want int) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		l, err := paddock.OpenLayer(ctx, layer, b.options())
		if err != nil {
			return 0, err
		}
		changes, err := l.Changes(ctx)
		l.Close()
		took := time.Since(began)
		if err == nil && len(changes) != want {
			err = fmt.Errorf("found %d changes, want %d", len(changes), want)
		}
		return took, err
	}}
}
