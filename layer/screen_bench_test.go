//go:build linux

package layer

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/obeyed"
)

// BenchmarkScreen judges a thousand changed files in a repository of ten thousand in 500 directories.
func BenchmarkScreen(b *testing.B) {
	top := b.TempDir()
	for d := range 500 {
		for f := range 20 {
			putBench(b, fmt.Sprintf("%s/source/d%03d/f%d", top, d, f))
			if f < 2 {
				putBench(b, fmt.Sprintf("%s/upper/d%03d/f%d", top, d, f))
			}
		}
	}
	source, upper := openBench(b, top+"/source"), openBench(b, top+"/upper")
	l := &Layer{Source: source, Upper: upper, Marks: UserMarks}
	changes, err := l.Changes(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		changes = append(changes, Change{Path: fmt.Sprintf("d%03d/f%d", i/2, i%2), Kind: Modified, Old: Entry{Mode: 0o644}, New: Entry{Mode: 0o644}})
	}
	for b.Loop() {
		names := obeyed.ReadNames(b.Context(), []string{top + "/source"})
		if _, err := l.Screen(b.Context(), changes, ScreenOptions{Names: names.Below(b.Context(), top+"/source", int(source.Fd()))}); err != nil {
			b.Fatal(err)
		}
	}
}

func putBench(b *testing.B, p string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
		b.Fatal(err)
	}
}

func openBench(b *testing.B, dir string) *os.File {
	b.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dir)
	b.Cleanup(func() { _ = f.Close() })
	return f
}
