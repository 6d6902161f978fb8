package agent_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// member is one member of an archive that archive/tar would not write: its
// header says whatever a test wants.
type member struct {
	name string
	kind byte // '0' where it is 0
	link string
	body string
	mode int64
}

// oldKind is the kind that the oldest archives give to files, NUL.
const oldKind = 0xff

// file is a regular file, dir a directory, symlink a symbolic link.
func file(name, body string) member      { return member{name: name, body: body} }
func dir(name string) member             { return member{name: name, kind: '5', mode: 0o755} }
func symlink(name, target string) member { return member{name: name, kind: '2', link: target} }

// header is the member's block in the format of POSIX 1988.
func (m member) header(size int64) []byte {
	block := make([]byte, 512)
	mode, kind := m.mode, m.kind
	if mode == 0 {
		mode = 0o644
	}
	switch kind {
	case 0:
		kind = '0'
	case oldKind:
		kind = 0
	}
	copy(block[0:100], m.name)
	copy(block[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00        %c", mode, 0, 0, size, 1_700_000_000, kind))
	copy(block[157:257], m.link)
	copy(block[257:], "ustar\x0000")
	sum := 0
	for _, c := range block {
		sum += int(c)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return block
}

// archive is a plain archive of members.
func archive(members ...member) []byte {
	var out bytes.Buffer
	for _, m := range members {
		out.Write(m.header(int64(len(m.body))))
		out.WriteString(m.body)
		out.Write(make([]byte, -len(m.body)&511))
	}
	out.Write(make([]byte, 1024))
	return out.Bytes()
}

// extraction is a request that body follows.
func extraction(destination string, body []byte) string {
	return fmt.Sprintf(`{"action":"extract_archive","archive_size":%d,"destination":%s}`, len(body), quoted(destination))
}

// extract unpacks members, which must succeed.
func (b *bareAgent) extract(t *testing.T, destination string, body []byte) map[string]any {
	t.Helper()
	answer := answerOf(t, b.exchange(t, append([]byte(extraction(destination, body)+"\n"), body...)))
	if answer["error"] != nil {
		t.Fatalf("cannot extract: %v", answer)
	}
	return answer
}

// snapshot tells all there is below a directory: kinds, modes, contents.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			text += " " + target
		}
		found[strings.TrimPrefix(path, root)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// unchanged runs do and fails if anything below a directory is different after
// it.
func unchanged(t *testing.T, root string, do func()) {
	t.Helper()
	before := snapshot(t, root)
	do()
	if after := snapshot(t, root); !maps.Equal(before, after) {
		t.Errorf("it has changed from\n%q\nto\n%q", before, after)
	}
}

// Contract 001.3: the archive's size.
func TestConformArchiveSize(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	good := archive(file("a", "abc"))
	const early, negative = "unexpected EOF while reading archive payload", "archive_size must not be negative"
	for _, action := range []string{"extract_archive", "install_secrets"} {
		t.Run(action, func(t *testing.T) {
			conform(t)
			each(t, b, []call{
				{request: `{"action":"` + action + `","archive_size":-1}`, err: negative},
				{request: `{"action":"` + action + `","archive_size":"-5"}`, err: negative},
				{request: `{"action":"` + action + `","archive_size":-1,"destination":"/etc"}`, err: negative},
				{request: `{"action":"` + action + `"}`, err: anyError},
				{request: `{"action":"` + action + `","archive_size":0}`, err: anyError},
				{request: `{"action":"` + action + `","archive_size":null}`, err: anyError},
				{request: `{"action":"` + action + `","archive_size":"many"}`, err: anyError},
				{request: `{"action":"` + action + `","archive_size":600}`, body: good, err: anyError},
				{request: fmt.Sprintf(`{"action":"`+action+`","archive_size":"%d.0"}`, len(good)), body: good, err: anyError},
				{request: fmt.Sprintf(`{"action":"`+action+`","archive_size":" %d "}`, len(good)), body: good, want: `{"entry_count":1}`},
				{request: fmt.Sprintf(`{"action":"`+action+`","archive_size":%d.5}`, len(good)), body: good, want: `{"entry_count":1}`},
			})
			for _, n := range []int{0, 1, 511, 512, 515, 1024, len(good) - 1} {
				request := fmt.Sprintf(`{"action":%q,"archive_size":%d,"destination":"early"}`, action, len(good))
				got := answerOf(t, b.trickled(t, append([]byte(request+"\n"), good[:n]...), 1<<20))
				if got["error"] != early {
					t.Errorf("after %d bytes: got %v", n, got)
				}
			}
			absent(t, b.workspace, "early")
		})
	}
	line := []byte(extraction("pieces", good) + "\n")
	for name, sent := range map[string][][]byte{
		"together":          {append(bytes.Clone(line), good...)},
		"line_then_body":    {line, good},
		"line_and_a_little": {append(bytes.Clone(line), good[:7]...), good[7:]},
		"half_a_line":       {line[:9], append(bytes.Clone(line[9:]), good[:1]...), good[1:]},
		"more_than_said":    {line, good, []byte("{\"command\":\"touch more\"}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			conn := b.dial(t)
			for _, piece := range sent {
				if _, err := conn.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, 1000)
			n, err := conn.Read(got)
			if err != nil {
				t.Fatal(err)
			}
			contains(t, answerOf(t, got[:n]), `{"destination":"/workspace/pieces","entry_count":1,"bytes_written":3}`)
			holds(t, "abc", b.workspace, "pieces", "a")
			absent(t, b.workspace, "more")
		})
	}
	t.Run("byte_by_byte", func(t *testing.T) {
		conform(t)
		contains(t, answerOf(t, b.trickled(t, append(bytes.Clone(line), good...), 1)), `{"entry_count":1}`)
	})
	t.Run("waits_for_all_of_it", func(t *testing.T) {
		conform(t)
		padded := append(bytes.Clone(good), make([]byte, 64<<10)...) // what follows the end of the archive is read too
		contains(t, b.extract(t, "padded", padded), `{"entry_count":1}`)
		each(t, b, []call{{request: extraction("cut", good[:1024]), body: good[:1024], want: `{"entry_count":1}`}}) // and may be missing
	})
}

// Contract 001.3: formats and compressions, as Python's tarfile wrote them
// and as archive/tar does.
func TestConformArchiveFormats(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	for name, long := range map[string]string{
		"ustar.tar.gz": strings.Repeat("p", 90) + "/" + strings.Repeat("n", 60),
		"gnu.tar.bz2":  "long/" + strings.Repeat("n", 120),
		"pax.tar.xz":   "long/" + strings.Repeat("n", 120),
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			body, err := os.ReadFile(filepath.Join("testdata", "archives", name))
			if err != nil {
				t.Fatal(err)
			}
			contains(t, b.extract(t, name, body), `{"destination":"/workspace/`+name+`","entry_count":6,"bytes_written":26}`)
			holds(t, "hello\n", b.workspace, name, "d", "file")
			holds(t, "#!/bin/sh\n", b.workspace, name, "run")
			holds(t, "long\n", b.workspace, name, long)
			holds(t, "utf8\n", b.workspace, name, "é")
			if target, err := os.Readlink(filepath.Join(b.workspace, name, "link")); target != "d/file" {
				t.Errorf("the link leads to %q, %v", target, err)
			}
		})
	}
	for name, format := range map[string]tar.Format{"ustar": tar.FormatUSTAR, "gnu": tar.FormatGNU, "pax": tar.FormatPAX} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			var plain, packed bytes.Buffer
			w := tar.NewWriter(&plain)
			for _, h := range []tar.Header{
				{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755}, {Typeflag: tar.TypeReg, Name: "./d/file", Size: 2000, Mode: 0o600},
				{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "d"},
			} {
				h.Format, h.ModTime = format, time.Unix(1_700_000_000, 0)
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
				_, _ = w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
			}
			_ = w.Close()
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(plain.Bytes())
			_ = z.Close()
			for kind, body := range map[string][]byte{"plain": plain.Bytes(), "gzip": packed.Bytes()} {
				contains(t, b.extract(t, name+"/"+kind, body), `{"entry_count":3,"bytes_written":2000}`)
				holds(t, strings.Repeat("x", 2000), b.workspace, name, kind, "link", "file")
			}
		})
	}
	for _, name := range []string{"sparse-gnu.tar.gz", "sparse-pax.tar.gz"} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			body, err := os.ReadFile(filepath.Join("testdata", "archives", name))
			if err != nil {
				t.Fatal(err)
			}
			contains(t, b.extract(t, name, body), `{"entry_count":1,"bytes_written":1048579}`)
			holds(t, strings.Repeat("\x00", 1<<20)+"end", b.workspace, name, "sparse")
		})
	}
	for name, body := range map[string][]byte{
		"noise":         bytes.Repeat([]byte("no archive "), 100),
		"cut_gzip":      {0x1f, 0x8b, 8, 0},
		"zip":           append([]byte("PK\x03\x04"), make([]byte, 600)...),
		"empty":         {},
		"bad_checksum":  append([]byte("x"), archive(file("a", "x"))[1:]...),
		"cut_in_header": archive(file("a", "x"))[:300],
		"cut_in_body":   archive(file("a", strings.Repeat("x", 2000)))[:1024],
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			unchanged(t, b.workspace, func() { each(t, b, []call{{request: extraction("bad", body), body: body, err: anyError}}) })
		})
	}
	t.Run("nothing_in_it", func(t *testing.T) {
		conform(t)
		contains(t, b.extract(t, "void", archive()), `{"destination":"/workspace/void","entry_count":0,"bytes_written":0}`)
	})
}

