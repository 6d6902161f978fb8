//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// chore is work that makes many system calls, the same on either side.
type chore struct {
	name    string
	dir     string // below that of the site
	argv    []string
	want    string // what it prints
	product string // the file that it makes anew, where it makes one
}

func chores(files int) []chore {
	return []chore{
		{name: fmt.Sprintf("git status of %d files", files), dir: "repo",
			argv: []string{"git", "status", "--porcelain"}, want: " M d000/f00000\n?? new\n"},
		{name: "gcc of a C file", dir: "c",
			argv: []string{"gcc", "-O1", "-c", "work.c"}, product: "work.o"},
		{name: "go build of a small program", dir: "go",
			argv: []string{"go", "build", "-trimpath", "-buildvcs=false"}, product: "job"},
	}
}

// at does the chore at one site. What it makes has to be there, and the same
// as what the other site made last.
func (c chore) at(here, other site) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		made := filepath.Join(here.dir, c.dir, c.product)
		if c.product != "" {
			if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
		}
		began := time.Now()
		out, err := here.run(ctx, c.dir, c.argv)
		took := time.Since(began)
		if err != nil || string(out) != c.want {
			return 0, fmt.Errorf("it printed %q, want %q, and ended with %v", out, c.want, err)
		}
		if c.product == "" {
			return took, nil
		}
		mine, err := os.ReadFile(made)
		if err != nil {
			return 0, err
		}
		theirs, err := os.ReadFile(filepath.Join(other.dir, c.dir, c.product))
		if err == nil && !bytes.Equal(mine, theirs) {
			err = fmt.Errorf("%s is not the same inside and outside", c.product)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the very first run
		}
		return took, err
	}
}

// choreEnv keeps all that the chores write below the directory of their site.
func choreEnv(dir string) map[string]string {
	return map[string]string{
		"HOME": dir + "/home", "TMPDIR": dir + "/tmp", "LANG": "C.UTF-8",
		"GOCACHE": dir + "/cache", "GOENV": "off", "GOFLAGS": "", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0",
		"GIT_CONFIG_NOSYSTEM": "1",
	}
}

func goRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
}

// makeChores makes the files of one site: a repository with so many in a directory,
// and programs to compile.
func makeChores(ctx context.Context, dir string, files, perDir int) error {
	for _, sub := range []string{"home", "tmp", "repo", "c", "go"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for i := range files {
		path := filepath.Join(dir, "repo", fmt.Sprintf("d%03d", i/perDir), fmt.Sprintf("f%05d", i))
		if i%perDir == 0 {
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", i), 0o644); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"c/work.c":   cFile(150),
		"go/go.mod":  "module example.invalid/job\n\ngo 1.24\n",
		"go/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	// Nothing may tidy up in the background, beside the copy or the measurement.
	const commit = `git init -q && git config gc.auto 0 && git config maintenance.auto false && git add . && git -c user.name=a -c user.email=a@example.invalid commit -q -m all &&
		echo changed >>d000/f00000 && echo >new`
	cmd := exec.CommandContext(ctx, "sh", "-c", commit)
	cmd.Dir = filepath.Join(dir, "repo")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make a repository: %w: %s", err, out)
	}
	return nil
}

// cFile is a program of so many functions.
func cFile(functions int) string {
	var c strings.Builder
	c.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/stat.h>\n")
	for i := range functions {
		fmt.Fprintf(&c, "int f%d(const char *s, int n)\n{\n\tint sum = %d;\n\tfor (int i = 0; i < n; i++)\n"+
			"\t\tsum = sum * 31 + s[i %% (int)(strlen(s) + 1)];\n\tif (sum < 0)\n\t\tprintf(\"%%d\\n\", sum);\n\treturn sum;\n}\n", i, i)
	}
	return c.String()
}
