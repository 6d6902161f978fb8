package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/layer/delta"
)

// tracked keeps of a tree what git does.
func tracked(tree map[string]string) map[string]string {
	kept := make(map[string]string)
	for path, text := range tree {
		switch text[0] {
		case '-':
			mode := "644"
			if text[3] == 'x' {
				mode = "755"
			}
			kept[path] = mode + text[len("-rwxrwxrwx"):]
		case 'L':
			kept[path] = text
		}
	}
	return kept
}

func differences(got, want map[string]string) string {
	var b strings.Builder
	cut := func(s string) string { return fmt.Sprintf("%.200q", s) }
	for path, text := range want {
		if got[path] != text {
			fmt.Fprintf(&b, "%q is %s, want %s\n", path, cut(got[path]), cut(text))
		}
	}
	for path, text := range got {
		if _, ok := want[path]; !ok {
			fmt.Fprintf(&b, "%q is %s, and should not be there\n", path, cut(text))
		}
	}
	return b.String()
}

func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

func gitApply(t *testing.T, dir string, patch []byte) {
	t.Helper()
	if !bytes.Contains(patch, []byte("diff --git ")) {
		return // git takes no empty patch
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin, cmd.Env = dir, bytes.NewReader(patch), gitEnv(dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		var n int // the line that git names
		if i := bytes.Index(out, []byte("line ")); i >= 0 {
			_, _ = fmt.Sscanf(string(out[i:]), "line %d", &n)
		}
		lines := bytes.SplitAfter(patch, []byte("\n"))
		t.Fatalf("%v\n%q\n%q", err, out, lines[max(0, min(n, len(lines))-5):min(len(lines), n+5)])
	}
}

// unpack applies a layer of an image.
func unpack(t *testing.T, dir string, layer []byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		parent, name := delta.Split(strings.TrimSuffix(h.Name, "/"))
		path := filepath.Join(dir, parent, name)
		if name == opaque {
			list, err := os.ReadDir(filepath.Join(dir, parent))
			check(err)
			for _, e := range list {
				check(os.RemoveAll(filepath.Join(dir, parent, e.Name())))
			}
			continue
		}
		if hidden, ok := strings.CutPrefix(name, whiteout); ok {
			check(os.RemoveAll(filepath.Join(dir, parent, hidden)))
			continue
		}
		if st, err := os.Lstat(path); err == nil && (!st.IsDir() || h.Typeflag != tar.TypeDir) {
			check(os.RemoveAll(path))
		}
		mode := fs.FileMode(h.Mode & 0o777)
		switch h.Typeflag {
		case tar.TypeDir:
			if err := os.Mkdir(path, mode); !errors.Is(err, fs.ErrExist) {
				check(err)
			}
			check(os.Chmod(path, mode))
		case tar.TypeSymlink:
			check(os.Symlink(h.Linkname, path))
		case tar.TypeLink:
			check(os.Link(filepath.Join(dir, h.Linkname), path))
		case tar.TypeFifo:
			check(unix.Mkfifo(path, uint32(mode)))
			check(os.Chmod(path, mode))
		default:
			data, err := io.ReadAll(r)
			check(err)
			check(os.WriteFile(path, data, mode))
			check(os.Chmod(path, mode))
		}
	}
}

// expected is what becomes of each path, without a look at the layer.
func expected(before, after map[string]string) map[string]string {
	all := make(map[string]string)
	for path, text := range after {
		switch old, ok := before[path]; {
		case !ok:
			all[path] = "A"
		case old[0] != text[0]:
			all[path] = "T"
		case old != text:
			all[path] = "M"
		}
	}
	for path := range before {
		_, there := after[path]
		parent := filepath.Dir(path)
		if up, ok := after[parent]; !there && (parent == "." || ok && up[0] == 'd') {
			all[path] = "D" // what was in a directory that is gone is not listed
		}
	}
	return all
}

func TestRoundTrips(t *testing.T) {
	for seed := range int64(testkit.Rounds(15, 5)) {
		bothMarks(t, func(t *testing.T, o *overlay) {
			changeAtRandom(o.source(), 1000+seed, 60)
			o.inside(t, fmt.Sprint(changesTree, "=", seed))
			changes := o.changes(t)
			before, after := lookAt(t, o.source()), lookAt(t, filepath.Join(o.dir, "result"))
			l := o.layer(t)
			t.Logf("seed %d:\n%s", seed, list(changes)) // what fails can be done again

			if !strings.Contains("\n"+list(changes), "\nR ") {
				got := make(map[string]string)
				for _, c := range changes {
					got[c.Path] += string(c.Kind)
				}
				if diff := differences(got, expected(before, after)); diff != "" {
					t.Errorf("the changes:\n%s", diff)
				}
			}
			var patch, layer, summary bytes.Buffer
			if err := l.WritePatch(t.Context(), &patch, changes, PatchOptions{Binary: true}); err != nil {
				t.Fatal(err)
			}
			patched := copyTree(t, o.source())
			gitApply(t, patched, patch.Bytes())
			want := tracked(after)
			for line := range strings.Lines(patch.String()) {
				if name, ok := strings.CutSuffix(line, " is not in this patch: what it replaces is not either\n"); ok {
					delete(want, unquote(t, strings.TrimPrefix(name, "# ")))
				}
			}
			if diff := differences(tracked(lookAt(t, patched)), want); diff != "" {
				t.Errorf("the patch:\n%s\n%.3000q", diff, patch.Bytes())
			}
			left, err := l.WriteTar(t.Context(), &layer, changes)
			if err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			unpacked := copyTree(t, o.source())
			unpack(t, unpacked, layer.Bytes())
			if diff := differences(lookAt(t, unpacked), after); diff != "" {
				t.Errorf("the archive:\n%s", diff)
			}
			if err := l.WriteStat(t.Context(), &summary, changes); err != nil {
				t.Error(err)
			}
			if got := lookAt(t, o.source()); !maps.Equal(got, before) {
				t.Error("the source has changed")
			}
		})
	}
}
