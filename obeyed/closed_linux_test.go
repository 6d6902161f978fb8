package obeyed

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// closeAll takes rights away, "PATH=MODE", and gives them back at the end.
func closeAll(t *testing.T, root string, modes ...string) {
	t.Helper()
	for _, m := range modes {
		name, mode, _ := strings.Cut(m, "=")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err == nil {
			err = os.Chmod(filepath.Join(root, name), fs.FileMode(bits))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, name), 0o755) })
	}
}

// What commands have closed to its owner, and can open again, is refused where something
// in it would be read-only; else it is told of. Root reads all of it.
func TestProtectClosed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	nested := append(repo("ws/g/h/.git", "fsmonitor = ./fsm\n"), "ws/g/h/fsm")
	made := append(repo("ws/vendor/g/h/.git", "fsmonitor = ./fsm\n"), "ws/vendor/g/h/fsm")
	for _, tt := range []struct {
		name   string
		files  []string
		modes  []string
		closed string // what is refused, "" where nothing is
		lost   string // what else is told
		opens  string // what in Unprotected lets it pass, beside "*"
	}{
		{name: "an included file", files: append(repo("ws/.git", "[include]\npath = ../conf/team\n"), "ws/conf/team=[core]\n"), modes: []string{"ws/conf=000", "ws/conf=311"}, closed: "ws/conf", opens: ".git"},
		{name: "an included file itself", files: append(repo("ws/.git", "[include]\npath = ../team\n"), "ws/team=[core]\n"), modes: []string{"ws/team=000"}, closed: "ws/team", opens: ".git"},
		{name: "an included file of the user's", files: append(repo("ws/.git"), "home/.gitconfig=[include]\npath = $ROOT/ws/.x/team\n", "ws/.x/team=[core]\n"), modes: []string{"ws/.x=000"}, closed: "ws/.x"},
		{name: "a program", files: append(repo("ws/.git", "fsmonitor = sh tools/fsm\n"), "ws/tools/fsm"), modes: []string{"ws/tools=000"}, closed: "ws/tools", opens: ".git"},
		{name: "a directory of hooks", files: append(repo("ws/.git", "hooksPath = a/hooks\n"), "ws/a/hooks/"), modes: []string{"ws/a=000", "ws/a/hooks=311"}, closed: "ws/a", opens: ".git"},
		{name: "where a hook leads", files: append(repo("ws/.git"), "ws/tools/pc", "ws/.git/hooks/pre-commit -> ../../tools/pc"), modes: []string{"ws/tools=000"}, closed: "ws/tools", opens: ".git"},
		{name: "where a link of the home leads", files: []string{"ws/dot/bashrc", "home/.bashrc -> $ROOT/ws/dot/bashrc"}, modes: []string{"ws/dot=000"}, closed: "ws/dot"},
		{name: "where a link of the project leads", files: []string{"ws/d/e/vscode/x", "ws/.vscode -> d/e/vscode"}, modes: []string{"ws/d/e=000"}, closed: "ws/d/e"},
		{name: "the repository", files: repo("ws/.git"), modes: []string{"ws/.git=000", "ws/.git=644"}, closed: "ws/.git", opens: ".git"},
		{name: "where a .git file leads", files: append(repo("ws/d/store"), "ws/.git=gitdir: d/store\n"), modes: []string{"ws/d=000"}, closed: "ws/d", opens: ".git"},
		{name: "submodules", files: append(repo("ws/.git"), repo("ws/.git/modules/a")...), modes: []string{"ws/.git/modules=000", "ws/.git/modules=311", "ws/.git/modules=444"}, closed: "ws/.git/modules", opens: ".git"},
		{name: "a nested repository", files: repo("ws/n/.git"), modes: []string{"ws/n/.git=000"}, closed: "ws/n/.git", opens: "n/.git"},
		{name: "above a nested repository", files: nested, modes: []string{"ws/g=000", "ws/g=311"}, closed: "ws/g"},
		{name: "above one where tools make things", files: made, modes: []string{"ws/vendor/g=000", "ws/vendor/g=311"}, lost: "cannot look for repositories in $ROOT/ws/vendor/g: permission denied"},
		{name: "configuration where tools make things", files: made, modes: []string{"ws/vendor/g/h/.git/config=000"}, closed: "ws/vendor/g/h/.git/config", opens: "vendor/g/h/.git"},
		// Where repositories are looked for and not guarded, what is named counts alone.
		{name: "an included file, where tools make things", files: append(repo("ws/.git", "[include]\npath = ../build/team\n"), "ws/build/team=[core]\n"), modes: []string{"ws/build=000"}, closed: "ws/build", opens: ".git"},
		{name: "hooks, where tools make things", files: append(repo("ws/.git", "hooksPath = build/hooks\n"), "ws/build/hooks/"), modes: []string{"ws/build=000", "ws/build/hooks=311"}, closed: "ws/build", opens: ".git"},
		{name: "a home's file, where tools make things", files: []string{"ws/build/bashrc", "home/.bashrc -> $ROOT/ws/build/bashrc"}, modes: []string{"ws/build=000"}, closed: "ws/build", opens: ".bashrc"},
		{name: "a project's file, where tools make things", files: []string{"ws/build/vscode/x", "ws/.vscode -> build/vscode"}, modes: []string{"ws/build=000"}, closed: "ws/build", opens: ".vscode"},
		{name: "a program far below", files: append(repo("ws/.git", "fsmonitor = a/b/c/d/e/f/g/fsm\n"), "ws/a/b/c/d/e/f/g/fsm"), modes: []string{"ws/a/b/c/d/e/f=000"}, closed: "ws/a/b/c/d/e/f", opens: ".git"},
		{name: "where a hook leads, far below", files: append(repo("ws/.git"), "ws/a/b/c/d/e/f/g/pc", "ws/.git/hooks/pre-commit -> ../../a/b/c/d/e/f/g/pc"), modes: []string{"ws/a/b/c/d/e/f=000"}, closed: "ws/a/b/c/d/e/f", opens: ".git"},
		{name: "configuration elsewhere", files: append(repo("ws/.git"), "home/.gitconfig=[include]\npath = x/y\n", "home/x/y=[core]\n"), modes: []string{"home/x=000"}, lost: "$ROOT/home/x/y"},
	} {
		for _, mode := range tt.modes {
			t.Run(tt.name+" "+mode, func(t *testing.T) {
				root := tree(t, append(tt.files, "ws/")...)
				if _, err := protectIn(t, root, nil, "ws"); err != nil {
					t.Fatalf("the control: %v", err)
				}
				closeAll(t, root, mode)
				closed, _, _ := strings.Cut(mode, "=")
				p, err := protectIn(t, root, nil, "ws")
				var bad *policy.FieldError
				switch at := filepath.Join(root, closed); {
				case tt.closed == "" && (err != nil || !strings.Contains(strings.Join(append(p.Unread, p.Lost...), "\n"), strings.ReplaceAll(tt.lost, "$ROOT", root))):
					t.Errorf("unread %q, lost %q, want %q: %v", p.Unread, p.Lost, tt.lost, err)
				case tt.closed != "" && (!errors.As(err, &bad) || !strings.HasPrefix(bad.Reason, at+" cannot be ") || !strings.HasSuffix(bad.Hint, " "+at) || !strings.Contains(bad.Hint, "chmod u+rw")):
					t.Errorf("it says %v", err)
				}
				for _, open := range []string{"*", cmp.Or(tt.opens, "*")} {
					if _, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{open} }, "ws"); err != nil {
						t.Errorf("%s opened: %v", open, err)
					}
				}
			})
		}
	}
}

