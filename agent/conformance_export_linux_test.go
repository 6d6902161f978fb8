package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// exported is one member of an exported archive.
type exported struct {
	tar.Header
	body string
}

// membersOf reads a plain archive.
func membersOf(t *testing.T, body []byte) (found []exported) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("the archive cannot be read: %v", err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, exported{*h, string(text)})
	}
}

func namesOf(members []exported) (names []string) {
	for _, m := range members {
		names = append(names, strings.TrimSuffix(m.Name, "/"))
	}
	return names
}

// Contract 001.9: export_archive.
func TestConformExport(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	stamp := time.Unix(1_700_000_000, 0)
	put(t, "abc", b.workspace, "tree", "b", "file")
	put(t, "", b.workspace, "tree", "b", "another")
	put(t, "#!/bin/sh\n", b.workspace, "tree", "a.sh")
	put(t, "x", b.workspace, "tree", ".hidden")
	put(t, "x", b.workspace, "tree", "é")
	put(t, "long", b.workspace, "tree", strings.Repeat("n", 200), strings.Repeat("m", 200))
	link(t, "b/file", b.workspace, "tree", "link")
	link(t, "b", b.workspace, "tree", "link-to-dir")
	link(t, "/nonesuch", b.workspace, "tree", "dangling")
	for _, err := range []error{
		os.Chmod(filepath.Join(b.workspace, "tree", "a.sh"), 0o750),
		os.Chtimes(filepath.Join(b.workspace, "tree", "a.sh"), stamp, stamp),
		os.Mkdir(filepath.Join(b.workspace, "void"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	header, body := b.export(t, "./tree/")
	members := membersOf(t, body)
	t.Run("header", func(t *testing.T) {
		conform(t)
		contains(t, header, `{"workspace_path":"/workspace/tree","artifact_type":"directory","entry_count":11,"bytes_written":19}`)
		types(t, header, map[string]string{"archive_size": "int", "entry_count": "int", "bytes_written": "int"})
	})
	t.Run("exact_size", func(t *testing.T) {
		conform(t)
		if header["archive_size"] != float64(len(body)) || len(body)%512 != 0 {
			t.Errorf("%d bytes follow %v", len(body), header)
		}
	})
	t.Run("children_only_and_sorted", func(t *testing.T) {
		conform(t)
		n := strings.Repeat("n", 200)
		want := []string{".hidden", "a.sh", "b", "b/another", "b/file", "dangling", "link", "link-to-dir", n, n + "/" + strings.Repeat("m", 200), "é"}
		if got := namesOf(members); !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
	t.Run("kinds_and_contents", func(t *testing.T) {
		conform(t)
		want := map[string]exported{
			"b": {tar.Header{Typeflag: tar.TypeDir}, ""}, "b/file": {tar.Header{Typeflag: tar.TypeReg}, "abc"},
			"link":        {tar.Header{Typeflag: tar.TypeSymlink, Linkname: "b/file"}, ""},
			"link-to-dir": {tar.Header{Typeflag: tar.TypeSymlink, Linkname: "b"}, ""},
			"dangling":    {tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/nonesuch"}, ""},
		}
		for _, m := range members {
			w, ok := want[strings.TrimSuffix(m.Name, "/")]
			if ok && (m.Typeflag != w.Typeflag || m.Linkname != w.Linkname || m.body != w.body) {
				t.Errorf("%s: got %c %q %q", m.Name, m.Typeflag, m.Linkname, m.body)
			}
		}
	})
	t.Run("mode_time_and_owner", func(t *testing.T) {
		conform(t)
		i := slices.Index(namesOf(members), "a.sh")
		if i < 0 {
			t.Fatal("it is not there")
		}
		m := members[i]
		if m.Mode&0o7777 != 0o750 || m.ModTime.Unix() != stamp.Unix() || m.Uid != os.Getuid() || m.Gid != os.Getgid() {
			t.Errorf("got %+v", m.Header)
		}
	})
	for name, c := range map[string]struct{ path, want, member string }{
		"file":          {"tree/b/file", `{"artifact_type":"file","entry_count":1,"bytes_written":3}`, "file"},
		"link":          {"tree/link", `{"artifact_type":"symlink","entry_count":1,"bytes_written":0}`, "link"},
		"link_to_dir":   {"tree/link-to-dir", `{"artifact_type":"symlink","entry_count":1,"bytes_written":0}`, "link-to-dir"},
		"dangling_link": {"tree/dangling", `{"artifact_type":"symlink","entry_count":1,"bytes_written":0}`, "dangling"},
		"void":          {"void", `{"artifact_type":"directory","entry_count":0,"bytes_written":0}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			header, body := b.export(t, c.path)
			contains(t, header, c.want)
			if got := strings.Join(namesOf(membersOf(t, body)), " "); got != c.member {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("whole_workspace", func(t *testing.T) {
		conform(t)
		header, body := b.export(t, "/workspace")
		contains(t, header, `{"workspace_path":"/workspace","entry_count":13}`)
		if got := namesOf(membersOf(t, body)); len(got) == 0 || got[0] != "tree" || got[len(got)-1] != "void" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("comes_back", func(t *testing.T) {
		conform(t)
		put(t, "abc", b.workspace, "round", "d", "x")
		link(t, "d", b.workspace, "round", "l")
		_, body := b.export(t, "round")
		contains(t, b.extract(t, "again", body), `{"entry_count":3,"bytes_written":3}`)
		holds(t, "abc", b.workspace, "again", "l", "x")
	})
}
