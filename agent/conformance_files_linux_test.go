package agent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// special makes a FIFO and a socket.
func special(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
}

// Contract 001.5: list_workspace.
func TestConformList(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "abc", b.workspace, "tree", "a", "file")
	put(t, "", b.workspace, "tree", "a.b")
	put(t, "", b.workspace, "tree", ".hidden")
	put(t, "", b.workspace, "tree", "Z")
	link(t, "a/file", b.workspace, "tree", "link")
	link(t, "a", b.workspace, "tree", "link-to-dir")
	link(t, "/nonesuch/é", b.workspace, "tree", "dangling")
	special(t, filepath.Join(b.workspace, "special"))
	if err := os.Mkdir(filepath.Join(b.workspace, "none"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "é", "\uffff", "\U0001f600", "a b", "a-b", "a/x", "A"} {
		put(t, "", b.workspace, "order", name+".")
	}
	entry := func(path, kind, size, target string) string {
		return `{"path":"/workspace/tree/` + path + `","artifact_type":"` + kind + `","size_bytes":` + size + `,"link_target":` + target + `}`
	}
	file := entry("a/file", "file", "3", "null")
	flat := []string{entry(".hidden", "file", "0", "null"), entry("Z", "file", "0", "null"), entry("a", "directory", "0", "null"),
		entry("a.b", "file", "0", "null"), entry("dangling", "symlink", "12", `"/nonesuch/é"`), entry("link", "symlink", "6", `"a/file"`),
		entry("link-to-dir", "symlink", "1", `"a"`)}
	deep := slices.Insert(slices.Clone(flat), 3, file)
	listing := func(entries []string) string {
		return `{"path":"/workspace/tree","artifact_type":"directory","entries":[` + strings.Join(entries, ",") + `]}`
	}
	calls(t, b, []call{
		{name: "directory", request: `{"action":"list_workspace","path":"tree"}`, want: listing(flat)},
		{name: "recursive", request: `{"action":"list_workspace","path":"tree","recursive":true}`, want: listing(deep)},
		{name: "file", request: `{"action":"list_workspace","path":"tree/a/file","recursive":true}`,
			want: `{"path":"/workspace/tree/a/file","artifact_type":"file","entries":[` + file + `]}`},
		{name: "link", request: `{"action":"list_workspace","path":"tree/link-to-dir","recursive":true}`,
			want: `{"path":"/workspace/tree/link-to-dir","artifact_type":"symlink","entries":[` + flat[6] + `]}`},
		{name: "empty", request: `{"action":"list_workspace","path":"none"}`, want: `{"path":"/workspace/none","artifact_type":"directory","entries":[]}`},
		{name: "missing", request: `{"action":"list_workspace","path":"nonesuch/"}`, err: "workspace path does not exist: /workspace/nonesuch"},
		{name: "missing_below_file", request: `{"action":"list_workspace","path":"tree/Z/x"}`, err: anyError},
		{name: "fifo", request: `{"action":"list_workspace","path":"special/fifo"}`, err: "unsupported workspace path type: /workspace/special/fifo"},
		{name: "socket", request: `{"action":"list_workspace","path":"special/socket"}`, err: "unsupported workspace path type: /workspace/special/socket"},
		{name: "order", request: `{"action":"list_workspace","path":"order"}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
			var got []string
			entries, _ := answer["entries"].([]any)
			for _, e := range entries {
				got = append(got, strings.TrimPrefix(e.(map[string]any)["path"].(string), "/workspace/order/"))
			}
			want := []string{"A.", "a", "a b.", "a-b.", "a.", "é.", "\uffff.", "\U0001f600."}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}},
	})
	t.Run("names_of_any_bytes", func(t *testing.T) {
		conform(t)
		names := []string{"\xff\xfe", "a\nb", "caf\xe9", "\"\\", "\x01\x7f", "a\u2028b"}
		for i, name := range names {
			put(t, string(rune('0'+i)), b.workspace, "bytes", name)
		}
		type listed struct {
			Entries []struct{ Path json.RawMessage }
		}
		var got listed
		line := b.exchange(t, []byte(`{"action":"list_workspace","path":"bytes"}`+"\n"))
		if err := json.Unmarshal(line, &got); err != nil || len(got.Entries) != len(names) {
			t.Fatalf("got %s, %v", line, err)
		}
		var read []string // each path, as it was told, leads to its file
		for _, e := range got.Entries {
			answer := answerOf(t, b.exchange(t, []byte(`{"action":"read_workspace_file","path":`+string(e.Path)+"}\n")))
			content, _ := answer["content_b64"].(string)
			text, _ := base64.StdEncoding.DecodeString(content)
			if read = append(read, string(text)); answer["error"] != nil {
				t.Errorf("%s: %v", e.Path, answer["error"])
			}
		}
		if slices.Sort(read); strings.Join(read, "") != "012345" {
			t.Errorf("got %q", read)
		}
	})
}

// Contract 001.6: read_workspace_file.
func TestConformRead(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "abc", b.workspace, "abc")
	put(t, "", b.workspace, "empty")
	put(t, "\x00\xff\r\n", b.workspace, "bytes")
	put(t, strings.Repeat("x", 1<<20), b.workspace, "large")
	put(t, strings.Repeat("x", 1<<20+1), b.workspace, "larger")
	link(t, "abc", b.workspace, "link")
	special(t, filepath.Join(b.workspace, "special"))
	read := func(path, more string) string {
		return `{"action":"read_workspace_file","path":"` + path + `"` + more + `}`
	}
	const regular = "workspace file read only supports regular files"
	calls(t, b, []call{
		{name: "text", request: read("abc", ""), want: `{"path":"/workspace/abc","size_bytes":3,"content_b64":"YWJj"}`},
		{name: "empty", request: read("empty", ""), want: `{"size_bytes":0,"content_b64":""}`},
		{name: "bytes", request: read("bytes", ""), want: `{"size_bytes":4,"content_b64":"AP8NCg=="}`},
		{name: "at_default_bound", request: read("large", ""), want: `{"size_bytes":1048576}`},
		{name: "over_default_bound", request: read("larger", ""), err: "workspace file exceeds the maximum supported size of 1048576 bytes"},
		{name: "at_bound", request: read("abc", `,"max_bytes":3`), want: `{"size_bytes":3}`},
		{name: "over_bound", request: read("abc", `,"max_bytes":2`), err: "workspace file exceeds the maximum supported size of 2 bytes"},
		{name: "zero_bound", request: read("abc", `,"max_bytes":0`), err: "max_bytes must be positive"},
		{name: "negative_bound", request: read("abc", `,"max_bytes":-1`), err: "max_bytes must be positive"},
		{name: "bound_too_large", request: read("abc", `,"max_bytes":1048577`), err: "max_bytes must be at most 1048576 bytes"},
		{name: "bound_before_path", request: read("../x", `,"max_bytes":0`), err: "max_bytes must be positive"},
		{name: "bound_before_existence", request: read("nonesuch", `,"max_bytes":9999999`), err: "max_bytes must be at most 1048576 bytes"},
		{name: "missing", request: read("nonesuch", ""), err: "workspace path does not exist: /workspace/nonesuch"},
		{name: "directory", request: read("special", ""), err: regular},
		{name: "link", request: read("link", ""), err: regular},
		{name: "fifo", request: read("special/fifo", ""), err: "unsupported workspace path type: /workspace/special/fifo"},
		{name: "socket", request: read("special/socket", ""), err: "unsupported workspace path type: /workspace/special/socket"},
	})
}

// Contract 001.7: write_workspace_file.
func TestConformWrite(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "old", b.workspace, "old")
	if err := os.Link(filepath.Join(b.workspace, "old"), filepath.Join(b.workspace, "sibling")); err != nil {
		t.Fatal(err)
	}
	link(t, "old", b.workspace, "link")
	link(t, "nonesuch", b.workspace, "dangling")
	link(t, "dir", b.workspace, "link-to-dir")
	special(t, filepath.Join(b.workspace, "dir"))
	write := func(path, text string) string {
		return `{"action":"write_workspace_file","path":` + quoted(path) + `,"text":` + quoted(text) + `}`
	}
	disk := func(text string, path ...string) func(*testing.T, *bareAgent, map[string]any) {
		return func(t *testing.T, b *bareAgent, _ map[string]any) {
			holds(t, text, append([]string{b.workspace}, path...)...)
		}
	}
	large := strings.Repeat("é", 1<<19)
	const regular, tooLarge = "workspace file write only supports regular file targets", "text must be at most 1048576 bytes when encoded as UTF-8"
	calls(t, b, []call{
		{name: "new", request: write("new", "a\r\nb\né"), want: `{"path":"/workspace/new","size_bytes":7,"bytes_written":7}`, check: disk("a\r\nb\né", "new")},
		{name: "parents", request: write("p/q/r", "x"), want: `{"path":"/workspace/p/q/r"}`, check: disk("x", "p", "q", "r")},
		{name: "replaces", request: write("old", "new"), want: `{"size_bytes":3}`, check: disk("new", "old")},
		{name: "hard_linked_sibling", request: write("old", "newer"), want: `{"size_bytes":5}`, check: disk("old", "sibling")},
		{name: "no_text", request: `{"action":"write_workspace_file","path":"void"}`, want: `{"size_bytes":0,"bytes_written":0}`, check: disk("", "void")},
		{name: "at_bound", request: write("large", large), want: `{"bytes_written":1048576}`, check: disk(large, "large")},
		{name: "over_bound", request: write("large2", large+"x"), err: tooLarge},
		{name: "bound_before_path", request: write("../x", large+"x"), err: tooLarge},
		{name: "directory", request: write("dir", "x"), err: regular},
		{name: "root", request: write("/workspace", "x"), err: regular},
		{name: "link", request: write("link", "x"), err: regular, check: disk("newer", "old")},
		{name: "dangling_link", request: write("dangling", "x"), err: regular, check: func(t *testing.T, b *bareAgent, _ map[string]any) {
			absent(t, b.workspace, "nonesuch")
		}},
		{name: "fifo", request: write("dir/fifo", "x"), err: "unsupported workspace path type: /workspace/dir/fifo"},
		{name: "symlinked_parent", request: write("link-to-dir/x", "x"),
			err: "workspace path would traverse through a symlinked parent: /workspace/link-to-dir/x", check: func(t *testing.T, b *bareAgent, _ map[string]any) {
				absent(t, b.workspace, "dir", "x")
			}},
		{name: "dangling_parent", request: write("./dangling/x", "x"), err: "workspace path would traverse through a symlinked parent: /workspace/dangling/x"},
		{name: "parent_is_a_file", request: write("old/x", "x"), err: anyError},
		{name: "no_temporary_files", request: `{"action":"list_workspace"}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
			contains(t, answer, `{"entries":[{"path":"/workspace/dangling"},{"path":"/workspace/dir"},{"path":"/workspace/large"},{"path":"/workspace/link"},
				{"path":"/workspace/link-to-dir"},{"path":"/workspace/new"},{"path":"/workspace/old"},{"path":"/workspace/p"},
				{"path":"/workspace/sibling"},{"path":"/workspace/void"}]}`)
		}},
	})
}

