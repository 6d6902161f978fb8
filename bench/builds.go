//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// builds are what is measured in an overlay beside a bind, each in a new sandbox.
var builds = []struct {
	name, program, script string
	make                  func(ctx context.Context, dir string) error
}{
	{"go build, with the standard library", "go", "GOCACHE=$PWD/cache GOFLAGS= GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 go build -trimpath -buildvcs=false -o job .", makeGo},
	{"npm ci, from archives", "npm", "npm ci --offline --no-audit --no-fund --loglevel=error --cache=$PWD/npm-cache >/dev/null", makeNPM},
}

// measureBuilds compares builds in an overlay with those in a bind.
func measureBuilds(ctx context.Context, b *bench) error {
	for _, build := range builds {
		promised := build.name + " in an overlay, to bind"
		why := notFound(build.program)
		if b.short {
			why = "it takes a minute, which a short run does not have"
		}
		if why != "" {
			b.add(table{Title: build.name, Rows: []row{{Name: "overlay", Absent: why}}}, atMost(promised, 0, 1.1, "×").unless(why))
			continue
		}
		dir := filepath.Join(b.dir, build.program)
		if err := build.make(ctx, dir); err != nil {
			return err
		}
		bind, over := b.building("bind", dir, policy.ModeBind, build.script), b.building("overlay", dir, policy.ModeOverlay, build.script)
		const rounds = 4
		if err := interleave(ctx, 1, rounds, bind, over); err != nil {
			return err
		}
		b.add(times(fmt.Sprintf("%s, %d rounds", build.name, rounds), time.Second, bind, bind, over),
			atMost(promised, ratio(over.sample.median(), bind.sample.median()), 1.1, "×"))
	}
	return nil
}

func notFound(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return program + " is not installed"
	}
	return ""
}

// building is a case of a script in a new sandbox over a copy of a directory.
func (b *bench) building(name, dir, mode, script string) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		at := dir + "-copy"
		defer os.RemoveAll(at)
		if out, err := exec.CommandContext(ctx, "cp", "-a", dir, at).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("cannot copy the files: %w: %s", err, out)
		}
		took, out, err := finish(ctx, b.cli, "run", "--workspace", at, "--workspace-mode", mode, "--cache", "none", "--", "/bin/sh", "-c", script)
		if err == nil && out != "" {
			err = fmt.Errorf("printed %q", out)
		}
		return took, err
	}}
}

// makeGo makes a program that needs a good part of the standard library.
func makeGo(_ context.Context, dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.invalid/job\n\ngo 1.24\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n)\n\nfunc main() { _ = json.NewEncoder(os.Stdout).Encode(os.Args) }\n"), 0o644))
}

// makeNPM makes a package that needs ten others of 300 files each, which lie beside it as archives.
func makeNPM(ctx context.Context, dir string) error {
	const packages, files = 10, 300
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var needs []string
	for i := range packages {
		name := fmt.Sprintf("bench-%d", i)
		if err := os.WriteFile(filepath.Join(dir, name+".tgz"), npmArchive(name, files), 0o644); err != nil {
			return err
		}
		needs = append(needs, fmt.Sprintf("%q: %q", name, "file:"+name+".tgz"))
	}
	text := `{"name": "bench", "version": "1.0.0", "dependencies": {` + strings.Join(needs, ", ") + "}}\n"
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--offline", "--package-lock-only", "--no-audit", "--no-fund", "--cache="+dir+"-cache")
	cmd.Dir = dir
	defer os.RemoveAll(dir + "-cache")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the lock file: %w: %s", err, out)
	}
	return nil
}

// npmArchive is a package as npm packs it.
func npmArchive(name string, files int) []byte {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	archive := tar.NewWriter(zipped)
	add := func(path, text string) { // a Buffer cannot fail
		_ = archive.WriteHeader(&tar.Header{Name: "package/" + path, Mode: 0o644, Size: int64(len(text))})
		_, _ = archive.Write([]byte(text))
	}
	add("package.json", fmt.Sprintf(`{"name": %q, "version": "1.0.0"}`, name))
	for i := range files {
		add(fmt.Sprintf("lib/d%d/f%d.js", i/30, i), strings.Repeat(fmt.Sprintf("exports.value%d = %d;\n", i, i), 100))
	}
	_ = archive.Close()
	_ = zipped.Close()
	return b.Bytes()
}
