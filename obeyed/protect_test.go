package obeyed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// tree makes files below a new directory, "name=content", directories where a
// name ends in a slash, and links, "name -> target". HOME is below it, so that
// the user's own configuration is not read.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(root, "home"))
	for _, name := range []string{"XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE"} {
		t.Setenv(name, "")
	}
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, f := range append(files, "home/") {
		plant(t, root, f)
	}
	return root
}

func plant(t *testing.T, root, f string) {
	t.Helper()
	name, text, isFile := strings.Cut(f, "=")
	link, target, isLink := strings.Cut(f, " -> ")
	if isLink {
		name = link
	}
	at := filepath.Join(root, name)
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	switch {
	case isLink:
		err = errors.Join(err, os.Symlink(strings.ReplaceAll(target, "$ROOT", root), at))
	case strings.HasSuffix(name, "/"):
		err = errors.Join(err, os.MkdirAll(at, 0o755))
	case isFile:
		err = errors.Join(err, os.WriteFile(at, []byte(strings.ReplaceAll(text, "$ROOT", root)), 0o755))
	default:
		err = errors.Join(err, os.WriteFile(at, nil, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// repo are the files of a repository, with more lines of configuration.
func repo(at string, config ...string) []string {
	return []string{at + "/HEAD=ref: refs/heads/main\n", at + "/objects/", at + "/refs/", at + "/hooks/",
		at + "/config=[core]\n\trepositoryformatversion = 0\n" + strings.Join(config, "")}
}

// protectIn is Protect for a workspace and mounts, all below root and writable.
func protectIn(t *testing.T, root string, change func(*backend.Request), workspace string, mounts ...string) (Protection, error) {
	t.Helper()
	return protectWith(t.Context(), t, root, change, workspace, mounts...)
}

func protectWith(ctx context.Context, t *testing.T, root string, change func(*backend.Request), workspace string, mounts ...string) (Protection, error) {
	t.Helper()
	req := backend.Request{Spec: policy.Spec{Workspace: policy.Workspace{Source: filepath.Join(root, workspace), Mode: policy.ModeBind, Access: "rw"}}}
	for _, m := range mounts {
		req.Spec.Mounts = append(req.Spec.Mounts, policy.Mount{Source: filepath.Join(root, m), Target: "/mnt/" + m, Mode: "rw"})
	}
	if change != nil {
		change(&req)
	}
	found, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err != nil {
		t.Fatal(err)
	}
	return Protect(ctx, req, found, nil)
}

// relative are the paths below root of a protection: what is read-only, what is
// compared alone, and what could not be read.
func relative(root string, p Protection) (guards, watch, unread []string) {
	cut := func(s string) string { return strings.TrimPrefix(s, root+"/") }
	for _, g := range p.Guards {
		guards = append(guards, cut(g.File))
	}
	for _, w := range p.Watch {
		if at := cut(w.Path); !slices.Contains(guards, at) {
			watch = append(watch, at)
		}
	}
	for _, u := range p.Unread {
		unread = append(unread, cut(u))
	}
	slices.Sort(guards)
	return guards, watch, unread
}

// What is protected, by the place of the workspace and of mounts in the tree of
// the host, by links, and by what git's configuration names.
func TestProtect(t *testing.T) {
	ws := repo("ws/.git")
	git := []string{"ws/.git/config", "ws/.git/hooks"}
	for _, tt := range []struct {
		name      string
		files     []string
		workspace string
		mounts    []string
		guards    []string
		watch     []string
		unread    []string
	}{
		{name: "a workspace", files: append(ws, "ws/.envrc", "ws/Makefile", "ws/package.json", "ws/src/.vscode/"), guards: append(git, "ws/.envrc")},
		{name: "nothing", files: []string{"ws/a"}},
		{name: "the repository itself", files: ws, workspace: "ws/.git", guards: git},
		{name: "a part of it", files: append(ws, "ws/.git/objects/info/alternates=/x\n"), workspace: "ws/.git/objects", guards: []string{"ws/.git/objects/info/alternates"}},
		{name: "a part of a project", files: []string{"ws/.config/mise/", "ws/.config/x"}, workspace: "ws/.config", guards: []string{"ws/.config/mise"}},
		{name: "a bare repository", files: repo("ws"), guards: []string{"ws/config", "ws/hooks"}},
		{name: "above it", files: append(repo("ws/x.git"), repo("ws/a/y.git")...), guards: []string{"ws/a/y.git/config", "ws/a/y.git/hooks", "ws/x.git/config", "ws/x.git/hooks"}},
		{name: "a mount of another project", files: append(repo("other/.git"), "ws/", "other/.envrc"), mounts: []string{"other"}, guards: []string{"other/.envrc", "other/.git/config", "other/.git/hooks"}},
		{name: "a mount of the repository alone", files: append(repo("other/.git"), "ws/"), mounts: []string{"other/.git"}, guards: []string{"other/.git/config", "other/.git/hooks"}},
		{name: "a part of a home", files: []string{"home/.config/git/config", "home/.config/fish/", "home/.config/other/"}, workspace: "home/.config", guards: []string{"home/.config/fish", "home/.config/git"}},
		{name: "a home", files: []string{"home/.bashrc", "home/.ssh/", "home/.cargo/config.toml", "home/.cache/"}, workspace: "home", guards: []string{"home/.bashrc", "home/.cargo/config.toml", "home/.ssh"}},
		{name: "what links in directories of a home lead to", files: []string{"ws/gitconfig", "ws/lua/x", "ws/x.fish", "ws/y", "home/.config/git/config -> ../../../ws/gitconfig", "home/.config/nvim/lua -> ../../../ws/lua", "home/.config/fish/conf.d/x.fish -> ../../../../ws/x.fish", "home/.claude/worktrees -> ../../ws/y", "home/.config/other/y -> ../../../ws/y"}, guards: []string{"ws/gitconfig", "ws/lua", "ws/x.fish"}},
		{name: "what a home's links lead to", files: []string{"ws/bashrc", "ws/config/fish/", "home/.bashrc -> ../ws/bashrc", "home/.config/fish -> ../../ws/config/fish"}, guards: []string{"ws/bashrc", "ws/config/fish"}},
		{name: "where people work", files: []string{"ws/.claude/worktrees/x/.envrc", "ws/.claude/settings.json"}, workspace: "ws/.claude/worktrees/x", guards: []string{"ws/.claude/worktrees/x/.envrc"}},

		{name: "a hook that is a link", files: append(ws, "ws/scripts/pc", "ws/.git/hooks/pre-commit -> ../../scripts/pc"), guards: append(git, "ws/scripts/pc")},
		{name: "of a repository outside", files: append(ws, "ws/scripts/pc", "ws/.git/hooks/pre-commit -> ../../scripts/pc"), workspace: "ws/scripts", guards: []string{"ws/scripts/pc"}},
		{name: "over links that stay", files: append(ws, "ws/scripts/pc", "ws/.git/hooks/a -> ../../scripts/pc", "ws/.git/hooks/pre-commit -> a"), guards: append(git, "ws/scripts/pc")},
		{name: "and a nested repository names its directory, too", files: append(append(ws, repo("ws/x/.git", "hooksPath = $ROOT/ws/.git/hooks\n")...), "ws/scripts/pc", "ws/.git/hooks/pre-commit -> ../../scripts/pc"),
			guards: append(git, "ws/scripts/pc", "ws/x/.git/config", "ws/x/.git/hooks")},
		{name: "that is not there yet", files: append(ws, "ws/.git/hooks/pre-commit -> ../../scripts/pc"), guards: git, watch: []string{"ws/scripts/pc"}},
		{name: "of husky", files: append(ws, "ws/pc", "ws/.husky/pre-commit -> ../pc"), guards: append(git, "ws/.husky", "ws/pc")},
		{name: "into what is made anew", files: append(ws, "ws/node_modules/x/y", "ws/.husky/pre-commit -> ../node_modules/x/y"), guards: append(git, "ws/.husky"), watch: []string{"ws/node_modules/x/y"}},

		{name: "core.hooksPath", files: append(repo("ws/.git", "hooksPath = tools/hooks\n"), "ws/tools/hooks/pre-commit -> ../x", "ws/tools/x"), guards: append(git, "ws/tools/hooks", "ws/tools/x")},
		{name: "in an included file", files: append(repo("ws/.git", "[includeIf \"onbranch:never\"]\npath = ../inc\n"), "ws/inc=[core]\nhooksPath = h\n", "ws/h/"), guards: append(git, "ws/h", "ws/inc")},
		{name: "in a file that is not there", files: repo("ws/.git", "[include]\npath = ../inc\n"), guards: git, watch: []string{"ws/inc"}},
		{name: "in config.worktree", files: append(ws, "ws/.git/config.worktree=[core]\nhooksPath = h\n", "ws/h/"), guards: []string{"ws/.git/config", "ws/.git/config.worktree", "ws/.git/hooks", "ws/h"}},
		{name: "on a continued line, without git", files: append(repo("ws/.git", "hooksPath = \\\nh\n"), "ws/h/"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "in a worktree", files: append(repo("repo/.git", "hooksPath = h\n"), "repo/.git/worktrees/w/HEAD=x\n", "repo/.git/worktrees/w/commondir=../..\n", "ws/.git=gitdir: $ROOT/repo/.git/worktrees/w\n", "ws/h/"),
			guards: []string{"ws/.git", "ws/h"}},
		{name: "in a worktree with its repository", files: append(repo("repo/.git"), "repo/.git/worktrees/w/HEAD=x\n", "repo/.git/worktrees/w/commondir=../..\n", "repo/.git/worktrees/w/index", "repo/.git/worktrees/v/HEAD=x\n", "repo/.git/worktrees/v/gitdir=/v/.git\n", "ws/.git=gitdir: $ROOT/repo/.git/worktrees/w\n"),
			mounts: []string{"repo/.git"}, guards: []string{"repo/.git/config", "repo/.git/hooks", "repo/.git/worktrees", "repo/.git/worktrees/w/commondir", "ws/.git"}},
		{name: "in the user's configuration", files: append(ws, "home/.gitconfig=[core]\nhooksPath = .h # by custom\n", "ws/.h/"), guards: append(git, "ws/.h")},
		{name: "there, as a link", files: append(ws, "dot/git=[core]\nhooksPath = ~/../ws/h\n", "home/.gitconfig -> ../dot/git", "ws/h/"), guards: append(git, "ws/h")},
		{name: "in the XDG configuration", files: append(ws, "home/.config/git/config=[core]\nhooksPath = .h\n", "ws/.h/"), guards: append(git, "ws/.h")},
		{name: "in the user's configuration, for what tools make", files: append(append(ws, repo("ws/vendor/x/.git")...), "home/.gitconfig=[core]\nhooksPath = .h\n", "ws/vendor/x/.h/"), guards: git, watch: []string{"ws/.h", "ws/vendor/x/.h"}},
		{name: "there, over a link of a nested repository's", files: append(append(ws, repo("ws/a/b/sub/.git")...), "home/.gitconfig=[core]\nhooksPath = .githooks\nfsmonitor = x/fm\n", "ws/a/b/sub/.githooks -> ../../../h", "ws/h/", "ws/a/b/sub/x -> ../../../h", "ws/h/fm"),
			guards: append(git, "ws/a/b/sub/.git/config", "ws/a/b/sub/.git/hooks"), watch: []string{"ws/.githooks", "ws/a/b/sub/.githooks", "ws/a/b/sub/x", "ws/h/fm", "ws/x/fm"}},
		{name: "there, for what core.worktree names", files: append(repo("store", "worktree = ../ws\n"), "store/x/", "ws/deep/.git=gitdir: ../../store\n", "home/.gitconfig=[core]\nhooksPath = .h\n", "ws/sub/", "ws/.h/"), workspace: "ws",
			guards: []string{"ws/.h"}, watch: []string{"ws/deep/.h"}},
		{name: "for what core.worktree names elsewhere", files: append(append(ws, repo("store", "hooksPath = .h\n")...), "store/config.worktree=[core]\nworktree = ../ws/tree\n", "ws/deep/.git=gitdir: ../../store\n", "ws/tree/.h/", "home/.gitconfig=[core]\nattributesFile = attr\n", "ws/tree/attr"),
			guards: git, watch: []string{"ws/attr", "ws/deep/.h", "ws/deep/attr", "ws/tree/.h", "ws/tree/attr"}},
		{name: "below the prefix", files: append(repo("ws/.git", "hooksPath = %(prefix)/h\n"), "ws/h/"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "that is optional", files: append(repo("ws/.git", "hooksPath = :(optional)h\n"), "ws/h/"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "by way of a process", files: append(repo("ws/.git", "hooksPath = /proc/self/cwd/h\n"), "ws/h/"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "by way of a process, from here", files: append(repo("ws/.git", "hooksPath = ../../../../../../../../../../proc/self/cwd/h\n"), "ws/h/"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "core.fsmonitor by way of a process", files: append(repo("ws/.git", "fsmonitor = /proc/self/cwd/x\n"), "ws/x"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "by way of a descriptor", files: repo("ws/.git", "[include]\npath = /../dev//fd/3\n"), guards: git, unread: []string{"ws/.git/config"}},
		{name: "hooks that are switched off", files: repo("ws/.git", "hooksPath = /dev/null\n"), guards: git},
		{name: "of what encloses the workspace", files: append(repo("ws/.git", "hooksPath = sub/h\n"), "ws/sub/h/"), workspace: "ws/sub", guards: []string{"ws/sub/h"}},
		{name: "core.fsmonitor", files: append(repo("ws/.git", "fsmonitor = sh 'tools/x.sh' -v\n"), "ws/tools/x.sh", "ws/sh"), guards: append(git, "ws/tools/x.sh")},
		{name: "a filter", files: append(repo("ws/.git", "[filter \"x\"]\nclean = sh -c \\\"python3 tools/x.py --rules=tools/r %f\\\"\n"), "ws/tools/x.py", "ws/tools/r", "ws/tools/other"), guards: append(git, "ws/tools/r", "ws/tools/x.py")},
		{name: "a pager that is made anew", files: append(repo("ws/.git", "pager = node_modules/.bin/p\n"), "ws/node_modules/.bin/p -> ../p", "ws/node_modules/p"), guards: git, watch: []string{"ws/node_modules/.bin/p", "ws/node_modules/p"}},
		{name: "an alias", files: append(repo("ws/.git", "[alias]\nx = !tools/x\ny = log tools/y\n"), "ws/tools/x", "ws/tools/y"), guards: git, watch: []string{"ws/tools/x"}},
		{name: "ext::", files: append(repo("ws/.git", "[url \"ext::sh tools/x %S\"]\ninsteadOf = a:\n[remote \"o\"]\nurl = ext::tools/y\n"), "ws/tools/x", "ws/tools/y"), guards: append(git, "ws/tools/x", "ws/tools/y")},
		{name: "an included file that includes itself", files: append(repo("ws/.git", "[include]\npath = ../inc\n"), "ws/inc=[include]\npath = inc\n"), guards: append(git, "ws/inc"), unread: []string{"ws/inc"}},

		{name: "a nested repository", files: append(append(ws, repo("ws/a/b/.git", "hooksPath = h\n")...), "ws/a/b/h/", "ws/a/b/.envrc"), guards: append(git, "ws/a/b/.git/config", "ws/a/b/.git/hooks", "ws/a/b/h")},
		{name: "a submodule", files: append(append(ws, repo("ws/.git/modules/s")...), "ws/s/.git=gitdir: ../.git/modules/s\n"), guards: append(git, "ws/.git/modules/s/config", "ws/.git/modules/s/hooks")},
		{name: "a submodule of a submodule", files: append(append(append(ws, repo("ws/.git/modules/d/s", "worktree = ../../../../s\nhooksPath = h\n")...), repo("ws/.git/modules/d/s/modules/t")...), "ws/s/.git=gitdir: ../.git/modules/d/s\n", "ws/s/h/", "ws/.git/modules/d/s/commondir=.\n", "ws/.git/modules/d/s/info/attributes"),
			guards: append(git, "ws/.git/modules/d/s/config", "ws/.git/modules/d/s/hooks", "ws/.git/modules/d/s/modules/t/config", "ws/.git/modules/d/s/modules/t/hooks", "ws/s/h"), watch: []string{"ws/.git/modules/d/s/h"}},
		{name: "linked worktrees in it and beside it", files: append(ws, "ws/.git/worktrees/w/HEAD=x\n", "ws/.git/worktrees/w/commondir=../..\n", "ws/.git/worktrees/w/gitdir=../../../wt/.git\n", "ws/wt/.git=gitdir: ../.git/worktrees/w\n", "ws/.git/worktrees/v/HEAD=x\n", "ws/.git/worktrees/v/commondir=../..\n",
			"ws/.git/worktrees/v/config.worktree=[core]\nhooksPath = h\n", "ws/.git/worktrees/v/gitdir=$ROOT/ws/far/.git\n", "ws/far/.git=gitdir: ../.git/worktrees/v\n", "ws/far/h/"), guards: append(git, "ws/.git/worktrees/v/config.worktree", "ws/far/h")},
		{name: "a nested repository that names what is not its own", files: append(append(ws, repo("ws/x/.git", "hooksPath = $ROOT/ws/src\nfsmonitor = ../fm\n[include]\npath = $ROOT/ws/.git/index\npath = ../inc\n")...),
			"ws/.git/index=[core]\n", "ws/fm", "ws/run", "ws/src/a", "ws/x/.git/hooks/pre-commit -> ../../../run", "ws/x/inc=[core]\nhooksPath = h\neditor = ../../ws/x/ed\n", "ws/x/h/", "ws/x/ed"),
			guards: append(git, "ws/x/.git/config", "ws/x/.git/hooks", "ws/x/ed", "ws/x/h", "ws/x/inc"), watch: []string{"ws/.git/index", "ws/fm", "ws/run", "ws/src"}},
		{name: "a nested repository that names its worktree", files: append(append(append(ws, repo("ws/x/.git", "worktree = ../../src\nhooksPath = lib\n")...), repo("ws/y/.git")...), "ws/src/lib/", "ws/x/lib/",
			"ws/y/.git/worktrees/v/HEAD=x\n", "ws/y/.git/worktrees/v/commondir=../..\n", "ws/y/.git/worktrees/v/gitdir=$ROOT/ws/src/.git\n", "ws/y/.git/worktrees/v/config.worktree=[core]\nhooksPath = doc\n", "ws/src/doc/"),
			guards: append(git, "ws/x/.git/config", "ws/x/.git/hooks", "ws/x/lib", "ws/y/.git/config", "ws/y/.git/hooks", "ws/y/.git/worktrees/v/config.worktree"), watch: []string{"ws/src/doc", "ws/src/lib"}},
		{name: "in what is made anew", files: append(ws, repo("ws/vendor/x/.git", "hooksPath = h\n")...), guards: git, watch: []string{"ws/vendor/x/h"}},
		{name: "below what is made anew", files: append(append(ws, repo("ws/deps/a/b/c/d/e/repo/.git", "hooksPath = h\nfsmonitor = tools/x\n")...), "ws/deps/a/b/c/d/e/repo/h/", "ws/deps/a/b/c/d/e/repo/tools/x"), guards: git,
			watch: []string{"ws/deps/a/b/c/d/e/repo/h", "ws/deps/a/b/c/d/e/repo/tools/x"}},
		{name: "in a nested repository", files: append(append(append(ws, repo("ws/a/.git")...), repo("ws/a/b/.git", "hooksPath = h\n")...), "ws/a/b/h/"), guards: append(git, "ws/a/.git/config", "ws/a/.git/hooks"), watch: []string{"ws/a/b/h"}},
		{name: "in what looks like a repository", files: append(append(append(ws, repo("ws/a")...), repo("ws/a/objects/b/.git", "hooksPath = h\n")...), "ws/a/objects/b/h/"), guards: append(git, "ws/a/config", "ws/a/hooks"), watch: []string{"ws/a/objects/b/h"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.files...)
			if tt.workspace == "" {
				tt.workspace = "ws"
			}
			p, err := protectIn(t, root, nil, tt.workspace, tt.mounts...)
			if err != nil {
				t.Fatal(err)
			}
			guards, watch, unread := relative(root, p)
			want := slices.Sorted(slices.Values(tt.guards))
			if !slices.Equal(guards, want) || !slices.Equal(watch, tt.watch) || !slices.Equal(unread, tt.unread) {
				t.Errorf("guards %q\nwant   %q\nwatch %q, want %q\nunread %q, want %q", guards, want, watch, tt.watch, unread, tt.unread)
			}
			all, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{"*"} }, tt.workspace, tt.mounts...)
			if err != nil || len(all.Guards)+len(all.Unread)+len(all.Opened)+len(all.Lost) > 0 {
				t.Errorf("all of it opened: %+v, %v", all, err)
			}
			host, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Backend = policy.BackendHost }, tt.workspace, tt.mounts...)
			if err != nil || !reflect.DeepEqual(host.Watch, all.Watch) || len(host.Guards) > 0 {
				t.Errorf("without walls: %+v, %v", host, err)
			}
			if len(tt.unread) == 0 {
				compareAll(t, root, append(guards, watch...), map[string]Protection{"as it is": p, "all of it opened": all}, append(tt.mounts, tt.workspace)...)
			}
		})
	}
}

// compareAll changes what is protected, as commands can where no mount is made for
// it, and looks for all of it in what a comparison finds.
func compareAll(t *testing.T, root string, paths []string, by map[string]Protection, writable ...string) {
	t.Helper()
	before := map[string]*Snapshot{}
	for name, p := range by {
		w := Watch{Homes: p.Homes, Relative: true, Also: p.Watch}
		for _, dir := range writable {
			w.Roots = append(w.Roots, filepath.Join(root, dir))
		}
		before[name] = Take(t.Context(), w)
	}
	for _, path := range paths {
		at := filepath.Join(root, path)
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			plant(t, root, path+"/planted=x")
		} else {
			plant(t, root, path+"=planted")
		}
	}
	for name, s := range before {
		found := s.Compare(t.Context()).List
		for _, path := range paths {
			at := hostpath.Real(filepath.Join(root, path))
			if !slices.ContainsFunc(found, func(c Change) bool {
				_, in := hostpath.Within(c.Path, at)
				_, holds := hostpath.Within(at, c.Path)
				return in || holds
			}) {
				t.Errorf("%s: it is not told that %s has changed: %+v", name, path, found)
			}
		}
	}
}

// A nested repository that the operator has opened is compared, and so is what
// it names, and all beyond the first 64.
func TestProtectNested(t *testing.T) {
	files := append(repo("ws/.git"), repo("ws/sub/.git", "hooksPath = h\n")...)
	files = append(append(files, repo("ws/mirror.git")...), repo("ws/sub/.git/modules/x")...)
	files = append(append(files, repo("ws/.git/modules/m")...), "ws/sub/h/", "ws/m/.git=gitdir: ../.git/modules/m\n")
	main := []string{"ws/.git/config", "ws/.git/hooks"}
	module, mirror := []string{"ws/.git/modules/m/config", "ws/.git/modules/m/hooks"}, []string{"ws/mirror.git/config", "ws/mirror.git/hooks"}
	sub := []string{"ws/sub/.git/config", "ws/sub/.git/hooks", "ws/sub/.git/modules/x/config", "ws/sub/.git/modules/x/hooks", "ws/sub/h"}
	for _, tt := range []struct {
		open   string
		guards []string
		watch  []string
	}{
		{"sub/h", slices.Concat(main, module, mirror, sub), nil},
		{"sub/.git", slices.Concat(main, module, mirror), []string{"ws/sub/h"}},
		{"mirror.git", slices.Concat(main, module, sub), nil},
		{".git/modules", slices.Concat(main, mirror, sub[:2], sub[4:]), nil},
		{"ws/.git", slices.Concat(main, module, mirror, sub), nil},
	} {
		root := tree(t, files...)
		p, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{tt.open} }, "ws")
		if guards, watch, _ := relative(root, p); err != nil || !slices.Equal(guards, tt.guards) || !slices.Equal(watch, tt.watch) {
			t.Errorf("%s opened: guards %q\nwant %q\nwatch %q, want %q; %v", tt.open, guards, tt.guards, watch, tt.watch, err)
		}
	}

	files = repo("ws/.git")
	for i := range 100 {
		files = append(append(files, repo(fmt.Sprintf("ws/v%d/.git", i))...), repo(fmt.Sprintf("ws/.git/modules/m%d", i))...)
	}
	root := tree(t, files...)
	p, err := protectIn(t, root, nil, "ws")
	if guards, _, _ := relative(root, p); err != nil || len(guards) != 2*(maxNested+1) {
		t.Errorf("of 200 nested repositories %d paths are read-only: %v", len(guards), err)
	}
}

// Directories that commands make hide no repository from the next start, or it
// is told.
func TestProtectMany(t *testing.T) {
	hidden := append(repo("ws/zz/repo/.git", "hooksPath = hk\n"), "ws/zz/repo/hk/")
	many := slices.Clone(hidden)
	for i := range 300 {
		many = append(many, fmt.Sprintf("ws/d%d/", i))
	}
	root := tree(t, many...)
	p, err := protectIn(t, root, nil, "ws")
	if _, watch, _ := relative(root, p); err != nil || !slices.Equal(watch, []string{"ws/zz/repo/hk"}) || len(p.Lost) > 0 {
		t.Errorf("300 directories: watch %q, lost %q, %v", watch, p.Lost, err)
	}
	root = tree(t, hidden...)
	for i := range maxSearched {
		if err := os.Mkdir(filepath.Join(root, "ws", fmt.Sprintf("d%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, err = protectIn(t, root, nil, "ws")
	if err != nil || len(p.Lost) != 1 || !strings.Contains(p.Lost[0], root+"/ws has more directories") {
		t.Errorf("%d directories: lost %q, %v", maxSearched, p.Lost, err)
	}
}

// What is a protected path, or lies in one, is no workspace.
func TestProtectRefuses(t *testing.T) {
	files := append(repo("ws/.git"), "ws/.git/modules/s/", "ws/.git/worktrees/w/", "ws/.vscode/x/", "ws/.claude/worktrees/", "home/.ssh/", "home/.config/systemd/user/x/", "ws/.envrc", "ws/.husky/_/")
	files = append(files, repo("bare")...)
	for path, name := range map[string]string{
		"ws/.git/hooks": ".git/hooks", "ws/.git/modules/s": ".git/modules", "ws/.git/worktrees": ".git/worktrees", "ws/.vscode": ".vscode", "ws/.vscode/x": ".vscode",
		"ws/.claude": ".claude", "home/.ssh": ".ssh", "home/.config/systemd/user/x": ".config/systemd/user", "bare/hooks": ".git/hooks", "ws/.husky/_": ".husky",
	} {
		t.Run(path, func(t *testing.T) {
			root := tree(t, append(files, "plain/")...)
			_, err := protectIn(t, root, nil, path)
			var bad *policy.FieldError
			if !errors.As(err, &bad) || bad.Field != "workspace.source" || !strings.Contains(bad.Hint, "`workspace.unprotected` "+name) {
				t.Errorf("as the workspace: %v", err)
			}
			_, err = protectIn(t, root, func(r *backend.Request) { r.NoLinks = true }, "plain", path)
			if !errors.As(err, &bad) || bad.Field != "mounts" || !strings.Contains(bad.Hint, "`workspace.unprotected` "+name) {
				t.Errorf("as a mount of somebody else's: %v", err)
			}
			p, err := protectIn(t, root, nil, "plain", path)
			if err != nil || len(p.Opened) != 1 || !strings.Contains(p.Opened[0], path) {
				t.Errorf("as the operator's mount: %q, %v", p.Opened, err)
			}
			for _, f := range []func(*backend.Request){
				func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{name} },
				func(r *backend.Request) { r.Spec.Workspace.Access = "ro" },
				func(r *backend.Request) { r.Spec.Workspace.Mode = policy.ModeCopy },
			} {
				if _, err := protectIn(t, root, f, path); err != nil {
					t.Errorf("opened, or only read: %v", err)
				}
			}
		})
	}
	root := tree(t, files...)
	for _, path := range []string{"ws", "ws/.git", "ws/.claude/worktrees", "home", "home/.config", "bare", "bare/objects"} {
		if _, err := protectIn(t, root, nil, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What the host obeys under another name is no workspace either: what a link of
// the host, or its configuration, leads to, and what lies in that.
func TestProtectRefusesWhatLeads(t *testing.T) {
	ws := repo("ws/.git")
	for name, tt := range map[string]struct {
		files []string
		paths []string // the first is what leads there
		hint  string
	}{
		"a link in the repository":   {append(repo("ws/.git")[:3:3], "ws/.git/config=[core]\n", "ws/.git/hooks -> ../githooks", "ws/githooks/x/"), []string{"ws/githooks", "ws/githooks/x"}, ".git/hooks"},
		"a link of a project":        {append(ws, "ws/.vscode -> cfg/vscode", "ws/cfg/vscode/x/"), []string{"ws/cfg/vscode", "ws/cfg/vscode/x"}, ".vscode"},
		"a link of a home":           {[]string{"home/.config/fish -> ../dot/fish", "home/dot/fish/conf.d/"}, []string{"home/dot/fish", "home/dot/fish/conf.d"}, ".config/fish"},
		"behind a link of a home":    {[]string{"home/.config -> dot/config", "home/dot/config/fish/conf.d/"}, []string{"home/dot/config/fish", "home/dot/config/fish/conf.d"}, ".config/fish"},
		"the user's configuration":   {append(ws, "home/.gitconfig=[init]\ntemplateDir = $ROOT/ws/tmpl\n", "ws/tmpl/hooks/"), []string{"ws/tmpl", "ws/tmpl/hooks"}, ".gitconfig"},
		"below core.hooksPath":       {append(repo("ws/.git", "hooksPath = tools/hooks\n"), "ws/tools/hooks/x/"), []string{"ws/tools/hooks/x"}, ".git/config"},
		"a file that is included":    {append(repo("ws/.git", "[include]\npath = ../team.inc\n"), "ws/team.inc=[core]\n"), []string{"ws/team.inc"}, ".git/config"},
		"a hook that is a link":      {append(ws, "ws/scripts/pc", "ws/.git/hooks/pre-commit -> ../../scripts/pc"), []string{"ws/scripts/pc"}, ".git/hooks"},
		"a script that a key names":  {append(repo("ws/.git", "fsmonitor = $ROOT/ws/tools/x\n"), "ws/tools/x"), []string{"ws/tools/x"}, ".git/config"},
		"a file of a link's project": {append(ws, "ws/.vscode -> cfg/vscode", "ws/cfg/vscode/tasks.json"), []string{"ws/cfg/vscode/tasks.json"}, ".vscode"},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, append(tt.files, "plain/")...)
			for _, path := range tt.paths {
				info, err := os.Stat(filepath.Join(root, path))
				if err != nil {
					t.Fatal(err)
				}
				var bad *policy.FieldError
				if info.IsDir() {
					if _, err := protectIn(t, root, nil, path); !errors.As(err, &bad) || bad.Field != "workspace.source" || !strings.Contains(bad.Hint, "`workspace.unprotected` "+tt.hint) {
						t.Errorf("%s as the workspace: %v", path, err)
					}
				}
				workspaces := []string{"plain"}
				if !info.IsDir() {
					workspaces = append(workspaces, "ws")
				}
				for _, workspace := range workspaces {
					_, err = protectIn(t, root, func(r *backend.Request) { r.NoLinks = true }, workspace, path)
					if !errors.As(err, &bad) || bad.Field != "mounts" || !strings.Contains(bad.Hint, "`workspace.unprotected` "+tt.hint) {
						t.Errorf("%s as a mount of somebody else's beside %s: %v", path, workspace, err)
					}
					p, err := protectIn(t, root, nil, workspace, path)
					if err != nil || len(p.Opened) != 1 || !strings.Contains(p.Opened[0], path) || !slices.ContainsFunc(p.Watch, func(o policy.Obeyed) bool { return o.Path == filepath.Join(root, path) }) {
						t.Errorf("%s as the operator's mount beside %s: %q, %v, %v", path, workspace, p.Opened, p.Watch, err)
					}
				}
				if _, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{tt.hint} }, "plain", path); err != nil {
					t.Errorf("%s, opened: %v", path, err)
				}
			}
		})
	}
	root := tree(t, append(ws, "ws/.claude -> cfg/claude", "ws/cfg/claude/worktrees/x/", "ws/.vscode -> cfg/vscode", "ws/cfg/vscode/")...)
	if _, err := protectIn(t, root, nil, "ws/cfg/claude/worktrees/x"); err != nil {
		t.Errorf("where people work: %v", err)
	}
	p, err := protectIn(t, root, nil, "ws/cfg")
	if guards, _, _ := relative(root, p); err != nil || !slices.Contains(guards, "ws/cfg/vscode") {
		t.Errorf("what a link above leads to: %q, %v", guards, err)
	}
}

// Names that commands chose do not reach a terminal as they are.
func TestProtectPrintable(t *testing.T) {
	const evil = "e\x1b]0;x\a\n\xff"
	for name, tt := range map[string]struct {
		files     []string
		workspace string
		mounts    []string
	}{
		"a link to a workspace":      {[]string{"ws/.vscode -> " + evil, "ws/" + evil + "/"}, "ws/" + evil, nil},
		"a mount of a linked file":   {append(repo("o/.git"), "ws/", "o/.git/hooks/pre-commit -> ../../"+evil, "o/"+evil), "ws", []string{"o/" + evil}},
		"a link between":             {append(repo("ws/.git", "hooksPath = \"l/e\"\n"), "ws/l -> "+evil, "ws/"+evil+"/e/"), "ws", nil},
		"a directory of its project": {append(repo("ws/"+evil+"/.git"), "ws/"), "ws/" + evil + "/.git/hooks", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, tt.files...)
			p, err := protectIn(t, root, nil, tt.workspace, tt.mounts...)
			said := strings.Join(append(p.Opened, p.Lost...), "; ")
			var bad *policy.FieldError
			if errors.As(err, &bad) {
				said += bad.Error() + bad.Hint
			}
			if said == "" || strings.ContainsFunc(said, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(said) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// A link that commands could replace protects nothing.
func TestProtectLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		hint  string
	}{
		"the repository":            {append(repo("ws/real"), "ws/.git -> real"), "`workspace.unprotected` .git"},
		"a parent of hooksPath":     {append(repo("ws/.git", "hooksPath = l/h\n"), "ws/l -> m", "ws/m/h/"), "`workspace.unprotected` .git/config"},
		"between a hook and a file": {append(repo("ws/.git"), "ws/l -> m", "ws/m/pc", "ws/.git/hooks/pre-commit -> ../../l/pc"), "`workspace.unprotected` .git/hooks"},
		"an included file":          {append(repo("ws/.git", "[include]\npath = ../inc\n"), "ws/inc -> inc2", "ws/inc2"), "`workspace.unprotected` .git/config"},
		"hooksPath as a whole":      {repo("ws/.git", "hooksPath = .\n"), "`workspace.unprotected` .git/config"},
		"a gitdir":                  {append(repo("ws/x"), "ws/l -> x", "ws/.git=gitdir: l\n"), "`workspace.unprotected` .git"},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, tt.files...)
			_, err := protectIn(t, root, nil, "ws")
			var bad *policy.FieldError
			if !errors.As(err, &bad) || bad.Field != "workspace.source" || !strings.Contains(bad.Hint, tt.hint) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Links of a project's own, as people who keep their settings elsewhere have them, do
// not hold up a start: what they lead to in a mount is read-only, and results tell of
// the links, which commands can replace.
func TestProtectLinksOfProjects(t *testing.T) {
	for name, tt := range map[string]struct {
		files  []string
		guards []string
		lost   []string
	}{
		"a file":            {[]string{"ws/.envrc -> dot/envrc", "ws/dot/envrc"}, []string{"ws/dot/envrc"}, []string{".envrc"}},
		"a directory":       {[]string{"ws/.vscode -> other", "ws/other/tasks.json"}, []string{"ws/other"}, []string{".vscode"}},
		"out of the mount":  {[]string{"ws/.claude -> ../dot/claude", "dot/claude/settings.json"}, nil, []string{".claude"}},
		"over another link": {[]string{"ws/.envrc -> a", "ws/a -> b", "ws/b"}, []string{"ws/b"}, []string{".envrc"}},
		"nowhere":           {[]string{"ws/.envrc -> /nowhere", "ws/.vscode -> gone"}, nil, nil},
		"to itself":         {[]string{"ws/.envrc -> .envrc"}, nil, nil},
		"a parent":          {[]string{"ws/.github -> gh", "ws/gh/", "ws/.idea -> ../dot/idea", "dot/idea/workspace.xml"}, nil, []string{".idea"}},
		"beside a plain one": {append(repo("ws/.git"), "ws/.envrc -> x", "ws/x", "ws/.vscode/tasks.json"),
			[]string{"ws/.git/config", "ws/.git/hooks", "ws/.vscode", "ws/x"}, []string{".envrc"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, append(tt.files, "ws/")...)
			p, err := protectIn(t, root, nil, "ws")
			if err != nil {
				t.Fatal(err)
			}
			if got, _, _ := relative(root, p); !slices.Equal(got, tt.guards) {
				t.Errorf("guards %q, want %q", got, tt.guards)
			}
			var lost []string
			for _, l := range p.Lost {
				lost = append(lost, strings.TrimSuffix(l, " is a symbolic link, which commands can replace: it is compared when they have ended"))
			}
			if slices.Sort(lost); !slices.Equal(lost, tt.lost) {
				t.Errorf("lost %q, want %q", p.Lost, tt.lost)
			}
		})
	}
}

// ".git" that is a link is opened by its name.
func TestUnprotectGit(t *testing.T) {
	for name, files := range map[string][]string{
		"a link":      append(repo("ws/real"), "ws/.git -> real"),
		"a file":      append(repo("ws/real"), "ws/.git=gitdir: real\n"),
		"a directory": repo("ws/.git"),
	} {
		root := tree(t, append(files, "ws/.envrc")...)
		p, err := protectIn(t, root, func(r *backend.Request) { r.Spec.Workspace.Unprotected = []string{".git"} }, "ws")
		if got, _, _ := relative(root, p); err != nil || !slices.Equal(got, []string{"ws/.envrc"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Nothing that commands could have put in the place of a file holds up a start.
func TestProtectHostile(t *testing.T) {
	kinds := map[string]func(at string) error{
		"fifo":   func(at string) error { return unix.Mkfifo(at, 0o666) },
		"sparse": func(at string) error { return errors.Join(os.WriteFile(at, nil, 0o644), os.Truncate(at, 10<<30)) },
		"socket": func(at string) error { return unix.Mknod(at, unix.S_IFSOCK|0o666, 0) },
		"loop":   func(at string) error { return os.Symlink(filepath.Base(at), at) },
		"zero":   func(at string) error { return os.Symlink("/dev/zero", at) },
		"dir":    func(at string) error { return os.Mkdir(at, 0o755) },
	}
	for kind, create := range kinds {
		for _, place := range []string{"ws/.git", "ws/.git/config", "ws/.git/config.worktree", "ws/.git/commondir", "ws/inc", "ws/.git/hooks", "ws/sub/.git", "ws/sub/.git/config", "home/.gitconfig"} {
			t.Run(kind+" for "+strings.ReplaceAll(place, "/", "|"), func(t *testing.T) {
				root := tree(t, append(append(repo("ws/.git", "[include]\npath = ../inc\n"), repo("ws/sub/.git")...), "ws/inc", "home/.gitconfig")...)
				at := filepath.Join(root, place)
				if err := errors.Join(os.RemoveAll(at), create(at)); err != nil {
					t.Fatal(err)
				}
				p, err := protectIn(t, root, nil, "ws") // that it returns is the test
				var bad *policy.FieldError
				if err != nil && (!errors.As(err, &bad) || bad.Hint == "") {
					t.Errorf("%v", err)
				}
				if strings.HasPrefix(place, "ws/.git/config") && kind != "dir" && err == nil {
					t.Errorf("it is taken: %+v", p)
				}
			})
		}
	}
}

// Configuration that names more than anybody looks at ends in a start that says
// so, also where each worktree that it names multiplies it.
func TestProtectManyNames(t *testing.T) {
	lines := func(format string) string {
		var b strings.Builder
		for i := range 30000 {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	worktrees := lines("worktree=/w%d\n")
	for name, config := range map[string]string{
		"worktrees":           worktrees,
		"directories":         lines("hooksPath=h%d\n"),
		"directories in each": worktrees + lines("hooksPath=h%d\n"),
		"words":               strings.Repeat("pager="+strings.Repeat("a/b ", maxWords-1)+"\n", 400),
		"includes":            "[include]\n" + lines("path=h%d\n"),
	} {
		t.Run(name, func(t *testing.T) {
			files := append(repo("ws/sub/.git", config), repo("ws/.git", "hooksPath = tools\n")...)
			root := tree(t, append(files, "ws/tools/", "ws/sub/x", "home/.gitconfig=[core]\nattributesFile = attr\n", "ws/attr")...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p, err := protectWith(ctx, t, root, nil, "ws")
			guards, _, unread := relative(root, p)
			if want := []string{"ws/.git/config", "ws/.git/hooks", "ws/attr", "ws/sub/.git/config", "ws/sub/.git/hooks", "ws/tools"}; err != nil || !slices.Equal(guards, want) {
				t.Errorf("guards %q, want %q: %v", guards, want, err)
			}
			if want := name != "includes" && name != "directories"; slices.Equal(unread, []string{"ws/sub/.git/config"}) != want {
				t.Errorf("unread %q", unread)
			}
			if len(p.Watch) > 2*maxLooks {
				t.Errorf("%d paths are watched", len(p.Watch))
			}
		})
	}
}

// What commands have made keeps no configuration of the user's from being read, nor
// what it names from being guarded.
func TestProtectUserFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		repositories, many int
		each               string // of many lines of configuration
		made               string // what the line names
	}{
		"more repositories than are read": {maxRepositories + 6, 0, "", ""},
		"more than git parses":            {maxParsed + 4, 1, "pager = \\\nless%d\n", ""},
		"more names than are guarded":     {maxNested, 5, "hooksPath = h%d\n", "h%d/"},
		"more files than are read":        {1, maxConfigFiles, "[include]\npath = %d\n", ".git/%d"},
	} {
		t.Run(name, func(t *testing.T) {
			files := append(repo("ws/.git"), "ws/hk/pre-commit", "home/.gitconfig=[core]\n\thooksPath = $ROOT/ws/\\\nhk\n")
			for i := range tt.repositories {
				config := fmt.Sprintf("# %d\n", i)
				for n := range tt.many {
					config += fmt.Sprintf(tt.each, n)
					if tt.made != "" {
						files = append(files, fmt.Sprintf("ws/v%d/"+tt.made, i, n))
					}
				}
				files = append(files, repo(fmt.Sprintf("ws/v%d/.git", i), config)...)
			}
			root := tree(t, files...)
			req := backend.Request{Spec: policy.Spec{Workspace: policy.Workspace{Source: filepath.Join(root, "ws"), Mode: policy.ModeBind, Access: "rw"}}}
			mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Protect(t.Context(), req, mounts, func(_ context.Context, text []byte) ([]byte, error) {
				if strings.Contains(string(text), "hooksPath") {
					return []byte("core.hookspath\n" + root + "/ws/hk\x00"), nil
				}
				return nil, nil
			})
			guards, _, unread := relative(root, p)
			if err != nil || !slices.Contains(guards, "ws/hk") || slices.Contains(unread, "home/.gitconfig") {
				t.Errorf("unread %q, %d guards, %v", unread, len(guards), err)
			}
		})
	}
}

// A word of the user's configuration that may be a file of the repository has
// each new repository matter; options, and what lies outside, do not.
func TestProtectRelative(t *testing.T) {
	for config, want := range map[string]bool{
		"[core]\nfsmonitor = sh fsm.sh\n":                       true,
		"[core]\nfsmonitor = tools/x\n":                         true,
		"[credential]\nhelper = \"!sh -c 'python3 x.py'\"\n":    true,
		"[filter \"x\"]\nclean = X=1 perl -w x.pl\n":            true,
		"[core]\nhooksPath = h\n":                               true,
		"[core]\nfsmonitor = true\neditor = vim\n":              false,
		"[core]\npager = less -FRX --tabs=4\n":                  false,
		"[credential]\nhelper = cache --timeout=3600\n":         false,
		"[core]\nsshCommand = ssh -i ~/.ssh/key -F /etc/x\n":    false,
		"[alias]\nx = !sh x.sh\n[user]\nname = somebody else\n": false,
	} {
		root := tree(t, append(repo("ws/.git", "fsmonitor = sh x.sh\n"), "home/.gitconfig="+config)...)
		if p, err := protectIn(t, root, nil, "ws"); err != nil || p.Relative != want {
			t.Errorf("%q: %v, want %v: %v", config, p.Relative, want, err)
		}
	}
}

// A directory for layers that the sandbox does not see has nothing to protect; that it is named like
// one, or holds what a layer holds, says nothing.
func TestProtectCovered(t *testing.T) {
	root := tree(t, slices.Concat(repo("ws/real/paddock-x/sub/.git"), repo("ws/fake/paddock-x/sub/.git"))...)
	if err := os.Chmod(root+"/ws/real", 0o700); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(root, "ws", "real", "paddock-x", "0", "work", "work")
	if err := errors.Join(os.MkdirAll(closed, 0o755), os.Chmod(closed, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	p, err := protectIn(t, root, func(req *backend.Request) {
		req.Own = []backend.OwnFile{{Path: root + "/ws/real", Field: "workspace.layers", What: "a directory for layers", Hidden: true, Dir: true, Spare: true}}
	}, "ws")
	if err != nil {
		t.Fatal(err)
	}
	guards, _, _ := relative(root, p)
	if text := strings.Join(guards, " "); strings.Contains(text, "real/") || !strings.Contains(text, "fake/paddock-x/sub/.git/config") {
		t.Errorf("guards %q", guards)
	}
}
