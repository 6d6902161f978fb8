//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// searchFiles are in the tree that is searched, as sources are: a few KiB each.
const searchFiles = 20_000

// measureSearch compares search_files with grep -rn over the same tree.
func measureSearch(ctx context.Context, b *bench) (err error) {
	g, err := b.startGuest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	files := searchFiles
	if b.short {
		files /= 10
	}
	if err := makeSources(g.workspace, files); err != nil {
		return err
	}
	var cases []*benchCase
	var promises []promise
	for _, what := range []struct{ name, pattern string }{{"a word", "errTooManyRequests"}, {"an expression", "[A-Z][a-z]+Requests_[0-9]+"}} {
		own, peer := g.searching(what.name, what.pattern, files), g.grepping(what.name, what.pattern)
		if err := interleave(ctx, 1, b.rounds(10, 3), own, peer); err != nil {
			return err
		}
		cases = append(cases, own, peer)
		promises = append(promises, atMost("search_files of "+what.name+", to grep -rn", ratio(own.sample.median(), peer.sample.median()), 2, "×"))
	}
	b.add(times(fmt.Sprintf("search of %d files", files), time.Millisecond, cases[1], cases...), promises...)
	return nil
}

// makeSources makes files of words, in every twentieth of which is what is
// looked for.
func makeSources(root string, files int) error {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same tree each time
	words := strings.Fields("func return if err nil the value string error config server client request handle update index buffer line path name type struct { } ( ) :=")
	for i := range files {
		var text bytes.Buffer
		for range 20 + rnd.IntN(200) {
			for range rnd.IntN(10) {
				text.WriteString(words[rnd.IntN(len(words))])
				text.WriteByte(' ')
			}
			text.WriteByte('\n')
		}
		if i%20 == 0 {
			fmt.Fprintf(&text, "\treturn errTooManyRequests_%d\n", i)
		}
		dir := filepath.Join(root, fmt.Sprintf("d%03d", i/filesPerDir))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (g *guest) searching(name, pattern string, files int) *benchCase {
	return one("search_files, "+name, func(ctx context.Context) error {
		r, err := g.client.SearchFiles(ctx, wire.SearchRequest{Pattern: pattern, Limit: wire.MaxSearchMatches, LineBytes: wire.SearchLineBytes,
			MaxBytes: wire.SearchBytes, TimeoutMS: wire.MaxSearchTimeoutMS, Output: wire.SearchContent})
		if err == nil && (r.Matches != int64(files/20) || r.Searched != int64(files)) {
			err = fmt.Errorf("it found %d lines in %d files", r.Matches, r.Searched)
		}
		return err
	})
}

func (g *guest) grepping(name, pattern string) *benchCase {
	return one("grep -rnE, "+name, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "grep", "-rnE", pattern, ".")
		cmd.Dir = g.workspace
		out, err := cmd.Output()
		if err == nil && len(out) == 0 {
			err = errors.New("it found nothing")
		}
		return err
	})
}