// Contract 001.3, with an archive from Python itself in every form.
func TestConformPythonArchives(t *testing.T) {
	t.Parallel()
	conform(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED ALOUD: there is no python3 to make archives with; those in testdata are tested all the same")
	}
	b := bare(t)
	const script = `
import io, sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|"+sys.argv[1], format=getattr(tarfile, sys.argv[2]+"_FORMAT")) as t:
    for name, data in ("a/b", b"x" * 70000), ("n" * 99, b"y"):
        i = tarfile.TarInfo(name); i.size = len(data); t.addfile(i, io.BytesIO(data))
`
	for _, format := range []string{"USTAR", "GNU", "PAX"} {
		for _, compression := range []string{"", "gz", "bz2", "xz"} {
			body, err := exec.Command(python, "-c", script, compression, format).Output()
			if err != nil {
				t.Fatal(err)
			}
			contains(t, b.extract(t, format+compression, body), `{"entry_count":2,"bytes_written":70001}`)
			holds(t, strings.Repeat("x", 70000), b.workspace, format+compression, "a/b")
		}
	}
}

// Contract 001.3: what is unpacked, and where.
func TestConformExtract(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	type check = func(*testing.T, string)
	has := func(text string, names ...string) check {
		return func(t *testing.T, dir string) { holds(t, text, append([]string{dir}, names...)...) }
	}
	leads := func(target, name string) check {
		return func(t *testing.T, dir string) {
			if got, err := os.Readlink(filepath.Join(dir, name)); got != target {
				t.Errorf("%s leads to %q, %v", name, got, err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		before  func(t *testing.T, dir string)
		members []member
		want    string
		check   check
	}{
		{name: "counts", members: []member{dir("d"), file("d/a", "abc"), file("d/b", "de"), symlink("l", "d/a")},
			want: `{"entry_count":4,"bytes_written":5}`, check: has("de", "d", "b")},
		{name: "leading_dot", members: []member{dir("./d/"), file("./d/./a", "x"), file(".//b", "y")}, check: has("x", "d", "a")},
		{name: "stripped_name", members: []member{file(" a ", "x")}, check: has("x", "a")},
		{name: "parents", members: []member{file("p/q/r", "x"), symlink("s/t", "u")}, check: has("x", "p", "q", "r")},
		{name: "existing_directory", before: func(t *testing.T, dir string) { put(t, "kept", dir, "d", "kept") },
			members: []member{dir("d"), dir("d"), file("d/a", "x")}, check: has("kept", "d", "kept")},
		{name: "replaces_file", before: func(t *testing.T, dir string) { put(t, "long before", dir, "a") },
			members: []member{file("a", "x")}, check: has("x", "a")},
		{name: "last_one_wins", members: []member{file("a", "first"), file("a", "x")}, want: `{"entry_count":2,"bytes_written":6}`, check: has("x", "a")},
		{name: "replaces_link", before: func(t *testing.T, dir string) { link(t, "before", dir, "l") },
			members: []member{symlink("l", "after")}, check: leads("after", "l")},
		{name: "replaces_own_link", members: []member{symlink("l", "a"), symlink("l", "b")}, check: leads("b", "l")},
		{name: "target_verbatim", members: []member{symlink("l", " ./a//b/ ")}, check: leads(" ./a//b/ ", "l")},
		{name: "empty_file", members: []member{file("a", "")}, want: `{"bytes_written":0}`, check: has("", "a")},
		{name: "contiguous_file", members: []member{{name: "a", kind: '7', body: "x"}}, want: `{"bytes_written":1}`, check: has("x", "a")},
		{name: "old_style_directory", members: []member{{name: "d/", kind: oldKind}, file("d/a", "x")}, check: has("x", "d", "a")},
		{name: "odd_names", members: []member{file("a\nb", "1"), file("...", "2"), file("..a", "3"), file("-rf", "4")}, check: has("3", "..a")},
		{name: "bytes_in_names", members: []member{file("caf\xe9", "x")}, check: has("x", "caf\xe9")},
		{name: "trailing_slash_of_a_file", members: []member{{name: "a/b/", kind: '5'}}, check: func(t *testing.T, dir string) {
			hasMode(t, 0o755, dir, "a")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conform(t)
			dir := filepath.Join(b.workspace, "x", c.name)
			if c.before != nil {
				c.before(t, dir)
			}
			answer := b.extract(t, "x//"+c.name, archive(c.members...))
			contains(t, answer, `{"destination":"/workspace/x/`+c.name+`"}`)
			if c.want != "" {
				contains(t, answer, c.want)
			}
			c.check(t, dir)
		})
	}
	t.Run("default_destination", func(t *testing.T) {
		conform(t)
		body := archive(file("top", "x"))
		each(t, b, []call{{request: fmt.Sprintf(`{"action":"extract_archive","archive_size":%d}`, len(body)), body: body, want: `{"destination":"/workspace"}`}})
		holds(t, "x", b.workspace, "top")
	})
	t.Run("result_types", func(t *testing.T) {
		conform(t)
		types(t, b.extract(t, "types", archive(file("a", "x"))), map[string]string{"destination": "string", "entry_count": "int", "bytes_written": "int"})
	})
}

// Contract 001.3: what is refused, with what text, and the order of checks. In
// none of these cases anything is changed.
func TestConformRefusedArchives(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	fifo := func(t *testing.T, dir string) {
		put(t, "", dir, "there")
		if err := syscall.Mkfifo(filepath.Join(dir, "a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { put(t, "old", dir, name) }
	}
	leads := func(target string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { put(t, "old", dir, "there"); link(t, target, dir, "a") }
	}
	odd := func(name string, kind byte) member { return member{name: name, kind: kind, link: "there"} }
	const hard = "hard links are not allowed in workspace archives: "
	for _, c := range []struct {
		name    string
		before  func(t *testing.T, dir string)
		members []member
		err     string
	}{
		{"empty_name", nil, []member{file("", "x")}, "archive member path is empty"},
		{"blank_name", nil, []member{file(" \t", "x")}, "archive member path is empty"},
		{"root_directory", nil, []member{dir("/")}, "archive member path is empty"},
		{"absolute", nil, []member{file("/etc/x", "x")}, "absolute archive member paths are not allowed: /etc/x"},
		{"absolute_after_space", nil, []member{file(" /x", "x")}, "absolute archive member paths are not allowed:  /x"},
		{"dot", nil, []member{dir("./")}, "unsafe archive member path: ."},
		{"dots", nil, []member{file("././.", "x")}, "unsafe archive member path: ././."},
		{"dot_dot", nil, []member{file("..", "x")}, "unsafe archive member path: .."},
		{"dot_dot_inside", nil, []member{file("a/../b", "x")}, "unsafe archive member path: a/../b"},
		{"dot_dot_of_a_directory", nil, []member{dir("a/..//")}, "unsafe archive member path: a/.."},
		{"own_link_as_parent", nil, []member{dir("d"), symlink("l", "d"), file("l/x", "x")}, "archive member would traverse through a symlinked path: l/x"},
		{"link_as_parent", leads("there"), []member{file("a/b/c", "x")}, "archive member would traverse through a symlinked path: a/b/c"},
		{"dangling_parent", leads("nonesuch"), []member{dir("./a/b/")}, "archive member would traverse through a symlinked path: ./a/b"},
		{"directory_over_file", has("a"), []member{dir("a/")}, "directory conflicts with existing path: a"},
		{"directory_over_own_file", nil, []member{file("a", "x"), dir("a")}, "directory conflicts with existing path: a"},
		{"directory_over_link", leads("."), []member{dir("a")}, "directory conflicts with existing path: a"},
		{"directory_over_dangling_link", leads("nonesuch"), []member{dir("a")}, "directory conflicts with existing path: a"},
		{"directory_over_fifo", fifo, []member{dir("a")}, "directory conflicts with existing path: a"},
		{"file_over_directory", has("a/x"), []member{file("./a", "x")}, "file conflicts with existing path: ./a"},
		{"file_over_own_directory", nil, []member{dir("a"), file("a", "x")}, "file conflicts with existing path: a"},
		{"file_over_implied_directory", nil, []member{file("a/b", "x"), file("a", "x")}, "file conflicts with existing path: a"},
		{"file_over_link", leads("there"), []member{file("a", "x")}, "file conflicts with existing path: a"},
		{"file_over_own_link", nil, []member{file("b", "x"), symlink("a", "b"), file("a", "x")}, "file conflicts with existing path: a"},
		{"file_over_dangling_link", leads("nonesuch"), []member{file("a", "x")}, "file conflicts with existing path: a"},
		{"file_over_fifo", fifo, []member{file("a", "x")}, "file conflicts with existing path: a"},
		{"below_a_file", has("a"), []member{file("a/b", "x")}, anyError},
		{"below_an_own_file", nil, []member{file("a", "x"), file("a/b", "x")}, anyError},
		{"directory_below_a_file", has("a"), []member{dir("a/b")}, anyError},
		{"no_target", nil, []member{symlink("./l", "")}, "symlink l has an empty target"},
		{"blank_target", nil, []member{symlink("a/./l", "  ")}, "symlink a/l has an empty target"},
		{"absolute_target", nil, []member{symlink("./l", "/workspace/x")}, "symlink l escapes the workspace"},
		{"absolute_target_after_space", nil, []member{symlink("l", " /x")}, "symlink l escapes the workspace"},
		{"target_goes_up", nil, []member{symlink("a//b/l", "../x")}, "symlink a/b/l escapes the workspace"},
		{"target_goes_down_and_up", nil, []member{symlink("l", "a/../b")}, "symlink l escapes the workspace"},
		{"link_over_file", has("a"), []member{symlink("a", "x")}, "symlink conflicts with existing path: a"},
		{"link_over_directory", has("a/x"), []member{symlink("./a", "x")}, "symlink conflicts with existing path: ./a"},
		{"link_over_own_file", nil, []member{file("a", "x"), symlink("a", "x")}, "symlink conflicts with existing path: a"},
		{"link_over_fifo", fifo, []member{symlink("a", "x")}, "symlink conflicts with existing path: a"},
		{"hard_link", has("there"), []member{odd("./h", '1')}, hard + "./h"},
		{"fifo", nil, []member{odd("f", '6')}, "unsupported archive member type: f"},
		{"character_device", nil, []member{odd("c", '3')}, "unsupported archive member type: c"},
		{"block_device", nil, []member{odd("./b", '4')}, "unsupported archive member type: ./b"},
		{"unknown_type", nil, []member{odd("z", 'Z')}, "unsupported archive member type: z"},
		{"name_before_type", nil, []member{odd("../h", '1')}, "unsafe archive member path: ../h"},
		{"absolute_before_dot_dot", nil, []member{file("/../x", "x")}, "absolute archive member paths are not allowed: /../x"},
		{"parents_before_type", leads("there"), []member{odd("a/f", '6')}, "archive member would traverse through a symlinked path: a/f"},
		{"target_before_conflict", has("a"), []member{symlink("a", "/x")}, "symlink a escapes the workspace"},
		{"empty_target_before_conflict", has("a"), []member{symlink("a", "")}, "symlink a has an empty target"},
		{"first_bad_one", nil, []member{file("good", "x"), odd("h", '1'), file("../x", "x")}, hard + "h"},
		{"last_bad_one", has("a"), []member{file("a", "new"), dir("d"), file("d/x", "x"), odd("h", '1')}, hard + "h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conform(t)
			if c.before != nil {
				c.before(t, filepath.Join(b.workspace, c.name))
			}
			body := archive(c.members...)
			unchanged(t, b.workspace, func() { each(t, b, []call{{request: extraction(c.name, body), body: body, err: c.err}}) })
		})
	}
	t.Run("destination_is_a_file", func(t *testing.T) {
		conform(t)
		put(t, "old", b.workspace, "plain")
		body := archive(file("a", "x"))
		unchanged(t, b.workspace, func() {
			each(t, b, []call{
				{request: extraction("plain", body), body: body, err: anyError},
				{request: extraction("plain/below", body), body: body, err: anyError},
				{request: extraction("/etc", body), body: body, err: "destination must stay inside /workspace"},
				{request: extraction(" ", body), body: body, err: "destination must not be empty"},
			})
		})
	})
}
