package toolchain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/policy"
)

// ModCache returns where the caller's go keeps modules, by variables of the caller's.
func ModCache(home string, lookup func(name string) string) string {
	first, _, _ := strings.Cut(cmp.Or(lookup("GOPATH"), filepath.Join(home, "go")), string(filepath.ListSeparator))
	return cmp.Or(lookup("GOMODCACHE"), filepath.Join(first, "pkg", "mod"))
}

// switchVar is the variable that chooses Go's toolchain.
const switchVar = "GOTOOLCHAIN"

// WithGo returns the PATH of a request, and after it the directories of other versions of Go
// that the workspace asks for, by go.mod and go.work in its top directory, as far as the
// caller's go has downloaded them for that. [Find] shows such a version under the name by which
// go looks for it in PATH before it downloads it.
func WithGo(req backend.Request, lookup func(name string) string) string {
	choice := lookup(switchVar)
	mod := path.Join(ModCache(req.Home, lookup), "golang.org")
	if req.Path == "" || choice == "local" || !own(mod, req.Home) {
		return req.Path
	}
	search := strings.Split(req.Path, ":")
	for _, name := range append(wanted(hostpath.Real(req.Spec.Workspace.Source)), strings.TrimSuffix(strings.TrimSuffix(choice, "+auto"), "+path")) {
		dir := path.Join(mod, versionDir(name))
		if !goName().MatchString(name) || slices.Contains(search, dir) {
			continue
		}
		// go makes it a program when it first switches to it.
		if info, err := os.Stat(path.Join(dir, "bin", "go")); err == nil && info.Mode()&0o111 != 0 {
			search = append(search, dir)
		}
	}
	return strings.Join(search, ":")
}

var (
	// goName matches the names of Go's toolchains that can be downloaded.
	goName = lazyregexp.New(`^go1\.[0-9]{1,4}(\.[0-9]{1,4}|(rc|beta)[0-9]{1,4})?$`)
	// asksFor matches the lines of go.mod and go.work that say which Go they need.
	asksFor = lazyregexp.New(`(?m)^[ \t]*(?:go[ \t]+(1\.[0-9a-z.]+)|toolchain[ \t]+(go1\.[0-9a-z.]+))[ \t\r]*(?://.*)?$`)
	// language matches versions of the language. From 1.21 on, the first release is N.0.
	language = lazyregexp.New(`^go1\.(2[1-9]|[3-9][0-9]|[0-9]{3,})$`)
)

// maxGoMod is how much of a go.mod is read, in bytes.
const maxGoMod = 256 << 10

// wanted returns the names of the toolchains that the workspace's go.mod and go.work ask for.
// They are hostile: no link is followed, and nothing but regular files is read.
func wanted(workspace string) (names []string) {
	top, err := dirfd.Open(unix.AT_FDCWD, workspace, dirfd.DirFlags)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(top) }()
	for _, file := range []string{"go.mod", "go.work"} {
		fd, err := dirfd.Open(top, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK) // never waits for a FIFO's writer
		if err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), file)
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			text, _ := io.ReadAll(io.LimitReader(f, maxGoMod))
			for _, m := range asksFor().FindAllSubmatch(text, 2) { // each of the two lines can be there once
				name := cmp.Or(string(m[2]), "go"+string(m[1]))
				if language().MatchString(name) {
					name += ".0"
				}
				names = append(names, name)
			}
		}
		_ = f.Close()
	}
	return names
}

// versionDir returns the name of the directory to which go unpacks a toolchain.
func versionDir(name string) string {
	return fmt.Sprintf("toolchain@v0.0.1-%s.%s-%s", name, runtime.GOOS, runtime.GOARCH)
}

// switchName returns the name of the toolchain that go has unpacked to a directory, or "".
func switchName(dir string) string {
	before, after, _ := strings.Cut(versionDir("\x00"), "\x00")
	rest, ok := strings.CutPrefix(path.Base(dir), before)
	name, whole := strings.CutSuffix(rest, after)
	if !ok || !whole || path.Base(path.Dir(dir)) != "golang.org" || !goName().MatchString(name) {
		return ""
	}
	return name
}

// lookGo adds a version of Go that [WithGo] has found, as a toolchain of its own: without it, what
// PATH names still works.
func (f *finder) lookGo(entry, dir, name string) {
	row := &table[slices.IndexFunc(table, func(t tool) bool { return t.anywhere })]
	bin := path.Join(dir, "bin")
	t, err := f.try(row, bin, bin)
	switch {
	case err == nil && t == nil:
		err = errors.New("it is not a whole Go")
	case err == nil && f.req.Spec.Level == policy.LevelLandlock:
		err = errors.New("level landlock cannot show it under the name by which go looks for it")
	}
	if err != nil {
		f.left[entry] = "the toolchain " + row.name + ": " + err.Error()
		return
	}
	at := path.Dir(t.Search[bin])
	t.Search = map[string]string{entry: at}
	t.Links[path.Join(at, name)] = "bin/go"
	if choice := f.lookup(switchVar); choice != "" {
		t.Env[switchVar] = choice
	}
	f.found = append(f.found, t)
}