// Contract 001.8: delete_workspace_path.
func TestConformDelete(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "x", b.workspace, "file")
	put(t, "x", b.workspace, "target")
	link(t, "target", b.workspace, "link")
	link(t, "dir", b.workspace, "link-to-dir")
	link(t, "nonesuch", b.workspace, "dangling")
	put(t, "x", b.workspace, "dir", "x")
	remove := func(path string) string { return `{"action":"delete_workspace_path","path":` + quoted(path) + `}` }
	gone := func(name string) func(*testing.T, *bareAgent, map[string]any) {
		return func(t *testing.T, b *bareAgent, _ map[string]any) { absent(t, b.workspace, name) }
	}
	calls(t, b, []call{
		{name: "file", request: remove("./file"), want: `{"path":"/workspace/file","deleted":true}`, check: gone("file")},
		{name: "link", request: remove("link"), want: `{"path":"/workspace/link","deleted":true}`, check: func(t *testing.T, b *bareAgent, _ map[string]any) {
			absent(t, b.workspace, "link")
			holds(t, "x", b.workspace, "target")
		}},
		{name: "link_to_directory", request: remove("link-to-dir"), want: `{"deleted":true}`, check: func(t *testing.T, b *bareAgent, _ map[string]any) {
			absent(t, b.workspace, "link-to-dir")
			holds(t, "x", b.workspace, "dir", "x")
		}},
		{name: "dangling_link", request: remove("dangling"), want: `{"deleted":true}`, check: gone("dangling")},
		{name: "missing", request: remove("nonesuch"), err: "workspace path does not exist: /workspace/nonesuch"},
		{name: "directory", request: remove("dir"), err: "workspace file delete does not support directories", check: func(t *testing.T, b *bareAgent, _ map[string]any) {
			holds(t, "x", b.workspace, "dir", "x")
		}},
		{name: "root", request: remove("/workspace"), err: "workspace file delete does not support directories"},
	})
}

// Contract 001.9: an export that fails is one line and no bytes.
func TestConformExportErrors(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	special(t, filepath.Join(b.workspace, "dir"))
	for name, row := range map[string][2]string{
		"missing": {"nonesuch", "workspace path does not exist: /workspace/nonesuch"},
		"fifo":    {"dir/fifo", "unsupported workspace path type: /workspace/dir/fifo"},
		"socket":  {"dir/socket", "unsupported workspace path type: /workspace/dir/socket"},
		"outside": {"/etc", "destination must stay inside /workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			got := b.exchange(t, []byte(`{"action":"export_archive","path":"`+row[0]+"\"}\n"))
			if answer := answerOf(t, got); answer["error"] != row[1] || bytes.Count(got, []byte("\n")) != 1 {
				t.Errorf("got %q, want %s", got, row[1])
			}
		})
	}
}
