package hostpath

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(root+"/d/e", 0o700))
	must(os.WriteFile(root+"/d/e/file", []byte("text"), 0o600))
	must(os.Symlink("file", root+"/d/e/link"))
	must(os.Symlink("d", filepath.Join(root, "dirlink")))
	must(unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	must(os.WriteFile(filepath.Join(root, "sparse"), nil, 0o600))
	must(os.Truncate(filepath.Join(root, "sparse"), 10<<30))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if text, err := Read(ctx, root, "d/e/file", 4); err != nil || string(text) != "text" {
		t.Errorf("a file: %q, %v", text, err)
	}
	for _, c := range []struct {
		rel  string
		want error
	}{
		{"d/e/absent", fs.ErrNotExist},
		{"absent/file", fs.ErrNotExist},
		{"d/e/link", unix.ELOOP},
		{"dirlink/e/file", unix.ELOOP},
		{"d/e/file/x", unix.ENOTDIR},
		{"fifo", ErrNotRegular},
		{"d/e", ErrNotRegular},
		{"sparse", ErrTooLarge},
	} {
		if text, err := Read(ctx, root, c.rel, 1<<20); !errors.Is(err, c.want) || text != nil {
			t.Errorf("%s: %q, %v, want %v", c.rel, text, err, c.want)
		}
	}
	if _, err := Read(ctx, root, "d/e/file", 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the bound: %v", err)
	}
}
