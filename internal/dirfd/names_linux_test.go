package dirfd

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func FuzzParseNames(f *testing.F) {
	dir, err := os.Open(".")
	if err != nil {
		f.Fatal(err)
	}
	buf := make([]byte, 8<<10)
	n, err := unix.Getdents(int(dir.Fd()), buf)
	_ = dir.Close()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(buf[:n])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseNames(b, func(name []byte, _ byte) bool {
			if len(name) == 0 || strings.ContainsAny(string(name), "/\x00") || string(name) == "." || string(name) == ".." {
				t.Errorf("a name is %q", name)
			}
			return true
		})
	})
}
