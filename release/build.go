package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// programs are those of a release, in the order of archives.
var programs = []string{"paddock", "paddock-agent", "paddock-egress", "paddock-keeper", "paddock-server"}

// build is a directory with the programs, and what they were built from.
type build struct {
	dir string // GOPATH of the build
	sum []byte // go.sum of the commit
}

// file is one of an archive.
type file struct {
	name string // below the prefix of an installation
	mode int64
	data []byte
}

// build installs the programs for every architecture, and for this machine.
func (c *commit) build(work string) (*build, error) {
	b := &build{dir: filepath.Join(work, "go")}
	if err := c.writeProxy(filepath.Join(work, "proxy")); err != nil {
		return nil, err
	}
	var err error
	if b.sum, err = c.file("go.sum"); err != nil {
		return nil, err
	}
	env, err := environment(filepath.Join(work, "proxy"), b.dir)
	if err != nil {
		return nil, err
	}
	platforms := []string{runtime.GOOS + "/" + runtime.GOARCH}
	for _, arch := range architectures {
		if p := "linux/" + arch; !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		cmd := exec.Command("go", "install", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", product+"/cmd/...@"+c.version)
		cmd.Dir, cmd.Env = work, append(slices.Clone(env), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot build for %s: %w\n%s", p, err, out)
		}
	}
	return b, nil
}

// environment returns the environment of a go command that has the module from a proxy of files,
// and all others from this machine's module cache. What would make one build differ from
// another is not taken over.
func environment(proxy, gopath string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot ask go where its caches are: %w", err)
	}
	caches := strings.Split(strings.TrimSpace(string(out)), "\n")
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOROOT"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env,
		"GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw",
		"GOPATH="+gopath, "GOCACHE="+caches[1],
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(caches[0], "cache", "download")),
		"GOSUMDB=off", // what came from a proxy was compared when it came into the module cache; build compares it with go.sum again
	), nil
}

// path returns where a program for a platform is.
func (b *build) path(system, arch, name string) string {
	dir := filepath.Join(b.dir, "bin")
	if system != runtime.GOOS || arch != runtime.GOARCH {
		dir = filepath.Join(dir, system+"_"+arch)
	}
	return filepath.Join(dir, name)
}

// programs returns those for an architecture. What they were built from must be what go.sum says.
func (b *build) programs(arch string) ([]file, error) {
	var files []file
	for _, name := range programs {
		path := b.path("linux", arch, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("cannot read what %s was built from: %w", path, err)
		}
		for _, dep := range info.Deps {
			if line := dep.Path + " " + dep.Version + " " + dep.Sum + "\n"; dep.Replace != nil || !bytes.Contains(b.sum, []byte(line)) {
				return nil, fmt.Errorf("%s was built from %s %s %s, and go.sum does not name that", name, dep.Path, dep.Version, dep.Sum)
			}
		}
		files = append(files, file{"bin/" + name, 0o755, data})
	}
	return files, nil
}

// pages returns the manual page and the completions, as the program for this machine prints
// them, and the papers of the commit.
func (c *commit) pages(b *build) ([]file, error) {
	var files []file
	for _, p := range []struct {
		name string
		args []string
	}{
		{"share/man/man1/paddock.1", []string{"man"}},
		{"share/bash-completion/completions/paddock", []string{"completion", "bash"}},
		{"share/zsh/site-functions/_paddock", []string{"completion", "zsh"}},
		{"share/fish/vendor_completions.d/paddock.fish", []string{"completion", "fish"}},
	} {
		cmd := exec.Command(b.path(runtime.GOOS, runtime.GOARCH, "paddock-server"), p.args...)
		cmd.Env = []string{"HOME=/nonexistent"} // as it has none of this machine's settings
		text, err := cmd.Output()
		if err != nil || len(text) == 0 {
			return nil, fmt.Errorf("cannot make %s: %w", p.name, err)
		}
		files = append(files, file{p.name, 0o644, text})
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := c.file(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"share/doc/paddock/" + name, 0o644, text})
	}
	return files, nil
}

// notices returns the licenses of Go and of every module that a program has code of, which
// they say must come with it.
func (b *build) notices(programs []file) ([]file, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"Go": strings.TrimSpace(string(root))}
	for _, p := range programs {
		info, err := buildinfo.Read(bytes.NewReader(p.data))
		if err != nil {
			return nil, err
		}
		for _, dep := range info.Deps {
			path, perr := module.EscapePath(dep.Path)
			version, verr := module.EscapeVersion(dep.Version)
			if err := errors.Join(perr, verr); err != nil {
				return nil, err
			}
			dirs[dep.Path+" "+dep.Version] = filepath.Join(b.dir, "pkg", "mod", path+"@"+version)
		}
	}
	var names []string
	for name := range dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	var text bytes.Buffer
	for _, name := range names {
		found := false
		for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*", "PATENTS"} {
			paths, err := filepath.Glob(filepath.Join(dirs[name], pattern))
			if err != nil {
				return nil, err
			}
			for _, path := range paths {
				license, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(&text, "==== %s: %s\n\n%s\n\n", name, filepath.Base(path), bytes.TrimSpace(license))
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s has no license in %s", name, dirs[name])
		}
	}
	return []file{{"share/doc/paddock/LICENSES", 0o644, text.Bytes()}}, nil
}
