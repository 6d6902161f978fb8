package script

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// treeText describes a tree: every name, with its mode, size and times of change.
func treeText(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Root neither believes nor changes what another user's state directory says. The control is the same
// directory as root's own: there the forged journal is read, and with the forged record a tree is removed
// that is none of Paddock's.
func TestStateOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it uses another user's state directory")
	}
	const other = 65532
	s, outside := newChangesSite(t, "true"), filepath.Join(t.TempDir(), "outside")
	s.paddock(t, "try", "--", "sh", "-c", "echo new > new")
	records, err := filepath.Glob(filepath.Join(s.state, "layers", "*", "record.json"))
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	dir := filepath.Dir(records[0])
	id := filepath.Base(dir)
	text, err := os.ReadFile(records[0])
	forged := strings.Replace(string(text), `"place":"`+dir+`"`, `"place":"`+outside+`"`, 1)
	journal := filepath.Join(dir, "journal", "commit.landing")
	own := func(uid int) error {
		return filepath.WalkDir(s.state, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Lchown(path, uid, uid)) })
	}
	err = errors.Join(err, os.MkdirAll(filepath.Dir(journal), 0o700), os.WriteFile(journal, []byte(`{"Source":"/"}`), 0o600), os.WriteFile(records[0], []byte(forged), 0o600),
		os.MkdirAll(filepath.Join(outside, "0", "upper"), 0o755), os.MkdirAll(filepath.Join(outside, "0", "work"), 0o755), own(other))
	if err != nil || forged == string(text) {
		t.Fatalf("%s: %v", text, err)
	}
	state, tree := treeText(t, s.state), treeText(t, outside)
	for _, line := range []string{"diff " + id, "discard " + id, "commit " + id, "layers", "list --all", "status " + id, "cache list", "cache rm --all", "prune --yes", "rm " + id,
		"stop " + id, "run -- true", "try -- true", "trust --list", "audit verify", "token list", "token create t", "privilege grant a EXEC", "file list", "nsenter --target 1 -- true", "written", "written forget --yes " + s.ws, "doctor --backend linux", "git accept " + id} {
		out, err := s.command(strings.Fields(line)...).CombinedOutput()
		if !strings.Contains(string(out), "it belongs to uid 65532, and you are another user: nothing in it is read or changed") || err == nil && !strings.HasPrefix(line, "doctor") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if now := treeText(t, s.state); now != state {
		t.Errorf("the state was\n%s, and is\n%s", state, now)
	}
	if now := treeText(t, outside); now != tree {
		t.Errorf("the tree outside was\n%s, and is\n%s", tree, now)
	}

	if err := own(0); err != nil {
		t.Fatal(err)
	}
	if out, _ := s.command("diff", id).CombinedOutput(); !strings.Contains(string(out), "/ is not the directory into which a commit was interrupted") {
		t.Errorf("root's own journal is not read: %s", out)
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	out, err := s.command("discard", id).CombinedOutput()
	if _, gone := os.Stat(filepath.Join(outside, "0")); !errors.Is(gone, fs.ErrNotExist) {
		t.Errorf("root's own record is not believed: %v, %v: %s", gone, err, out)
	}
}

// A state directory in which others can make files is not believed, also by its owner: root owns /tmp.
func TestStateThatOthersCanChange(t *testing.T) {
	s := newChangesSite(t, "true")
	s.paddock(t, "try", "--", "sh", "-c", "echo new > new")
	for mode, want := range map[os.FileMode]bool{0o700: true, 0o777: false, 0o777 | os.ModeSticky: false} { // the first is the control
		if err := os.Chmod(s.state, mode); err != nil {
			t.Fatal(err)
		}
		out, err := s.command("layers").CombinedOutput()
		if refused := strings.Contains(string(out), "every user of this host can make files in "+s.state); (err == nil) != want || refused == want {
			t.Errorf("%v: %v: %s", mode, err, out)
		}
	}
	if err := os.Chmod(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
}

// Root lists another user's state as that user. What that user's files say steers no terminal, and
// nobody else than root becomes another user.
func TestListOfAnotherUser(t *testing.T) {
	s := newChangesSite(t, "true")
	if os.Geteuid() != 0 {
		out, err := s.command("list", "--of", "root").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "only root can become another user") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	s.paddock(t, "try", "--", "sh", "-c", "echo new > new")
	open := filepath.Dir(s.state)
	err := filepath.WalkDir(s.state, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Lchown(path, 1, 1)) })
	for ; open != "/" && err == nil; open = filepath.Dir(open) { // daemon has to reach it
		if info, serr := os.Stat(open); serr != nil || info.Mode().Perm()&0o011 != 0o011 {
			err = errors.Join(serr, os.Chmod(open, info.Mode().Perm()|0o011))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := s.paddock(t, "layers", "--of", "daemon"); !strings.Contains(out, "kept") || !strings.Contains(out, s.ws) {
		t.Errorf("%s", out)
	}
	if out, _ := s.paddock(t, "layers", "--of=daemon", "--json"); !strings.Contains(out, `"state":"kept"`) {
		t.Errorf("%s", out)
	}
	if out, err := s.command("status", "--of", "daemon", "nosuch").CombinedOutput(); err == nil || !strings.Contains(string(out), "no such sandbox") {
		t.Errorf("%v: %s", err, out)
	}
}
