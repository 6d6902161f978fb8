package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// Lines of up to 1 MiB are searched, and cut where they are shown; longer ones are
// counted, and what is around them is found.
func TestSearchLongLines(t *testing.T) {
	b := bare(t)
	long := strings.Repeat("é", 250<<10)
	longer := strings.Repeat("é", 5<<20) + "needle=1" + strings.Repeat("é", 5<<20)
	put(t, "first\n"+long+"needle=7"+long+"\r\nafter\n"+long+"\nlast needle=8\n"+strings.Repeat("x", 300<<10)+"needle=9", b.workspace, "f")
	for _, pattern := range []string{"needle=[0-9]", "NEEDLE=[0-9]", "needle", "é.needle=7é{3}|=[89]$"} {
		q := wire.SearchRequest{Pattern: pattern, IgnoreCase: true, Before: 1, After: 1, LineBytes: 100}
		r := b.search(t, q)
		if len(r.Files) != 1 || r.Matches != 3 || r.Searched != 1 {
			t.Fatalf("%s: %.300v", pattern, r)
		}
		for _, l := range r.Files[0].Lines {
			if l.Column > 0 && !strings.Contains(l.Text, "needle=") || len(l.Text) > 100 || l.Line == 0 || strings.ContainsRune(l.Text, '\uFFFD') {
				t.Errorf("%s: %+v", pattern, l)
			}
		}
		first, last := r.Files[0].Lines[0], r.Files[0].Lines[len(r.Files[0].Lines)-1]
		if last.Line != 6 || last.Column == 0 || last.Start+int64(len(last.Text)) != 300<<10+8 || last.Rest != 0 || first.Line > 2 {
			t.Errorf("%s: %+v ... %+v", pattern, first, last)
		}
	}
	put(t, "needle=1\n"+longer+"\r\nneedle=3\n"+longer+"\n"+strings.Repeat("x", 1<<20-6)+"needle\n"+strings.Repeat("x", 1<<20-5)+"needle", b.workspace, "f")
	r := b.search(t, wire.SearchRequest{Pattern: "needle", LineBytes: 100})
	if len(r.Files) != 1 || r.Matches != 3 || r.Searched != 1 || r.TooLong != 3 || r.Files[0].Lines[1].Line != 3 || r.Files[0].Lines[2].Line != 5 {
		t.Errorf("lines that are too long: %.300v", r)
	}
	put(t, strings.Repeat("x", 3<<20)+"\x00needle", b.workspace, "f")
	if r := b.search(t, wire.SearchRequest{Pattern: "needle"}); len(r.Files) > 0 || r.Binary != 1 {
		t.Errorf("a NUL byte in a long line: %+v", r)
	}
	put(t, strings.Repeat("needle\n", 10<<10)+"\x00needle\nneedle", b.workspace, "f")
	if r := b.search(t, wire.SearchRequest{Pattern: "needle", Output: wire.SearchCount}); r.Matches != 10<<10 || r.Binary != 1 {
		t.Errorf("a NUL byte behind much text: %+v", r)
	}
}

