package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// program is what "go build" makes of a package.
type program struct{ pkg, ldflags string }

var unfit = regexp.MustCompile(`[^A-Za-z0-9]+`)

// fileName makes one word of what may be a path or a flag.
func fileName(text string) string { return unfit.ReplaceAllString(text, "_") }

// file is the program's name below the machine's directory of programs.
func (p program) file() string { return fileName(p.pkg) + "@" + fileName(p.ldflags) }

// file is the suite's name below the machine's directory of suites.
func (s suite) file() string { return fileName("x" + s.pkg) }

// buildAll builds this program, the others and the tests into dir, for the
// machine.
func buildAll(ctx context.Context, dir string) error {
	if err := build(ctx, "build", "-o", filepath.Join(dir, "init"), "./test/vm"); err != nil {
		return err
	}
	for _, p := range programs {
		if err := build(ctx, "build", "-ldflags", "-s -w "+p.ldflags, "-o", filepath.Join(dir, "programs", p.file()), "./"+p.pkg); err != nil {
			return err
		}
	}
	for _, s := range allSuites() {
		if err := build(ctx, "test", "-c", "-ldflags", "-s -w", "-o", filepath.Join(dir, "suites", s.file()), "./"+s.pkg); err != nil {
			return err
		}
	}
	return nil
}

func build(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", args[len(args)-1], err, out)
	}
	return nil
}
