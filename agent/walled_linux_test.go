package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// tarred makes an archive of files.
func tarred(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (b *box) extract(archive []byte) error {
	_, err := wire.Upload(b.context(), b.client, wire.ExtractArchive, wire.ExtractRequest{ArchiveSize: int64(len(archive))}, bytes.NewReader(archive))
	return err
}

// Inside walls parts of a workspace are mount points of their own, some of
// them read-only: archives go into the others, and where they meet these
// nothing changes.
func TestWalledArchives(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{".git/config": "kept", ".git/HEAD": "ref", ".git/hooks/x": "", "file": "old"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := startIn(t, dir)
	if err := b.extract(tarred(t, map[string]string{".git/HEAD": "new", ".git/made": "x", "sub/made": "y"})); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("cat .git/HEAD .git/made sub/made; ls -A . .git | grep paddock-").Stdout; got != "newxy" {
		t.Errorf("got %q", got)
	}
	err := b.extract(tarred(t, map[string]string{"a": "1", "file": "new", ".git/new": "2", ".git/hooks/x": "changed"}))
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeFailed {
		t.Errorf("over a protected file: %v", err)
	}
	if got := b.sh("cat file .git/config; ls -A . .git | grep -e '^a$' -e new -e paddock-").Stdout; got != "oldkept" {
		t.Errorf("afterwards there is %q", got)
	}
}

func TestWalledSecrets(t *testing.T) {
	b := start(t)
	for round, set := range []map[string]string{{"token": "hunter2-and-more\n"}, {"other/key": "correct-horse"}} {
		archive := tarred(t, set)
		r, err := wire.Upload(b.context(), b.client, wire.InstallSecrets, wire.InstallSecretsRequest{ArchiveSize: int64(len(archive))}, bytes.NewReader(archive))
		if err != nil || r.EntryCount != 1 {
			t.Fatalf("set %d: %+v, %v", round, r, err)
		}
	}
	res := b.sh("cd /run/pyro-secrets && find . | sort && stat -c %a . other other/key && cat other/key; echo correct-horse >&2")
	if want := ".\n./other\n./other/key\n700\n700\n600\n[REDACTED]"; res.Stdout != want || res.Stderr != "[REDACTED]\n" {
		t.Errorf("got %q and %q", res.Stdout, res.Stderr)
	}
	_, err := b.client.Exec(b.context(), wire.ExecRequest{Argv: []string{"/no/correct-horse"}})
	if err == nil || strings.Contains(err.Error(), "horse") {
		t.Errorf("an error tells %v", err)
	}
}

func TestWalledShellsAndServices(t *testing.T) {
	b := start(t)
	if _, err := wire.Call(b.context(), b.client, wire.OpenShell, wire.OpenShellRequest{ShellID: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Call(b.context(), b.client, wire.WriteShell, wire.WriteShellRequest{ShellID: "s", Input: "id -u; tty; echo do''ne"}); err != nil {
		t.Fatal(err)
	}
	output := ""
	for cursor := int64(0); !strings.Contains(output, "done"); {
		r, err := wire.Call(b.context(), b.client, wire.ReadShell, wire.ReadShellRequest{ShellID: "s", Cursor: cursor, WaitMS: 5000})
		if err != nil {
			t.Fatal(err)
		}
		output, cursor = output+r.Output, r.NextCursor
	}
	if !strings.Contains(output, "1000\r\n/dev/pts/0") {
		t.Errorf("the shell printed %q", output)
	}
	q := wire.StartServiceRequest{ServiceName: "web", Command: `echo up; touch ready; (setsid sleep 1000 &); sleep 1000`, Readiness: []byte(`{"type":"file","path":"ready"}`), ReadyIntervalMS: 1}
	if s, err := wire.Call(b.context(), b.client, wire.StartService, q); err != nil || s.State != "running" || s.ReadyAt == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	u, err := wire.Call(b.context(), b.client, wire.Usage, wire.UsageRequest{})
	if err != nil || len(u.Trees) != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	if r, err := wire.Call(b.context(), b.client, wire.LogsService, wire.LogsServiceRequest{ServiceName: "web"}); err != nil || r.Stdout != "up\n" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := wire.Call(b.context(), b.client, wire.StopService, wire.ServiceRequest{ServiceName: "web"}); err != nil || !r.DeathProved || *r.StopReason != "sigterm" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := wire.Call(b.context(), b.client, wire.CloseShell, wire.ShellRequest{ShellID: "s"}); err != nil || !r.DeathProved || !r.Closed {
		t.Errorf("%+v, %v", r, err)
	}
	if u, err := wire.Call(b.context(), b.client, wire.Usage, wire.UsageRequest{}); err != nil || len(u.Trees) != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}