// Nothing that is in a tree can hold a search up, or lead it out.
func TestSearchHostileTree(t *testing.T) {
	b := bare(t)
	outside := t.TempDir()
	put(t, "needle outside", outside, "secret")
	for i := range 3 {
		put(t, "needle", b.workspace, fmt.Sprintf("bytes \xff\n%d", i))
	}
	if err := errors.Join(
		unix.Mkfifo(filepath.Join(b.workspace, "fifo"), 0o644),
		os.Symlink(outside, filepath.Join(b.workspace, "out")),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(b.workspace, "out-file")),
		os.Symlink(".", filepath.Join(b.workspace, "loop")),
		os.Symlink("fifo", filepath.Join(b.workspace, ".gitignore")),
	); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(b.workspace, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sparse, err := os.Create(filepath.Join(b.workspace, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(1<<30), sparse.Close()); err != nil {
		t.Fatal(err)
	}
	deep, err := unix.Open(b.workspace, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		if err := unix.Mkdirat(deep, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(deep, "d", unix.O_DIRECTORY, 0)
		_ = unix.Close(deep)
		if deep = next; err != nil {
			t.Fatal(err)
		}
	}
	_ = unix.Close(deep)
	r := b.search(t, wire.SearchRequest{Pattern: "needle"})
	same(t, "hostile", grepped(r), []string{"bytes \xff\n0:1:needle", "bytes \xff\n1:1:needle", "bytes \xff\n2:1:needle"})
	if r.Binary != 1 || r.Unreadable != 1 || r.Searched != 3 {
		t.Errorf("%+v", r)
	}
	_ = unix.Unlink(filepath.Join(b.workspace, ".gitignore"))
	if err := unix.Mkfifo(filepath.Join(b.workspace, ".gitignore"), 0o644); err != nil {
		t.Fatal(err)
	}
	same(t, "a FIFO with rules", grepped(b.search(t, wire.SearchRequest{Glob: []string{"bytes*"}, Limit: 2})), []string{"bytes \xff\n0:0", "bytes \xff\n1:0"})
}

// A directory of very many entries is searched in order, page by page.
func TestSearchManyEntries(t *testing.T) {
	b := bare(t)
	const many = 100_000 // more than are held at a time
	dir := filepath.Join(b.workspace, "many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if err := unix.Mknod(fmt.Sprintf("%s/%06d", dir, i), unix.S_IFREG|0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	put(t, "needle", dir, "099998")
	put(t, "needle", dir, "000001")
	r := b.search(t, wire.SearchRequest{Pattern: "needle"})
	same(t, "many", grepped(r), []string{"many/000001:1:needle", "many/099998:1:needle"})
	if r.Searched != many || r.Truncated != "" {
		t.Errorf("%+v", r)
	}
	n, cursor := 0, ""
	for {
		r := b.search(t, wire.SearchRequest{Glob: []string{"*"}, Limit: wire.MaxSearchMatches, Cursor: cursor, MaxBytes: wire.MaxSearchBytes})
		for _, f := range r.Files {
			if want := fmt.Sprintf("/workspace/many/%06d", n); string(f.Path) != want {
				t.Fatalf("%s, want %s", f.Path, want)
			}
			n++
		}
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	if n != many {
		t.Errorf("%d files", n)
	}
}

// A search ends with its time, and says where it goes on; and with its client.
func TestSearchEnds(t *testing.T) {
	b := bare(t)
	line := strings.Repeat("a", 200<<10) + "\n"
	for i := range 100 {
		put(t, strings.Repeat(line, 20), b.workspace, fmt.Sprintf("%02d", i))
	}
	q := wire.SearchRequest{Pattern: `(a?){200}(a+a+)+[bc]$`, TimeoutMS: 50}
	r := b.search(t, q)
	if r.Truncated != "time" || r.NextCursor == "" || r.Searched == 100 {
		t.Fatalf("%+v", r)
	}
	q.Cursor = r.NextCursor
	if again := b.search(t, q); again.Truncated != "time" || again.NextCursor == r.NextCursor {
		t.Errorf("it does not go on: %+v", again)
	}
	q.TimeoutMS = wire.MaxSearchTimeoutMS
	for range 4 { // more than may run at a time
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := b.client.SearchFiles(ctx, q)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	put(t, "needle", b.workspace, "00")
	r = b.search(t, wire.SearchRequest{Pattern: "needle", Path: "00"})
	same(t, "afterwards", grepped(r), []string{"00:1:needle"})
}

// What others do to a tree meanwhile disturbs nothing.
func TestSearchWhileChanging(t *testing.T) {
	b := bare(t)
	put(t, "needle", b.workspace, "keep")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			at := filepath.Join(b.workspace, "x", "y")
			_ = os.MkdirAll(at, 0o755)
			_ = os.WriteFile(filepath.Join(at, "f"), bytes.Repeat([]byte("needles\n"), i%5000), 0o644)
			_ = os.Truncate(filepath.Join(at, "f"), 100)
			_ = os.RemoveAll(filepath.Join(b.workspace, "x"))
			_ = unix.Mkfifo(filepath.Join(b.workspace, "x"), 0o644)
			_ = os.Remove(filepath.Join(b.workspace, "x"))
		}
	}()
	for range 200 {
		r := b.search(t, wire.SearchRequest{Pattern: "needle$"})
		same(t, "while changing", grepped(r), []string{"keep:1:needle"})
	}
	close(stop)
	<-stopped
}

// Memory does not grow with what is searched.
func TestSearchAnswersAreBounded(t *testing.T) {
	b := bare(t)
	put(t, strings.Repeat(strings.Repeat("\x01", 400)+"\n", 100_000), b.workspace, "f")
	q := wire.SearchRequest{Pattern: ".", MaxBytes: 20_000, Limit: wire.MaxSearchMatches}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	answer := b.raw(t, append(bytes.Replace(text, []byte(`"action":""`), []byte(`"action":"search_files"`), 1), '\n'))
	if len(answer) > 40_000 || !bytes.Contains(answer, []byte(`"truncated":"size"`)) {
		t.Errorf("%d bytes: %.200s", len(answer), answer)
	}
}
