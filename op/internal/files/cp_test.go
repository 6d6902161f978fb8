package files

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

func TestCopyPlaces(t *testing.T) {
	for _, tt := range []struct {
		text, sandbox, path string
		content, slash      bool
	}{
		{"a", "", "a", false, false},
		{"./a:b", "", "./a:b", false, false},
		{"/a:b", "", "/a:b", false, false},
		{"d/a:b", "", "d/a:b", false, false},
		{".a:b", "", ".a:b", false, false},
		{".", "", ".", true, true},
		{"d/.", "", "d/.", true, true},
		{"d/", "", "d/", false, true},
		{"web:a", "web", "a", false, false},
		{"web:a:b", "web", "a:b", false, false},
		{"web:.", "web", ".", true, true},
		{"web:/workspace", "web", ".", false, false},
		{"web:/workspace/", "web", ".", false, true},
		{"web:/workspace/.", "web", ".", true, true},
		{"web:/workspace//d/./a", "web", "d/a", false, false},
		{"web:workspace/a", "web", "workspace/a", false, false},
		{"web:d/.", "web", "d", true, true},
		{"web:-", "web", "-", false, false},
	} {
		p, err := newCopyPlace("source", osstring.String(tt.text))
		if err != nil || p.sandbox != tt.sandbox || p.path != tt.path || p.content != tt.content || p.slash != tt.slash {
			t.Errorf("%q is %+v, %v", tt.text, p, err)
		}
	}
	for _, text := range []string{"", "web:", ":a", "web:/etc", "web:..", "web:a/../b", "web:/workspacex", "web: ", "a\x00b"} {
		if p, err := newCopyPlace("source", osstring.String(text)); err == nil {
			t.Errorf("%q is accepted as %+v", text, p)
		}
	}
}

func TestLinkStaysInside(t *testing.T) {
	for _, tt := range []struct {
		depth  int
		target string
		want   bool
	}{
		{0, "a", true}, {0, "a/b", true}, {0, ".", true}, {1, "..", true}, {1, "../a", true}, {2, "./.././../a", true},
		{0, "", false}, {0, "/a", false}, {0, "..", false}, {0, "../a", false}, {1, "../../a", false}, {1, "a/..", false}, {5, "../a/../b", false}, {0, "a\x00", false},
	} {
		if got := wire.LinkStaysInside(tt.depth, tt.target); got != tt.want {
			t.Errorf("at depth %d, %q stays inside: %v", tt.depth, tt.target, got)
		}
	}
}

// hostile is an archive of an agent that commands have taken over.
type hostile struct {
	headers []tar.Header // with "evil" as the content of files
	raw     []byte       // instead
	size    int64        // that was announced, if not that of the archive
	file    bool         // that was announced
}

func (h hostile) bytes(t *testing.T) []byte {
	t.Helper()
	if h.raw != nil {
		return h.raw
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, one := range h.headers {
		if one.Typeflag == tar.TypeReg {
			one.Size = 4
		}
		if err := w.WriteHeader(&one); err != nil {
			t.Fatal(err)
		}
		if one.Typeflag == tar.TypeReg {
			_, _ = io.WriteString(w, "evil")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// receive lands it as the content of a directory, or as a file in one.
func (h hostile) receive(t *testing.T, dst string) (*copying, error) {
	t.Helper()
	to, err := newCopyPlace("destination", osstring.String(dst))
	if err != nil {
		t.Fatal(err)
	}
	archive := h.bytes(t)
	head := wire.ExportResult{ArtifactType: wire.TypeDirectory, ArchiveSize: int64(len(archive))}
	if h.file {
		head.ArtifactType = wire.TypeFile
	}
	if h.size > 0 {
		head.ArchiveSize = h.size
	}
	c := &copying{env: &op.Env{Options: paddock.Options{StateDir: t.TempDir()}}, stream: &op.Stream{}, to: to,
		from: copyPlace{text: "web:src", sandbox: "web", path: "src", content: !h.file}}
	err = c.receive(head, bytes.NewReader(archive))
	return c, err
}

func regular(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}
}
func symlink(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
}

// What comes out of a sandbox never leaves the destination, whatever the agent sends.
func TestCopyHostileArchives(t *testing.T) {
	for name, tt := range map[string]struct {
		hostile
		want string // in the error
	}{
		"up":                     {hostile{headers: []tar.Header{regular("../outside/x")}}, "outside of what is copied"},
		"up in the middle":       {hostile{headers: []tar.Header{regular("a/../../outside/x")}}, "outside of what is copied"},
		"absolute":               {hostile{headers: []tar.Header{regular("/etc/x")}}, "outside of what is copied"},
		"the destination":        {hostile{headers: []tar.Header{regular("a"), {Name: "./", Typeflag: tar.TypeDir, Mode: 0o777}}}, "outside of what is copied"},
		"more than a file":       {hostile{file: true, headers: []tar.Header{regular("d/x")}}, "outside of what is copied"},
		"a directory for a file": {hostile{file: true, headers: []tar.Header{{Name: "d/", Typeflag: tar.TypeDir}}}, "not a file"},
		"a link up":              {hostile{headers: []tar.Header{symlink("l", "../outside")}}, "leads out"},
		"a link down and up":     {hostile{headers: []tar.Header{symlink("here", "."), symlink("l", "here/../outside")}}, "leads out"},
		"an absolute link":       {hostile{headers: []tar.Header{symlink("l", "/etc")}}, "leads out"},
		"a file in a link":       {hostile{headers: []tar.Header{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, symlink("l", "d"), regular("l/x")}}, "a symbolic link is in its place"},
		"a directory on a link":  {hostile{headers: []tar.Header{symlink("l", "d"), {Name: "l/", Typeflag: tar.TypeDir, Mode: 0o755}}}, "a symbolic link is in its place"},
		"in a link of the host":  {hostile{headers: []tar.Header{regular("host/x")}}, "a symbolic link is in its place"},
		"a link for a directory": {hostile{headers: []tar.Header{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, symlink("d", "x")}}, "of another kind"},
		"in a file":              {hostile{headers: []tar.Header{regular("f"), regular("f/x")}}, "of another kind"},
		"a hard link":            {hostile{headers: []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside/secret"}}}, "not a file"},
		"a device":               {hostile{headers: []tar.Header{{Name: "dev", Typeflag: tar.TypeBlock, Devmajor: 8, Mode: 0o666}}}, "not a file"},
		"a FIFO":                 {hostile{headers: []tar.Header{{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o666}}}, "not a file"},
		"control characters":     {hostile{headers: []tar.Header{{Name: "a\x1b[31mb", Typeflag: tar.TypeFifo}}}, `"a\x1b[31mb"`},
		"a file without content": {hostile{raw: sparse(t, 1<<40)}, "larger than the archive"},
		"more than announced":    {hostile{headers: []tar.Header{regular("a"), regular("b")}, size: 6}, "larger than the archive"},
		"half an archive":        {hostile{raw: hostile{headers: []tar.Header{regular("a")}}.bytes(t)[:514]}, "unexpected EOF"},
		"none":                   {hostile{raw: bytes.Repeat([]byte("x"), 512)}, "invalid tar header"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"outside", "dst"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "outside", "secret"), []byte("kept"), 0o600), os.Symlink("../outside", filepath.Join(dir, "dst", "host"))); err != nil {
				t.Fatal(err)
			}
			_, err := tt.receive(t, filepath.Join(dir, "dst"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "outside")); len(left) != 1 {
				t.Errorf("outside are %v", left)
			}
			_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err != nil || strings.Contains(p, ".paddock-cp-") {
					t.Errorf("%s is left: %v", p, err)
				}
				if d != nil && d.Type()&^fs.ModeDir&^fs.ModeSymlink != 0 {
					t.Errorf("%s is %v", p, d.Type())
				}
				return nil
			})
		})
	}
}