// A directory that this user may pass through, and not read, is on the way to what is
// protected as any other is, whether commands can change that or not.
func TestProtectBehindUnreadable(t *testing.T) {
	files := append(repo("up/ws/.git", "hooksPath = zz/q\nfsmonitor = ./fsm\n[include]\npath = ../conf/team\n"), "up/ws/zz/q/", "up/ws/fsm", "up/ws/conf/team=[core]\neditor = x/ed\n", "up/ws/x/ed")
	files = append(files, repo("up/ws/a/.git", "fsmonitor = ./fsm\n")...)
	files = append(files, "up/ws/a/fsm", "up/inc=[core]\nsshCommand = x/ssh\n", "up/ws/x/ssh", "home/.gitconfig=[include]\npath = $ROOT/up/inc\n")
	root := tree(t, files...)
	want := []string{"up/ws/.git/config", "up/ws/.git/hooks", "up/ws/a/.git/config", "up/ws/a/.git/hooks", "up/ws/a/fsm", "up/ws/conf/team", "up/ws/fsm", "up/ws/x/ed", "up/ws/x/ssh", "up/ws/zz/q"}
	closeAll(t, root, "up=311", "up/ws/.git=311")
	p, err := protectIn(t, root, nil, "up/ws")
	if guards, _, unread := relative(root, p); err != nil || !slices.Equal(guards, want) || len(unread) > 0 {
		t.Errorf("guards %q\nwant   %q\nunread %q, %v", guards, want, unread, err)
	}
}
