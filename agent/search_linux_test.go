package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
