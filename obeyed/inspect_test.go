//go:build linux

package obeyed

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// Whatever commands left in a directory, a look at it ends, follows nothing, and says what it has not
// seen. The control is a directory in which there is nothing to tell.
func TestInspect(t *testing.T) {
	dir := hostpath.Real(t.TempDir())
	host(t, dir, "mkdir below closed; echo text > below/text; ln -s ../below/text below/inside; ln -s below turn; mkfifo fifo")
	if in := Inspect(t.Context(), dir); len(in.Obeyed)+len(in.Links)+len(in.Programs)+len(in.Unseen) != 0 {
		t.Errorf("where there is nothing to tell: %+v", in)
	}
	odd := "odd\x1b[2K\nname"
	host(t, dir, `mkfifo .envrc; ln -s /dev/zero .npmrc; ln -s /etc/passwd leads; ln -s ../../.. below/up; ln -s /nonexistent below/dangling; ln -s round round
echo x > below/tool; chmod 100 below/tool; echo x > '`+odd+`'; chmod 755 '`+odd+`'; : > closed/tool; chmod 755 closed/tool; chmod 0 closed`)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "closed"), 0o700) })
	in := Inspect(t.Context(), dir)
	names := func(paths []string) string {
		var short []string
		for _, p := range paths {
			short = append(short, strings.TrimPrefix(p, dir+"/"))
		}
		return strings.Join(short, " ")
	}
	var obeyed []string
	for _, c := range in.Obeyed {
		obeyed = append(obeyed, c.Path)
	}
	slices.Sort(obeyed)
	if got := names(obeyed); got != ".envrc .npmrc" {
		t.Errorf("the host obeys %s", got)
	}
	if got := names(in.Links); got != ".npmrc below/dangling below/up leads" {
		t.Errorf("links: %s", got)
	}
	programs, unseen := "below/tool closed/tool "+odd, 0
	if os.Geteuid() != 0 {
		programs, unseen = "below/tool "+odd, 1
	}
	if got := names(in.Programs); got != programs {
		t.Errorf("programs: %s", got)
	}
	if told := slices.Contains(in.Unseen, "1 directory cannot be read"); told != (unseen == 1) {
		t.Errorf("not looked at: %q", in.Unseen)
	}

	if in := Inspect(t.Context(), filepath.Join(dir, "below", "tool")); len(in.Programs) != 1 || len(in.Unseen) != 0 {
		t.Errorf("a file: %+v", in)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if in := Inspect(ended, dir); !strings.Contains(strings.Join(in.Unseen, "\n"), "there is too much to search all of it") {
		t.Errorf("a look that was cancelled: %+v", in)
	}
}

// A look at more than it remembers says that there is more.
func TestInspectIsBounded(t *testing.T) {
	dir := hostpath.Real(t.TempDir())
	for i := range MaxInspected + 3 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if in := Inspect(t.Context(), dir); len(in.Programs) != MaxInspected || in.MorePrograms != 3 || len(in.Unseen) != 0 {
		t.Errorf("programs: %+v", in)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	const long, levels = 250, 15
	for range levels {
		name := strings.Repeat("d", long)
		if err == nil {
			err = unix.Mkdirat(top, name, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		below, oerr := unix.Openat(top, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		_ = unix.Close(top)
		top, err = below, oerr
	}
	defer func() { _ = unix.Close(top) }()
	for i := range inspectPaths/(long*levels) + 1 {
		if err := unix.Mkdirat(top, strconv.Itoa(i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if in := Inspect(t.Context(), dir); !strings.Contains(strings.Join(in.Unseen, "\n"), "there is too much to search all of it for links and programs: ") {
		t.Errorf("paths beyond the bound: %q", in.Unseen)
	}
}
