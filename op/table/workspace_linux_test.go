package table

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/files"
	"github.com/paddock-dev/paddock/op/internal/output"
)

// terminal calls an operation as the command line does, with streams.
func terminal(t testing.TB, env *op.Env, name string, in fields, stdin io.Reader, stdout io.Writer) (any, error) {
	t.Helper()
	return operation(t, name).Call(t.Context(), env, mustJSON(t, in), &op.Stream{Stdin: stdin, Stdout: stdout, Stderr: io.Discard})
}

// unpacked are the entries of an archive with their content, links with their target.
func unpacked(t testing.TB, archive []byte) map[string]string {
	t.Helper()
	var r io.Reader = bytes.NewReader(archive)
	if z, err := gzip.NewReader(r); err == nil {
		r = z
	} else {
		r = bytes.NewReader(archive)
	}
	all := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		all[h.Name] = string(content) + h.Linkname
	}
}

// spaces is a name whose white space is a part of it.
const spaces = " spaces "

// What is brought in is there, and what is taken out is what is there.
func TestImportAndExport(t *testing.T) {
	env := lasting(t)
	in := well[files.WorkspaceImportOutput](t, env, "workspace_import", fields{"files": []fields{
		{"path": "a.txt", "content": "one\n"},
		{"path": "src/run.sh", "content": "echo run", "executable": true},
		{"path": "src/bin", "content": base64.StdEncoding.EncodeToString([]byte{0, 1, 0xff}), "encoding": "base64"},
		{"path": "node_modules/x/y.js", "content": "x"},
		{"path": spaces, "content": "kept"},
	}})
	if in.Entries != 5 || in.Bytes != 4+8+3+1+4 || in.Destination != "/workspace" {
		t.Errorf("%+v", in)
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "./src/run.sh; ln -s a.txt link; mkdir empty; mkfifo pipe; cat '" + spaces + "'"}); out.Stdout != "run\nkept" {
		t.Errorf("%+v", out)
	}
	whole := map[string]string{"a.txt": "one\n", "src/": "", "src/run.sh": "echo run", "src/bin": "\x00\x01\xff", "node_modules/": "", "node_modules/x/": "",
		"node_modules/x/y.js": "x", spaces: "kept", "link": "a.txt", "empty/": ""}
	for name, tt := range map[string]struct {
		in   fields
		want []string
	}{
		"all of it":       {fields{}, nil},
		"plain":           {fields{"format": "tar"}, nil},
		"paths":           {fields{"paths": []string{"src", "a.txt", "src/bin", "/workspace/src/"}}, []string{"src/run.sh", "src/bin", "a.txt"}},
		"without a name":  {fields{"exclude": []string{"node_modules", "*.txt"}}, []string{"src/", "src/run.sh", "src/bin", spaces, "link", "empty/"}},
		"without a path":  {fields{"exclude": []string{"src/b?n", "/node_modules/x"}, "paths": []string{"src", "node_modules"}}, []string{"src/run.sh"}},
		"nothing is left": {fields{"exclude": []string{"*"}}, []string{}},
	} {
		out := well[files.WorkspaceExportOutput](t, env, "workspace_export", tt.in)
		want := map[string]string{}
		for entry, content := range whole {
			if tt.want == nil || slices.Contains(tt.want, entry) {
				want[entry] = content
			}
		}
		if diff := cmp.Diff(want, unpacked(t, read(t, env, out))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if out.Entries != int64(len(want)) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// read reads an archive as a model does, and compares it with what is said of it.
func read(t testing.TB, env *op.Env, out files.WorkspaceExportOutput) (archive []byte) {
	t.Helper()
	for cursor := int64(0); ; {
		part := well[output.OutputReadOutput](t, env, "output_read", fields{"output": out.Output, "encoding": "base64", "cursor": cursor})
		data, err := base64.StdEncoding.DecodeString(part.Text)
		if err != nil {
			t.Fatal(err)
		}
		archive, cursor = append(archive, data...), part.NextCursor
		if part.EOF {
			break
		}
	}
	sum := sha256.Sum256(archive)
	if int64(len(archive)) != out.Size || hex.EncodeToString(sum[:]) != out.SHA256 {
		t.Errorf("%d bytes are not as %+v", len(archive), out)
	}
	if out.Content != nil && !bytes.Equal(out.Content, archive) || out.Content == nil && len(archive) <= 1000 {
		t.Errorf("the content of %d bytes is not the archive's %d", len(out.Content), len(archive))
	}
	return archive
}

// At a terminal archives are files and streams.
func TestImportAndExportAtTheTerminal(t *testing.T) {
	env := lasting(t)
	dir := t.TempDir()
	random := make([]byte, 3<<20)
	_, _ = rand.Read(random) // it never fails
	if err := os.WriteFile(filepath.Join(env.Default.Workspace.Source, "random"), random, 0o644); err != nil {
		t.Fatal(err)
	}
	var streamed bytes.Buffer
	out, err := terminal(t, env, "workspace_export", fields{}, strings.NewReader(""), &streamed)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := operation(t, "workspace_export").Render(&said, out); err != nil || said.Len() > 0 {
		t.Errorf("beside the archive it says %q, %v", said.String(), err)
	}
	file := filepath.Join(dir, "a.tar.gz")
	if out, err = terminal(t, env, "workspace_export", fields{"output": file}, strings.NewReader(""), nil); err != nil || out.(files.WorkspaceExportOutput).File != osstring.String(file) {
		t.Fatal(out, err)
	}
	if written, err := os.ReadFile(file); err != nil || unpacked(t, written)["random"] != string(random) || unpacked(t, streamed.Bytes())["random"] != string(random) {
		t.Error("the archives differ from the workspace", err)
	}
	// Back again, from a file and from a stream.
	for i, from := range []string{file, "-"} {
		in := fields{"file": from, "destination": "again" + from[:1]}
		if _, err := terminal(t, env, "workspace_import", in, &streamed, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(env.Default.Workspace.Source, "again"+from[:1], "random")); err != nil || !bytes.Equal(got, random) {
			t.Error(i, err)
		}
	}
	// What fails leaves no file.
	if _, err := terminal(t, env, "workspace_export", fields{"paths": []string{"missing"}, "output": filepath.Join(dir, "b")}, strings.NewReader(""), nil); err == nil {
		t.Error("what is missing was exported")
	}
	if names, err := filepath.Glob(dir + "/*"); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	if hidden, err := filepath.Glob(dir + "/.*"); err != nil || len(hidden) != 0 {
		t.Error(hidden, err)
	}
}

// What is too large for the store is an error, and takes no room in it.
func TestExportIsBounded(t *testing.T) {
	env := lasting(t)
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "truncate -s 40000000 big"}); out.ExitStatus() != 0 {
		t.Fatalf("%+v", out)
	}
	_, err := operationTried(t, env, "workspace_export", fields{"format": "tar"})
	if err == nil || err.Error() != "cannot keep the archive: it has more than 33554432 bytes" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try[files.WorkspaceExportOutput](ctx, t, env, "workspace_export", fields{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A refused archive changes nothing, and the error says what is wrong with it.
func TestImportErrors(t *testing.T) {
	env := lasting(t)
	archive := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := tar.Header{Name: "first", Typeflag: tar.TypeReg}
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{}, "cannot use archive: it is missing"},
		{fields{"archive": archive(first), "files": []fields{}}, "cannot use files: an archive is given, too"},
		{fields{"archive": "***"}, "cannot read the input of workspace_import: archive must be written in base64"},
		{fields{"archive": []byte("no archive")}, "cannot read the archive: "},
		{fields{"archive": archive(first, tar.Header{Name: "../out"})}, "cannot import into the workspace: unsafe archive member path: ../out"},
		{fields{"archive": archive(first, tar.Header{Name: "/etc/x"})}, "cannot import into the workspace: absolute archive member paths are not allowed: /etc/x"},
		{fields{"archive": archive(first, tar.Header{Name: "l", Linkname: "/etc", Typeflag: tar.TypeSymlink})}, "cannot import into the workspace: symlink l escapes the workspace"},
		{fields{"archive": archive(first, tar.Header{Name: "dev", Typeflag: tar.TypeChar})}, "cannot import into the workspace: unsupported archive member type: dev"},
		{fields{"archive": archive(first), "destination": "../x"}, `cannot use destination "../x": it leads up with ..`},
		{fields{"file": "/etc/passwd"}, `cannot use file "/etc/passwd": files of the host are for the command line alone`},
		{fields{"files": []fields{{"path": "first", "content": ""}, {"path": "../x", "content": ""}}}, `cannot use files[1].path "../x": it must be the path of a file`},
		{fields{"files": []fields{{"path": "a/b", "content": ""}, {"path": "c", "content": ""}, {"path": "a/./b", "content": ""}}}, `cannot use files[2].path "a/./b": files[0] has the same path`},
		{fields{"files": []fields{{"path": "a", "content": ""}, {"path": "a/b", "content": ""}}}, `cannot use files[1].path "a/b": archive member would be inside of a file`},
		{fields{"files": []fields{{"path": "x/", "content": ""}}}, `cannot use files[0].path "x/": it must be the path of a file`},
		{fields{"files": []fields{{"path": "x", "content": "é", "encoding": "base64"}}}, `cannot use files[0].content: it is not written in base64`},
		{fields{"files": []fields{{"path": "x", "content": "", "encoding": "hex"}}}, `cannot use files[0].encoding "hex": it must be "text" or "base64"`},
	} {
		if _, err := operationTried(t, env, "workspace_import", tt.in); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{"paths": []string{"missing"}}, "cannot export missing: it does not exist"},
		{fields{"paths": []string{""}}, "cannot use paths[0]: it is empty"},
		{fields{"paths": []string{"a", "../.."}}, `cannot use paths[1] "../..": it leads up with ..`},
		{fields{"exclude": []string{"[a"}}, `cannot use exclude[0] "[a": it is not a valid pattern`},
		{fields{"format": "zip"}, `cannot use format "zip": it must be "tar.gz" or "tar"`},
		{fields{"output": "/tmp/x"}, `cannot use output "/tmp/x": files of the host are for the command line alone`},
	} {
		if _, err := operationTried(t, env, "workspace_export", tt.in); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if names, err := os.ReadDir(env.Default.Workspace.Source); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
	if _, err := terminal(t, env, "workspace_import", fields{}, strings.NewReader(""), nil); err == nil || err.Error() != "cannot import: there is no archive" {
		t.Error(err)
	}
}

// What cannot be written is named, in an archive as well as in a list, and nothing is.
func TestImportIntoWhatIsReadOnly(t *testing.T) {
	env := lasting(t)
	if err := os.MkdirAll(filepath.Join(env.Default.Workspace.Source, ".git", "hooks"), 0o755); err != nil { // so that it is protected
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"AA", ".git/hooks/pre-commit"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	list := []fields{{"path": "AA", "content": "x"}, {"path": ".git/hooks/pre-commit", "content": "x"}}
	inside := []fields{{"path": "AA", "content": "x"}, {"path": "hooks/pre-commit", "content": "x"}}
	for _, tt := range []struct {
		in   fields
		want string
	}{
		{fields{"files": list}, `cannot use files[1].path ".git/hooks/pre-commit": it is read-only in this sandbox`},
		{fields{"files": inside, "destination": ".git"}, `cannot use files[1].path "hooks/pre-commit": it is read-only in this sandbox`},
		{fields{"archive": b.Bytes()}, "cannot unpack /workspace/.git/hooks/pre-commit: it is read-only in this sandbox"},
	} {
		if _, err := operationTried(t, env, "workspace_import", tt.in); err == nil || err.Error() != tt.want || op.HintOf(err) == "" {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if names, err := filepath.Glob(filepath.Join(env.Default.Workspace.Source, "*A*")); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
}
