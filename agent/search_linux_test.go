package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// search asks for a search that must succeed.
func (b *bareAgent) search(t testing.TB, q wire.SearchRequest) wire.SearchResult {
	t.Helper()
	if q.TimeoutMS == 0 {
		q.TimeoutMS = wire.MaxSearchTimeoutMS
	}
	r, err := b.client.SearchFiles(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// grepped is a result in the words of grep -n: path:line:text, and path-line-text
// of lines around.
func grepped(r wire.SearchResult) (lines []string) {
	for _, f := range r.Files {
		path := strings.TrimPrefix(string(f.Path), "/workspace/")
		if len(f.Lines) == 0 {
			lines = append(lines, fmt.Sprintf("%s:%d", path, f.Count))
		}
		for _, l := range f.Lines {
			mark := ":"
			if l.Column == 0 {
				mark = "-"
			}
			lines = append(lines, fmt.Sprint(path, mark, l.Line, mark, l.Text))
		}
	}
	return lines
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d lines, want %d; from line %d:\n got %.300q\nwant %.300q", what, len(got), len(want), i+1, got[i:min(len(got), i+3)], want[i:min(len(want), i+3)])
}

func TestSearch(t *testing.T) {
	b := bare(t)
	put(t, "one\ntwo needle\nthree\nfour\nneedle five\nsix\nseven\neight", b.workspace, "src", "a.go")
	put(t, "a needle\r\nin dos\r\n", b.workspace, "src", "dos.txt")
	put(t, "Needles and needle", b.workspace, "b.txt")
	put(t, "needle\x00", b.workspace, "binary")
	put(t, "needle", b.workspace, ".hidden", "h")
	put(t, "needle", b.workspace, ".git", "config")
	put(t, "needle", b.workspace, "out", "ignored.log")
	put(t, "out/\n", b.workspace, ".gitignore")
	for _, tt := range []struct {
		name string
		q    wire.SearchRequest
		want []string
	}{
		{"plain", wire.SearchRequest{Pattern: "needle"}, []string{".hidden/h:1:needle", "b.txt:1:Needles and needle", "src/a.go:2:two needle", "src/a.go:5:needle five", "src/dos.txt:1:a needle"}},
		{"context", wire.SearchRequest{Pattern: "needle", Glob: []string{"a.go"}, Before: 1, After: 1},
			[]string{"src/a.go-1-one", "src/a.go:2:two needle", "src/a.go-3-three", "src/a.go-4-four", "src/a.go:5:needle five", "src/a.go-6-six"}},
		{"end of a line of DOS", wire.SearchRequest{Pattern: "(needle|dos)$", Glob: []string{"*.txt"}}, []string{"b.txt:1:Needles and needle", "src/dos.txt:1:a needle", "src/dos.txt:2:in dos"}},
		{"carriage return", wire.SearchRequest{Pattern: `dos\r`}, []string{"src/dos.txt:2:in dos"}},
		{"case", wire.SearchRequest{Pattern: "^NEEDLE", IgnoreCase: true}, []string{".hidden/h:1:needle", "b.txt:1:Needles and needle", "src/a.go:5:needle five"}},
		{"word", wire.SearchRequest{Pattern: "needles", Word: true, IgnoreCase: true}, []string{"b.txt:1:Needles and needle"}},
		{"no word", wire.SearchRequest{Pattern: "eedle", Word: true}, nil},
		{"fixed", wire.SearchRequest{Pattern: "n..dle", Fixed: true}, nil},
		{"exclude", wire.SearchRequest{Pattern: "needle", Exclude: []string{".*", "*.txt"}}, []string{"src/a.go:2:two needle", "src/a.go:5:needle five"}},
		{"below a path", wire.SearchRequest{Pattern: "needle", Path: "src", Glob: []string{"/*.go"}}, []string{"src/a.go:2:two needle", "src/a.go:5:needle five"}},
		{"globs from the workspace", wire.SearchRequest{Pattern: "five", Path: "src", Glob: []string{"src/*.go"}}, []string{"src/a.go:5:needle five"}},
		{"one file", wire.SearchRequest{Pattern: "needle", Path: "/workspace/out/ignored.log"}, []string{"out/ignored.log:1:needle"}},
		{"a directory that is ignored", wire.SearchRequest{Pattern: "needle", Path: "out"}, []string{"out/ignored.log:1:needle"}},
		{"no_ignore", wire.SearchRequest{Pattern: "needle", NoIgnore: true, Glob: []string{"*.log"}}, []string{"out/ignored.log:1:needle"}},
		{"files", wire.SearchRequest{Pattern: "needle", Output: wire.SearchPaths, Glob: []string{"src"}}, []string{"src/a.go:1", "src/dos.txt:1"}},
		{"count", wire.SearchRequest{Pattern: "needle", Output: wire.SearchCount, Glob: []string{"src"}}, []string{"src/a.go:2", "src/dos.txt:1"}},
		{"names", wire.SearchRequest{Glob: []string{"*.{go,txt}"}}, []string{"b.txt:0", "src/a.go:0", "src/dos.txt:0"}},
		{"per file", wire.SearchRequest{Pattern: ".", PerFile: 1, Glob: []string{"src"}}, []string{"src/a.go:1:one", "src/dos.txt:1:a needle"}},
	} {
		r := b.search(t, tt.q)
		same(t, tt.name, grepped(r), tt.want)
		if r.Truncated != "" {
			t.Errorf("%s: truncated by %s", tt.name, r.Truncated)
		}
	}
	r := b.search(t, wire.SearchRequest{Pattern: "needle"})
	if r.Matches != 5 || r.Searched != 5 || r.Binary != 1 || r.Ignored != 1 || r.Unreadable != 0 || r.Path != "/workspace" { // .gitignore was searched, too
		t.Errorf("%+v", r)
	}
	if r.Files[1].Lines[0].Column != 13 {
		t.Errorf("%+v", r.Files[1])
	}
}

func TestSearchRefuses(t *testing.T) {
	b := bare(t)
	put(t, "x", b.workspace, "dir", "file")
	for what, err := range map[string]error{"symlink": os.Symlink("dir", filepath.Join(b.workspace, "link")), "fifo": unix.Mkfifo(filepath.Join(b.workspace, "fifo"), 0o644)} {
		if err != nil {
			t.Fatal(what, err)
		}
	}
	each(t, b, []call{
		{request: `{"action":"search_files"}`, err: "pattern or glob is required"},
		{request: `{"action":"search_files","pattern":"("}`, err: "cannot use pattern: missing closing )"},
		{request: `{"action":"search_files","pattern":"ab(*c)"}`, err: "cannot use pattern: missing argument to repetition operator: *, at byte 4"},
		{request: `{"action":"search_files","pattern":"(?=a)"}`, err: "cannot use pattern: invalid or unsupported Perl syntax: (?=, at byte 1"},
		{request: `{"action":"search_files","pattern":"a\nb"}`, err: "cannot use pattern: it has a line feed, and lines are searched one by one"},
		{request: `{"action":"search_files","pattern":"((a{100}){100}){100}"}`, err: anyError},
		{request: `{"action":"search_files","pattern":"` + strings.Repeat("a", 1025) + `"}`, err: "cannot use pattern: it is longer than 1024 bytes"},
		{request: `{"action":"search_files","glob":["a","[a"]}`, err: "cannot use glob: glob 2: a [ is not closed"},
		{request: `{"action":"search_files","pattern":"a","exclude":[""]}`, err: "cannot use exclude: glob 1: it is empty"},
		{request: `{"action":"search_files","pattern":"a","output":"lines"}`, err: "output must be content, files or count"},
		{request: `{"action":"search_files","pattern":"a","before":51}`, err: "before must be 0 to 50"},
		{request: `{"action":"search_files","pattern":"a","limit":0}`, err: "limit must be 1 to 10000"},
		{request: `{"action":"search_files","pattern":"a","limit":10001}`, err: "limit must be 1 to 10000"},
		{request: `{"action":"search_files","pattern":"a","line_bytes":15}`, err: "line_bytes must be 16 to 65536"},
		{request: `{"action":"search_files","pattern":"a","max_bytes":1}`, err: "max_bytes must be 1024 to 8388608"},
		{request: `{"action":"search_files","pattern":"a","timeout_ms":-1}`, err: "timeout_ms must be 1 to 300000"},
		{request: `{"action":"search_files","pattern":"a","cursor":"%"}`, err: "cursor is not one of an answer"},
		{request: `{"action":"search_files","pattern":"a","cursor":"YQ=="}`, err: "cursor is not one of an answer"},
		{request: `{"action":"search_files","pattern":"a","path":".."}`, err: "destination must stay inside /workspace"},
		{request: `{"action":"search_files","pattern":"a","path":"none"}`, err: "workspace path does not exist: /workspace/none"},
		{request: `{"action":"search_files","pattern":"a","path":"link"}`, err: "workspace search does not follow links: /workspace/link"},
		{request: `{"action":"search_files","pattern":"a","path":"link/file"}`, err: "workspace path would traverse through a symlinked parent: /workspace/link/file"},
		{request: `{"action":"search_files","pattern":"a","path":"fifo"}`, err: "unsupported workspace path type: /workspace/fifo"},
	})
}

// Searches in pages of any size are the search in one, lines around them too.
func TestSearchInPages(t *testing.T) {
	b := bare(t)
	for _, path := range []string{"a", "a.b/x", "d/e/f", "d/e.f", "d.e", "z"} {
		put(t, strings.Repeat("hit\nno\nno\nhit\nhit\n", 3), b.workspace, path)
	}
	for _, output := range []string{wire.SearchContent, wire.SearchPaths, wire.SearchCount} {
		whole := grepped(b.search(t, wire.SearchRequest{Pattern: "hit", Output: output}))
		for _, bound := range []wire.SearchRequest{{Limit: 1}, {Limit: 2}, {Limit: 7}, {Limit: 54}, {Limit: 1000}, {MaxBytes: 1024}, {MaxBytes: 2048}} {
			q := bound
			q.Pattern, q.Output = "hit", output
			var got []string
			for {
				r := b.search(t, q)
				got = append(got, grepped(r)...)
				if len(got) > 2*len(whole) {
					t.Fatal("it does not end")
				}
				if r.Truncated == "" {
					break
				}
				q.Cursor = r.NextCursor
			}
			same(t, fmt.Sprintf("%s by %d and %d", output, bound.Limit, bound.MaxBytes), got, whole)
		}
	}
	r := b.search(t, wire.SearchRequest{Glob: []string{"*"}, Limit: 6})
	if r.Truncated != "" || len(r.Files) != 6 {
		t.Errorf("as many files as the limit: %+v", r)
	}
}

// What is found is what grep finds, in files made of pieces.
func TestSearchAsGrep(t *testing.T) {
	if _, err := exec.LookPath("grep"); err != nil {
		t.Skip("needs grep")
	}
	b := bare(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"foo", "bar", "Foo", "BAR", "foobar", " ", "\t", "_", "1", "22", "é", "x", "(", ")", ".", "func ", "return", "err"}
	for i := range 60 {
		var text strings.Builder
		for range rnd.IntN(400) {
			for range rnd.IntN(8) {
				text.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			text.WriteByte('\n')
		}
		if i%3 == 0 {
			text.WriteString("foobar without an end")
		}
		put(t, text.String(), b.workspace, fmt.Sprintf("d%d", i%4), fmt.Sprintf("f%02d", i))
	}
	for _, tt := range []struct {
		q    wire.SearchRequest
		args []string
	}{
		{wire.SearchRequest{Pattern: "foobar"}, []string{"-e", "foobar"}},
		{wire.SearchRequest{Pattern: "foo|22"}, []string{"-E", "foo|22"}},
		{wire.SearchRequest{Pattern: "^(foo|bar)+$"}, []string{"-E", "^(foo|bar)+$"}},
		{wire.SearchRequest{Pattern: "[0-9]+[a-z_]{2,}"}, []string{"-E", "[0-9]+[a-z_]{2,}"}},
		{wire.SearchRequest{Pattern: "foobar", IgnoreCase: true}, []string{"-i", "-e", "foobar"}},
		{wire.SearchRequest{Pattern: "foo", Word: true}, []string{"-w", "-e", "foo"}},
		{wire.SearchRequest{Pattern: "foo(.", Fixed: true}, []string{"-F", "-e", "foo(."}},
		{wire.SearchRequest{Pattern: "é.x"}, []string{"-e", "é.x"}},
		{wire.SearchRequest{Pattern: "func .*return.*err"}, []string{"-e", "func .*return.*err"}},
		{wire.SearchRequest{Pattern: "^$"}, []string{"-e", "^$"}},
		{wire.SearchRequest{Pattern: `\bfoo_1\b`}, []string{"-P", `\bfoo_1\b`}},
		{wire.SearchRequest{Pattern: "foobarfoo", Before: 2, After: 3}, []string{"-B2", "-A3", "-e", "foobarfoo"}},
		{wire.SearchRequest{Pattern: "22_", Before: 50, After: 0}, []string{"-B50", "-e", "22_"}},
		{wire.SearchRequest{Pattern: "foobarfoo", Output: wire.SearchCount}, []string{"-c", "-e", "foobarfoo"}},
	} {
		cmd := exec.Command("grep", append([]string{"-rn", "--no-group-separator"}, append(tt.args, "d0", "d1", "d2", "d3")...)...)
		cmd.Dir, cmd.Env = b.workspace, append(os.Environ(), "LC_ALL=C.UTF-8")
		if tt.q.Word { // of words beyond ASCII the two think differently
			cmd.Env = append(cmd.Env, "LC_ALL=C")
		}
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasSuffix(line, ":0") || tt.q.Output != wire.SearchCount {
				want = append(want, line)
			}
		}
		slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:6], b[:6]) }) // d0/f00
		q := tt.q
		q.Limit, q.LineBytes, q.MaxBytes = wire.MaxSearchMatches, 4096, wire.MaxSearchBytes
		same(t, fmt.Sprint(tt.args), grepped(b.search(t, q)), want)
	}
}

