package toolchain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// glob returns the files below a directory that a pattern names, sorted. Names that begin with
// a point match only what says so, unless points is set. It fails only with errMany.
func glob(base, pattern string, points bool) ([]string, error) {
	found := []string{base}
	for word := range strings.SplitSeq(pattern, "/") {
		var next []string
		for _, dir := range found {
			names := []string{word}
			if strings.Contains(word, "*") {
				all, err := namesIn(dir) // what else cannot be read has none
				if errors.Is(err, errMany) {
					return nil, fmt.Errorf("%s: %w", dir, err)
				}
				names = slices.DeleteFunc(all, func(name string) bool {
					ok, _ := path.Match(word, name)
					return !ok || !points && name[0] == '.' && word[0] != '.'
				})
			}
			for _, name := range names {
				if _, err := os.Stat(path.Join(dir, name)); err == nil {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		found = next
	}
	return found, nil
}

// maxNames is how many names a directory may have in which names are looked for.
const maxNames = 4096

// errMany is the error of a directory with more names than maxNames.
var errMany = fmt.Errorf("it has more than %d names", maxNames)

// namesIn returns the names in a directory, sorted, or errMany.
func namesIn(dir string) ([]string, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // never waits for a FIFO's writer
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames + 1)
	if len(names) > maxNames {
		return nil, errMany
	}
	slices.Sort(names)
	return names, err
}

// outermost returns those paths that lie in none of the others, sorted.
func outermost(paths []string) (all []string) {
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if !slices.ContainsFunc(paths, func(o string) bool { return o != p && hostpath.Under(p, o) }) {
			all = append(all, p)
		}
	}
	return all
}

var (
	comment  = lazyregexp.New(`(?s)<!--.*?-->`)
	password = lazyregexp.New(`(?i)<(password|passphrase|privateKey)\b`)
)

// maxSettings is how large settings may be, in bytes, to be shown.
const maxSettings = 1 << 20

// settings returns what is in a small regular file.
func settings(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // never waits for a FIFO's writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxSettings {
		return nil, errors.Join(err, errOdd)
	}
	return io.ReadAll(io.LimitReader(f, maxSettings))
}

// secret reports whether a file of hides must be covered. Maven's settings, which it needs as
// they were shipped, must be if they have a password outside of comments.
func secret(file string) bool {
	if filepath.Base(file) != filepath.Base(maven) {
		return true
	}
	text, err := settings(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return password().Match(comment().ReplaceAll(text, nil))
}

// versionsToml matches a configuration of mise's that has a table of tools and nothing else: no
// variables, tasks or options, and no comments.
var versionsToml = lazyregexp.New(`^\s*\[tools\][ \t\r]*(?:\n[ \t\r]*(?:` + tomlName + `[ \t]*=[ \t]*` + tomlVersions + `)?[ \t\r]*)*$`)

const (
	tomlName     = `(?:[A-Za-z0-9_-]+|"[A-Za-z0-9_.:/@-]+")`
	tomlVersion  = `(?:"[A-Za-z0-9_.:/+-]{1,64}"|'[A-Za-z0-9_.:/+-]{1,64}')`
	tomlVersions = `(?:` + tomlVersion + `|\[\s*` + tomlVersion + `(?:\s*,\s*` + tomlVersion + `)*\s*,?\s*\])`
)

// versionsOnly reports whether all that a file says is which versions of tools to use.
func versionsOnly(file string) bool {
	text, err := settings(file)
	return err == nil && versionsToml().Match(text) && !bytes.Contains(text, []byte("//")) // the address of a server may have a password
}
