package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pages lists page by page and gives the paths of every page's entries.
// between is called before each page but the first.
func (b *bareAgent) pages(t *testing.T, path string, recursive bool, limit int, between func(last string)) (paths []string) {
	t.Helper()
	q := map[string]any{"action": "list_workspace", "path": path, "recursive": recursive, "limit": limit}
	for {
		r := b.ask(t, q)
		entries, ok := r["entries"].([]any)
		if !ok || limit > 0 && len(entries) > limit {
			t.Fatalf("a page of %d at most: %.300v", limit, r)
		}
		for _, e := range entries {
			paths = append(paths, e.(map[string]any)["path"].(string))
		}
		cursor, more := r["next_cursor"].(string)
		if r["truncated"] != more || more && len(entries) == 0 {
			t.Fatalf("truncated %v, cursor %q, %d entries", r["truncated"], cursor, len(entries))
		}
		if !more {
			return paths
		}
		q["cursor"] = cursor
		if between != nil {
			between(paths[len(paths)-1])
		}
	}
}

// A listing in pages of any size is the listing in one.
func TestListInPages(t *testing.T) {
	b := bare(t)
	want := []string{ // "a.b" is between "a" and "a/…" as a text, but not as a path
		"a", "a/1", "a/1/x", "a/2", "a.b", "a.b/z", "b", "c", "c/d", "c/d/e", "c/d/f", "g", "h", "i", "j", "k",
	}
	top := []string{"a", "a.b", "b", "c", "g", "h", "i", "j", "k"}
	for _, leaf := range []string{"a/1/x", "a/2", "a.b/z", "b", "c/d/e", "c/d/f", "g", "h", "i", "j", "k"} {
		put(t, "", b.workspace, leaf)
	}
	for limit := range len(want) + 2 {
		for recursive, want := range map[bool][]string{true: want, false: top} {
			got := b.pages(t, ".", recursive, limit, nil)
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], "/workspace/")
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d, recursive %v: got %q, want %q", limit, recursive, got, want)
			}
		}
	}
}

// The entry that a page ended with may go before the next page is asked for:
// everything else is listed all the same, and once.
func TestListGoesOnAfterWhatVanished(t *testing.T) {
	b := bare(t)
	var want []string
	for i := range 30 {
		dir := "/workspace/" + strconv.Itoa(100+i)
		put(t, "", b.workspace, strconv.Itoa(100+i), "file")
		want = append(want, dir, dir+"/file")
	}
	got := b.pages(t, ".", true, 3, func(last string) {
		_ = os.RemoveAll(filepath.Join(b.workspace, strings.TrimPrefix(last, "/workspace")))
	})
	// What was below a directory that is gone is gone with it.
	for i, path := range want {
		file := i%2 == 1
		listed := slices.Contains(got, path) || file && slices.Contains(got, want[i-1])
		if !listed {
			t.Errorf("%s is not listed", path)
		}
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("not in order, or twice: %q", got)
	}
}

// A listing fits into a line whatever its names are, and lacks nothing.
func TestListOfLongNamesFitsALine(t *testing.T) {
	b := bare(t)
	dir := b.workspace
	for range 12 { // all of it grows sixfold as JSON
		dir = filepath.Join(dir, strings.Repeat("\x01", 250))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const files = 2000
	names := map[string]bool{}
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for i := range files {
		if err := os.WriteFile("/proc/self/fd/"+strconv.Itoa(int(at.Fd()))+"/"+strconv.Itoa(i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		names[strconv.Itoa(i)] = true
	}
	for _, path := range b.pages(t, strings.TrimPrefix(dir, b.workspace+"/"), false, 0, nil) {
		delete(names, filepath.Base(path))
	}
	if len(names) > 0 {
		t.Errorf("%d of %d files are not listed", len(names), files)
	}
}

func TestListRefusesWhatIsNoCursor(t *testing.T) {
	b := bare(t)
	put(t, "x", filepath.Dir(b.workspace), "outside")
	for _, cursor := range []string{"%", "Li4vb3V0c2lkZQ==", "Lw==", "\n", strings.Repeat("QUFB", 100_000)} {
		r := b.ask(t, map[string]any{"action": "list_workspace", "recursive": true, "cursor": cursor})
		if entries, ok := r["entries"].([]any); r["error"] == nil && (!ok || len(entries) > 0) {
			t.Errorf("%.20q: %.200v", cursor, r)
		}
	}
}
