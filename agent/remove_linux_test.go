package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deepen makes a chain of directories, in each of which fill is called with
// its handle and its depth.
func deepen(t *testing.T, top string, levels int, fill func(fd, depth int) error) {
	t.Helper()
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for depth := 1; depth <= levels && err == nil; depth++ {
		next := -1
		if err = unix.Mkdirat(fd, "d", 0o755); err == nil {
			next, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		if err == nil {
			err = fill(next, depth)
		}
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
}

// However deep a tree is that a command has made, it can be deleted, with
// nothing outside of it.
func TestDeleteVeryDeepTree(t *testing.T) {
	t.Parallel()
	b := bare(t)
	out := outside(t, b)
	const levels = 2000
	want := 1.0
	deepen(t, filepath.Join(b.workspace, "deep"), levels, func(fd, depth int) error {
		want++
		if depth%100 != 0 {
			return nil
		}
		want += 2
		if err := unix.Symlinkat(out, fd, "link"); err != nil {
			return err
		}
		return unix.Mkdirat(fd, "more", 0o755)
	})
	put(t, "x", b.workspace, "beside")
	for _, request := range []string{`{"action":"list_workspace","recursive":true}`, `{"action":"export_archive"}`} {
		answer := answerOf(t, b.exchange(t, []byte(request+"\n")))
		if text, _ := answer["error"].(string); answer["code"] != "failed" || !strings.Contains(text, "deep in it is deeper than 512 levels") {
			t.Errorf("%s: %v", request, answer)
		}
	}
	unchanged(t, out, func() {
		answer := b.ask(t, map[string]any{"action": "delete_workspace_path", "path": "deep", "recursive": true})
		if answer["deleted"] != true || answer["entries"] != want {
			t.Errorf("got %v, want %v entries", answer, want)
		}
	})
	each(t, b, []call{{request: `{"action":"list_workspace","recursive":true}`, want: `{"entries":[{"path":"/workspace/beside"}]}`}})
}