// sparse returns a small archive with a file of any size, which has no content.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	records := ""
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=sparse", fmt.Sprintf("GNU.sparse.realsize=%d", size)} {
		records += fmt.Sprintf("%d %s\n", len(r)+4, r) // of two digits, a space and the end of the line
	}
	header := tarFile(t, "x", records)
	header[156] = tar.TypeXHeader
	copy(header[148:156], "        ")
	sum := 0
	for _, c := range header[:512] {
		sum += int(c)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return slices.Concat(header, tarFile(t, "sparse", "0\n"+strings.Repeat("\x00", 510)), make([]byte, 1024))
}

// tarFile returns a file in an archive, without its end.
func tarFile(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))})
	_, werr := io.WriteString(w, content)
	if err := errors.Join(err, werr, w.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What lands has no more permissions than the archive and the umask say, and no set-id bits.
func TestCopyModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	h := hostile{headers: []tar.Header{
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o6000},
		{Name: "d/suid", Typeflag: tar.TypeReg, Mode: 0o6777},
		{Name: "private", Typeflag: tar.TypeReg, Mode: 0o600},
		{Name: "locked", Typeflag: tar.TypeReg, Mode: 0o444},
	}}
	for range 2 { // also over itself
		if c, err := h.receive(t, dir); err != nil || c.entries != 4 {
			t.Fatal(c.entries, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"d": fs.ModeDir | 0o700, "d/suid": 0o750, "private": 0o600, "locked": 0o440} {
		if st, err := os.Lstat(filepath.Join(dir, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, st.Mode(), err, want)
		}
	}
}

// breaking ends in the middle of an archive.
type breaking struct {
	io.Reader
	cancel context.CancelCauseFunc
}

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.cancel(&op.InterruptedError{Name: "SIGINT", Number: 2})
		err = context.Canceled
	}
	return n, err
}

// An interrupted copy says what was copied, and leaves no half of a file.
func TestCopyInterrupted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := hostile{headers: []tar.Header{regular("new"), regular("old")}}.bytes(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &copying{env: &op.Env{Options: paddock.Options{StateDir: t.TempDir()}}, stream: &op.Stream{}, to: copyPlace{text: dir},
		from: copyPlace{text: "web:src", sandbox: "web", path: "src", content: true}}
	err := c.receive(wire.ExportResult{ArtifactType: wire.TypeDirectory, ArchiveSize: int64(len(archive))}, &breaking{bytes.NewReader(archive[:512*3+2]), cancel})
	if err = c.failed(ctx, err); err == nil || err.Error() != "interrupted by SIGINT: 1 entry was copied to "+dir {
		t.Error(err)
	}
	var names []string
	for _, e := range must(os.ReadDir(dir)) {
		names = append(names, e.Name())
	}
	if old, _ := os.ReadFile(filepath.Join(dir, "old")); !slices.Equal(names, []string{"new", "old"}) || string(old) != "old" {
		t.Errorf("%q, %q", names, old)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