// Which files are meant is what git says of them, with rules in directories of
// any depth.
func TestSearchIgnoresAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	rules := []string{"a", "/a", "a/", "*.c", "!*.c", "d/*", "!d/a", "d/", "*\n!*/\n!b", "**/d/a", "/d/**", "e/**/a", "!e/", "b\n!/b", "[ab].c"}
	names := []string{"a", "b", "a.c", "b.c", "d", "e"}
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(5, seed))
		b := bare(t)
		var fill func(dir string, depth int)
		fill = func(dir string, depth int) {
			for _, name := range names {
				if at := filepath.Join(dir, name); depth < 3 && rnd.IntN(3) == 0 {
					fill(at, depth+1)
				} else {
					put(t, "x", at)
				}
			}
			if rnd.IntN(2) == 0 {
				put(t, rules[rnd.IntN(len(rules))]+"\n"+rules[rnd.IntN(len(rules))]+"\n", dir, ".gitignore")
			}
		}
		fill(b.workspace, 0)
		run := func(args ...string) string {
			cmd := exec.Command("git", append([]string{"-c", "core.excludesFile="}, args...)...)
			cmd.Dir, cmd.Env = b.workspace, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		run("init", "-q")
		put(t, rules[rnd.IntN(len(rules))], b.workspace, ".git", "info", "exclude")
		want := strings.FieldsFunc(run("ls-files", "-o", "-z", "--exclude-standard"), func(r rune) bool { return r == 0 })
		var got []string
		for _, f := range b.search(t, wire.SearchRequest{Glob: []string{"*"}}).Files {
			got = append(got, strings.TrimPrefix(string(f.Path), "/workspace/"))
		}
		slices.Sort(want)
		slices.Sort(got)
		same(t, fmt.Sprint("seed ", seed), got, want)
	}
}

// A repository within another has its own rules alone.
func TestSearchInNestedRepositories(t *testing.T) {
	b := bare(t)
	put(t, "*.log\n", b.workspace, ".gitignore")
	put(t, "", b.workspace, "sub", "a.log")
	put(t, "", b.workspace, "repo", "a.log")
	put(t, "", b.workspace, "repo", ".git", "HEAD")
	put(t, "", b.workspace, "tree", "a.log")
	put(t, "gitdir: elsewhere", b.workspace, "tree", ".git")
	same(t, "nested", grepped(b.search(t, wire.SearchRequest{Glob: []string{"*.log", "HEAD", ".git"}})), []string{"repo/a.log:0", "tree/a.log:0"})
}

// Lines that are longer than any buffer are searched to their end, and cut where
// they are told.
func TestSearchLongLines(t *testing.T) {
	b := bare(t)
	long := strings.Repeat("é", 5<<20)
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
	put(t, strings.Repeat("x", 1<<20)+"\x00needle", b.workspace, "f")
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
