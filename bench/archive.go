//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// filesPerDir is how the files of an archive are spread.
const filesPerDir = 100

// archives is a tree of files, its tar archive, and an agent to move it.
type archives struct {
	*guest
	tree, tar    string
	files, bytes int64
	runs         int
}

// measureArchive compares import and export with tar through a pipe.
func measureArchive(ctx context.Context, b *bench) (err error) {
	g, err := b.startGuest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	a := &archives{guest: g, tree: filepath.Join(g.workspace, "tree"), tar: filepath.Join(b.dir, "tree.tar"),
		files: 10_000, bytes: 500 << 20}
	if b.short {
		a.files, a.bytes = a.files/10, a.bytes/10
	}
	if err := a.make(ctx); err != nil {
		return err
	}
	in := &benchCase{name: "extract_archive", run: a.importing}
	inPeer := &benchCase{name: "cat archive | tar -x", run: a.extracting}
	out := &benchCase{name: "export_archive", run: a.exporting}
	outPeer := &benchCase{name: "tar -c | cat", run: a.creating}
	rounds := b.rounds(5, 3)
	if err := interleave(ctx, 1, rounds, in, inPeer, out, outPeer); err != nil {
		return err
	}
	inSpeed, outSpeed := ratio(inPeer.sample.median(), in.sample.median()), ratio(outPeer.sample.median(), out.sample.median())
	b.add(table{Title: fmt.Sprintf("archives of %d files, %d MiB, %d rounds", a.files, a.bytes>>20, rounds),
		Rows: []row{speedRow(in, a.bytes, inSpeed), speedRow(inPeer, a.bytes, 1), speedRow(out, a.bytes, outSpeed), speedRow(outPeer, a.bytes, 1)}},
		atLeast("speed of extract_archive, to tar from a pipe", inSpeed, 0.6, "×"),
		atLeast("speed of export_archive, to tar into a pipe", outSpeed, 0.6, "×"),
		g.memoryPromise("moved archives"))
	return nil
}

// make fills the tree with files that do not compress, and packs it.
func (a *archives) make(ctx context.Context) error {
	noise := make([]byte, 2*a.bytes/a.files)
	_, _ = rand.Read(noise) // it does not fail
	for i := range a.files {
		dir := filepath.Join(a.tree, fmt.Sprintf("d%03d", i/filesPerDir))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		at := i % (a.bytes / a.files)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), noise[at:at+a.bytes/a.files], 0o644); err != nil {
			return err
		}
	}
	// Names, since an archive with a member "." is refused.
	return exec.CommandContext(ctx, "sh", "-c", `cd "$0" && exec tar -cf "$1" *`, a.tree, a.tar).Run()
}

// target is a directory that does not exist yet.
func (a *archives) target() string {
	a.runs++
	return filepath.Join(a.workspace, fmt.Sprintf("run%d", a.runs))
}

// check counts what was unpacked, and removes it.
func (a *archives) check(dir string) error {
	var files, bytes int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files, bytes = files+1, bytes+info.Size()
		}
		return err
	})
	if err == nil && (files != a.files || bytes != a.bytes/a.files*a.files) {
		err = fmt.Errorf("unpacked %d files with %d bytes", files, bytes)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func (a *archives) importing(ctx context.Context) (time.Duration, error) {
	f, err := os.Open(a.tar)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	dir := a.target()
	began := time.Now()
	_, err = wire.Upload(ctx, &a.client, wire.ExtractArchive,
		wire.ExtractRequest{ArchiveSize: info.Size(), Destination: wire.OSString(filepath.Base(dir))}, f)
	took := time.Since(began)
	if err != nil {
		return took, err
	}
	return took, a.check(dir)
}

func (a *archives) extracting(ctx context.Context) (time.Duration, error) {
	dir := a.target()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	began := time.Now()
	out, err := exec.CommandContext(ctx, "sh", "-c", `cat "$0" | tar -C "$1" -xf -`, a.tar, dir).CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return took, fmt.Errorf("%w: %s", err, out)
	}
	return took, a.check(dir)
}

func (a *archives) exporting(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	header, body, err := wire.Download(ctx, &a.client, wire.ExportArchive, wire.ExportRequest{Path: "tree"})
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, body)
	took := time.Since(began)
	if err == nil && (n != header.ArchiveSize || n < a.bytes/a.files*a.files) {
		err = fmt.Errorf("got %d bytes after %+v", n, header)
	}
	return took, errors.Join(err, body.Close())
}

func (a *archives) creating(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, "sh", "-c", `cd "$0" && tar -cf - * | cat >/dev/null`, a.tree).CombinedOutput()
	took := time.Since(began)
	if err == nil && len(out) > 0 {
		err = errors.New("it complained")
	}
	if err != nil {
		return took, fmt.Errorf("tar failed: %w: %s", err, out)
	}
	return took, nil
}
