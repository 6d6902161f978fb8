package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Size = int64(len(h.Name)) // of the content, which is the name
		if h.Typeflag != tar.TypeReg {
			h.Size = 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, h.Name)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// A checksum that does not fit is found, though it comes after the archive.
func TestUnpackChecks(t *testing.T) {
	good := gzipped(tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644}))
	take := func(_ *tarMember, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	if n, err := unpack(bytes.NewReader(good), false, take); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for name, bad := range map[string][]byte{
		"a wrong checksum":     slices.Concat(good[:len(good)-8], []byte{1, 2, 3, 4}, good[len(good)-4:]),
		"no checksum":          good[:len(good)-8],
		"nothing":              {},
		"half of a header":     good[:5],
		"an endless padding":   slices.Concat(gzipped(slices.Concat(tarOf(t), make([]byte, maxPadding+1024)))),
		"a block that is none": bytes.Repeat([]byte("x"), 512),
	} {
		if _, err := unpack(bytes.NewReader(bad), false, take); err == nil {
			t.Errorf("%s is no error", name)
		} else if w := new(wire.Error); !errors.As(err, &w) {
			t.Errorf("%s: %v has no type", name, err)
		}
	}
	if n, err := unpack(bytes.NewReader(append(good, "rubbish of some length"...)), false, take); n != 1 || err != nil {
		t.Errorf("with something behind it: %d, %v", n, err)
	}
}

// Whatever the bytes are, members stay below the destination, and nobody
// waits or takes memory that did not come.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Name: "a/b", Typeflag: tar.TypeReg}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"}))
	f.Add(tarOf(f, tar.Header{Name: "../x", Typeflag: tar.TypeReg}))
	f.Add(gzipped(tarOf(f, tar.Header{Name: "./d/", Typeflag: tar.TypeDir})))
	paths, _ := filepath.Glob(filepath.Join("testdata", "archives", "*"))
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var read int64
		_, err := unpack(bytes.NewReader(data), false, func(m *tarMember, r io.Reader) error {
			if len(m.names) == 0 || len(m.names) > maxDepth || slices.Contains(m.names, "..") || slices.Contains(m.names, "") || m.mode&^0o755 != 0 {
				t.Errorf("member %+v", m)
			}
			n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			if read += n; read > 64<<20 {
				return errors.New("enough")
			}
			return err
		})
		_ = err
	})
}
