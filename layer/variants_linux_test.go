package layer

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// variant is a scene by the mind of somebody who wants programs of the host to run what commands
// wrote, or of a user who wants no file to be lost. The properties hold after each commit; and:
type variant struct {
	name string
	scene
	held  string // is held back by the last commit
	lands string // lands by one of the commits
	has   string // the source has it at the end: PATH=CONTENT
}

func (v variant) run(t *testing.T, s *stage, marks Marks) {
	out, err := s.play(t, v.scene, marks, true)
	if errors.Is(err, errNoOverlay) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range out.violations {
		t.Error(violation)
	}
	if len(out.commits) == 0 {
		t.Fatal("nothing was committed")
	}
	last := &out.commits[len(out.commits)-1]
	for p := range strings.FieldsSeq(v.held) {
		if !last.held(p) {
			t.Errorf("%s is not held back: %+v", p, last.result.Held)
		}
	}
	for p := range strings.FieldsSeq(v.lands) {
		landed := false
		for _, c := range out.commits {
			landed = landed || c.landed(p)
		}
		if !landed {
			t.Errorf("%s has not landed; held are %+v", p, last.result.Held)
		}
	}
	for is := range strings.FieldsSeq(v.has) {
		p, text, _ := strings.Cut(is, "=")
		if out.source[p] != "="+text {
			t.Errorf("the source has %q at %s, want %q", out.source[p], p, text)
		}
	}
}

// What the host obeys stays as it is, however what commands want is put together from parts, over
// links, in several commits; and no file is lost when it is moved to where it is left out.
func TestCommitVariants(t *testing.T) {
	noSync(t)
	s := newStage(t)
	for _, v := range variants() {
		for _, marks := range marksHere() {
			v.names = false
			t.Run(v.name+"/"+string(marks), func(t *testing.T) { v.run(t, s, marks) })
			v.names = true
			t.Run(v.name+"/"+string(marks)+"/names", func(t *testing.T) { v.run(t, s, marks) })
		}
	}
	if os.Geteuid() != 0 {
		t.Log("as root, overlays that rename directories are tried too")
	}
}

// variants returns the scenes of TestCommitVariants.
func variants() []variant {
	list := []variant{
		// What lands is not what was screened: a part of the changes is left out.
		{name: "a repository completed by a removal that is held", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"mkdir d/objects/.mise", "mkdir d/refs", "write d/config evil", "commit", "layer", "rm d/objects", "write d/HEAD ref:", "commit"}}},
		{name: "the same with a file of the host in it", scene: scene{
			source: []string{"d/objects/.envrc mine"},
			steps:  []string{"mkdir d/refs", "write d/config evil", "rm d/objects", "write d/HEAD ref:", "commit"}}, held: "d/objects"},
		{name: "a repository in chosen parts", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"mkdir d/objects", "mkdir d/refs", "write d/config evil", "write d/HEAD ref:", "commit d/objects d/refs d/config", "commit"}}, held: "d/HEAD"},
		{name: "a repository whose HEAD lands first", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"write d/HEAD ref:", "write d/config evil", "commit", "layer", "mkdir d/objects", "mkdir d/refs", "commit"}}},
		{name: "a repository of parts that are moved together", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"mkdir x/objects", "write y/refs/z 1", "write y/HEAD ref:", "write y/config evil", "commit", "layer", "mv x/objects y/objects", "commit"}}},
		{name: "a repository by a link to its objects", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"mkdir o/x", "mkdir y/refs", "write y/HEAD ref:", "write y/config evil", "commit", "layer", "ln y/objects ../o", "commit"}}},
		{name: "a worktree whose HEAD is left out by a conflict", scene: scene{
			source: []string{"d/HEAD ref:"},
			steps:  []string{"rm d/HEAD", "write d/commondir ../evil", "host write d/HEAD mine", "commit -skip"}}},
		{name: "a worktree whose HEAD stays, not chosen", scene: scene{
			source: []string{"d/HEAD ref:"},
			steps:  []string{"rm d/HEAD", "write d/commondir ../evil", "commit d/commondir"}}, held: "d/commondir"},
		{name: "a link over one that is held", scene: scene{
			source: []string{"lib/x 1", "a/b/c/.git/HEAD ref:", "a/b/c/.git/config mine"},
			steps:  []string{"ln lib a/b/c/.git", "ln out lib/../../profile", "commit"}}, held: "lib out"},
		{name: "a link over one that is not chosen", scene: scene{
			source: []string{"lib/x 1", "a/b/f 1"},
			steps:  []string{"ln lib a/b", "ln out lib/../../profile", "commit out"}}, held: "out"},
		{name: "a link over one that a conflict leaves out", scene: scene{
			source: []string{"lib/x 1", "a/b/f 1"},
			steps:  []string{"ln lib a/b", "ln out lib/../../profile", "host write lib/x mine", "commit -skip"}}, has: "lib/x=mine"},
		{name: "a link over a directory whose removal is held", scene: scene{
			source: []string{"lib/deep/.envrc mine", "lib/deep/x 1"},
			steps:  []string{"rm lib", "mkdir a/b/c", "ln lib a/b/c", "ln out lib/../../../profile", "commit"}}, held: "lib"},
		{name: "what a link shows whose removal is held", scene: scene{
			source: []string{"sub/.vscode ->../shared", "shared/f 1"},
			steps:  []string{"rm sub/.vscode", "write shared/tasks.json evil", "commit"}}, held: "shared/tasks.json"},
		{name: "what a link shows whose removal is not chosen", scene: scene{
			source: []string{"sub/.vscode ->../shared", "shared/f 1"},
			steps:  []string{"rm sub/.vscode", "write shared/tasks.json evil", "commit shared"}}, held: "shared/tasks.json"},
		{name: "what a link to a file shows whose removal is held", scene: scene{
			source: []string{"sub/.envrc ->../env/rc", "env/rc mine"},
			steps:  []string{"rm sub/.envrc", "write env/rc evil", "commit"}}, held: "env/rc"},
		{name: "what a link shows that is to become a directory", scene: scene{
			source: []string{".vscode ->conf", "conf/f 1"},
			steps:  []string{"rm .vscode", "mkdir .vscode", "write .vscode/README 1", "write conf/tasks.json evil", "commit"}}, held: "conf/tasks.json"},
		{name: "what a link shows that is to lead elsewhere", scene: scene{
			source: []string{".vscode ->conf", "conf/f 1", "other/f 1"},
			steps:  []string{"ln .vscode other", "write conf/tasks.json evil", "commit"}}, held: "conf/tasks.json"},
		{name: "what a link in a removed directory shows", scene: scene{
			source: []string{"sub/deep/.mcp.json ->../../shared/mcp", "shared/mcp mine"},
			steps:  []string{"rm sub", "write shared/mcp evil", "commit"}}, held: "sub shared/mcp"},
		{name: "what a link in a renamed directory shows", scene: scene{
			source: []string{"sub/.mcp.json ->../shared/mcp", "shared/mcp mine"},
			steps:  []string{"mv sub bus", "write shared/mcp evil", "commit"}}, held: "shared/mcp"},
		{name: "what two links show whose removals are held", scene: scene{
			source: []string{"a/.vscode ->../shared", "b/.mcp.json ->../shared/mcp", "shared/mcp mine"},
			steps:  []string{"rm a", "rm b", "write shared/mcp evil", "write shared/tasks.json evil", "commit"}}, held: "shared/mcp shared/tasks.json"},
		{name: "what a named link shows whose removal is held", scene: scene{
			source: []string{"hooks ->tools", "tools/pre-push *mine"}, named: []string{"hooks"},
			steps: []string{"rm hooks", "exec tools/pre-commit evil", "commit"}}, held: "tools/pre-commit"},
		{name: "what a link of a home shows whose removal is held", scene: scene{
			source: []string{"home/.bashrc ->../dot/bashrc", "dot/bashrc mine"}, homes: []string{"home"},
			steps: []string{"rm home/.bashrc", "write dot/bashrc evil", "commit"}}, held: "dot/bashrc"},
		{name: "a repository in the directory of an editor", scene: scene{
			source: []string{".vscode/settings.json mine"},
			steps:  []string{"write .vscode/.git/objects/x 1", "write .vscode/.git/HEAD ref:", "commit"}}},
		{name: "what is obeyed in a directory that people run by name", scene: scene{
			source: []string{"bin/x/.mise/f mine"}, homes: []string{"."},
			steps: []string{"mkdir bin/x/.mise/f", "commit"}}},
		{name: "the same, removed", scene: scene{
			source: []string{"bin/x/.envrc mine"}, homes: []string{"."},
			steps: []string{"rm bin/x/.envrc", "commit"}}},
		{name: "an empty directory for a file that is obeyed", scene: scene{
			source: []string{".mise/tasks mine"},
			steps:  []string{"mkdir .mise/tasks", "commit"}}, held: ".mise/tasks"},

		// No file is lost.
		{name: "a renamed directory with a program's name in it", scene: scene{
			source: []string{"src/ls *mine", "src/a 1"}, outside: []string{"bin/ls *x"}, search: []string{"{OUT}/bin"},
			steps: []string{"mv src dst", "commit"}}},
		{name: "a renamed directory with a link that leads out", scene: scene{
			source: []string{"src/a 1", "src/out ->{OUT}/profile", "src/deep/b 2"}, outside: []string{"profile x"},
			steps: []string{"mv src dst", "commit"}}},
		{name: "a renamed directory with a new link that leads out", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"}, outside: []string{"profile x"},
			steps: []string{"mv src dst", "ln dst/out {OUT}/profile", "commit"}}},
		{name: "a renamed directory in conflict", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src dst", "host write dst/a mine", "commit -skip"}}, has: "dst/a=mine"},
		{name: "a renamed directory of which the host changed a file", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src dst", "host write src/a mine", "commit -skip"}}, has: "src/a=mine"},
		{name: "the old place of a renamed directory alone", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src dst", "commit src"}}, has: "src/a=1 src/deep/b=2"},
		{name: "the new place of a renamed directory alone", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src dst", "commit dst"}}, lands: "dst", has: "dst/a=1 dst/deep/b=2"},
		{name: "a part of the new place", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src/a dst/a", "mv src/deep/b dst/b", "commit src dst/a"}}, has: "src/deep/b=2"},
		{name: "a file renamed to what is obeyed", scene: scene{
			source: []string{"notes 1"},
			steps:  []string{"mv notes .envrc", "commit"}}, held: ".envrc", has: "notes=1"},
		{name: "a file renamed to what is obeyed, and made anew", scene: scene{
			source: []string{"run 1"},
			steps:  []string{"mv run sub/.envrc", "write run 2", "commit"}}, held: "sub/.envrc"},
		{name: "a directory renamed into what is obeyed", scene: scene{
			source: []string{"src/a 1", "src/deep/b 2"},
			steps:  []string{"mv src .vscode", "commit"}}, has: "src/a=1 src/deep/b=2"},
		{name: "a directory renamed into a new one that is held", scene: scene{
			source: []string{"src/a 1"},
			steps:  []string{"mv src .git/src", "commit"}}, has: "src/a=1"},
		{name: "directories that change places, and one is chosen", scene: scene{
			source: []string{"a/x 1", "b/y 2"},
			steps:  []string{"mv a t", "mv b a", "mv t b", "commit a"}}},
		{name: "files that change places, and one is chosen", scene: scene{
			source: []string{"a 1", "b 2"},
			steps:  []string{"mv a t", "mv b a", "mv t b", "commit a"}}},
		{name: "a directory renamed and edited", scene: scene{
			source: []string{"src/a 1", "src/b 2", "src/c 3"}, outside: []string{"bin/ls *x"}, search: []string{"{OUT}/bin"},
			steps: []string{"mv src dst", "write dst/a 11", "exec dst/ls x", "rm dst/b", "commit"}}, has: "dst/a=11 dst/c=3"},
		{name: "a directory renamed twice, in two layers", scene: scene{
			source: []string{"src/ls *mine", "src/a 1"}, outside: []string{"bin/ls *x"}, search: []string{"{OUT}/bin"},
			steps: []string{"mv src/a mid/a", "commit", "layer", "mv src dst", "mv mid dst/mid", "commit -half 3", "commit"}}},
		{name: "a directory renamed over another", scene: scene{
			source: []string{"src/ls *mine", "dst/b 2"}, outside: []string{"bin/ls *x"}, search: []string{"{OUT}/bin"},
			steps: []string{"mv src dst", "commit"}}},
		{name: "a directory that becomes a file that has its file", scene: scene{
			source: []string{"src/a 1"},
			steps:  []string{"mv src/a t", "rm src", "mv t src", "commit"}}, has: "src=1"},
		{name: "a file kept below a new directory of its name", scene: scene{
			source: []string{"envrc 1"},
			steps:  []string{"mv envrc t", "mkdir envrc", "mv t envrc/.envrc", "commit"}}},
		{name: "a moved file of which a copy is not chosen", scene: scene{
			source: []string{"a 1"},
			steps:  []string{"mv a c", "cp c b", "commit a c"}}, lands: "a c"},
		{name: "two equal files of which one new place is not chosen", scene: scene{
			source: []string{"a 1", "b 1"},
			steps:  []string{"mv a c", "mv b d", "commit a b c"}}, lands: "a b c"},
		{name: "equal files whose new places are not chosen", scene: scene{
			source: []string{"a 1", "b 1", "c 3", "d 4"},
			steps:  []string{"mv a x", "mv b y", "mv c z", "write d 44", "commit a b c d z"}}, held: "a b", lands: "c d z"},
		{name: "a link that is moved, and its copy", scene: scene{
			source: []string{"f 1", "a ->f", "b ->./f"},
			steps:  []string{"ln c f", "rm a", "ln x f", "ln y ./f", "rm b", "commit a b c"}}, held: "b", lands: "a c"},
		{name: "a directory that is moved, and a copy of its file that is held", scene: scene{
			source: []string{"src/a 1", "src/b 2"},
			steps:  []string{"mv src dst", "cp dst/a .envrc", "commit"}}, held: ".envrc", lands: "src dst"},
		{name: "the same with another file in its place", scene: scene{
			source: []string{"src/a 1", "src/b 2"},
			steps:  []string{"mv src dst", "mv dst/a .envrc", "write dst/a 3", "commit"}}, held: ".envrc src", lands: "dst"},
		{name: "files that are rotated, and the last is not chosen", scene: rotated(50), held: "f0 f49", lands: "other"},
		{name: "a rename whose new place was left out earlier", scene: scene{
			source: []string{"notes 1"},
			steps:  []string{"cp notes .envrc", "commit", "rm notes", "commit"}}},

		// Links are judged on their way.
		{name: "a link over a directory that becomes a link later", scene: scene{
			source: []string{"lib/x 1", "profile mine"},
			steps:  []string{"ln out lib/../profile", "commit", "layer", "rm lib", "ln lib .", "commit"}}},
		{name: "a link over a directory in one that becomes a link later", scene: scene{
			source: []string{"lib/deep/x 1", "profile mine"},
			steps:  []string{"ln out lib/deep/../../profile", "commit", "layer", "rm lib/deep", "ln lib/deep .", "commit"}}},
		{name: "a link over a directory that is moved up later", scene: scene{
			source: []string{"a/b/c/x 1", "f 1"},
			steps:  []string{"ln a/b/c/up ../../../f", "commit", "layer", "mv a/b/c c", "commit"}}},
		{name: "a link over a link of the host that changes later", scene: scene{
			source: []string{"lib ->a/b", "a/b/x 1", "profile mine"},
			steps:  []string{"ln out lib/../../profile", "commit", "layer", "ln lib a", "commit"}}},
		{name: "a link of the host over a directory that becomes a link", scene: scene{
			source: []string{"sub/.vscode ->../shared/cfg", "shared/x 1", "e/f 1"},
			steps:  []string{"write e/cfg/tasks.json evil", "commit", "layer", "rm shared", "ln shared e", "commit"}}},
		{name: "the same in one commit", scene: scene{
			source: []string{"sub/.vscode ->../shared/cfg", "shared/x 1", "e/f 1"},
			steps:  []string{"write e/cfg/tasks.json evil", "rm shared", "ln shared e", "commit"}}},
		{name: "a link of the host over a directory that is moved there", scene: scene{
			source: []string{"sub/.vscode ->../shared/cfg", "e/f 1"},
			steps:  []string{"write e/cfg/tasks.json evil", "commit", "layer", "mv e shared", "commit"}}},
		{name: "a dangling link of the host", scene: scene{
			source: []string{"sub/.vscode ->../shared/cfg", "shared/x 1"},
			steps:  []string{"write e/tasks.json evil", "commit", "layer", "mv e shared/cfg", "commit"}}},
		{name: "an absolute link of the host", scene: scene{
			source: []string{".vscode ->{SOURCE}/shared/cfg", "shared/x 1"},
			steps:  []string{"write e/cfg/tasks.json evil", "commit", "layer", "rm shared", "ln shared e", "commit"}}},
		{name: "a link of the host that goes up over a directory", scene: scene{
			source: []string{"sub/.mcp.json ->../x/../conf/mcp.json", "x/f 1", "conf/mcp.json mine", "deep/d/f 1"},
			steps:  []string{"write deep/conf/mcp.json evil", "commit", "layer", "rm x", "ln x deep/d", "commit"}}},
		{name: "a link of the host to the project itself", scene: scene{
			source: []string{".vscode ->.", "tasks.json mine"},
			steps:  []string{"write tasks.json evil", "commit"}}, held: "tasks.json"},
		{name: "a link of the host by which a linter reads a compiler's configuration", scene: scene{
			source: []string{".eslintrc.json ->tsconfig.json", "tsconfig.json {}"},
			steps:  []string{`write tsconfig.json {"files":["a"]}`, "commit"}}, held: "tsconfig.json"},
		{name: "a link of the host by which a compiler reads its configuration", scene: scene{
			source: []string{"tsconfig.json ->conf/base.json", "conf/base.json {}"},
			steps:  []string{`write conf/base.json {"files":["a"]}`, "commit"}}, lands: "conf/base.json"},
		{name: "links of the host in a circle that commands open", scene: scene{
			source: []string{"sub/.envrc ->../l1", "l1 ->l2", "l2 ->l1"},
			steps:  []string{"write l2 evil", "commit"}}, held: "l2"},
		{name: "programs behind a link of a search path", scene: scene{
			source: []string{"dotfiles/bin/mine *1"}, outside: []string{"local ->{SOURCE}/dotfiles/bin"}, search: []string{"{OUT}/local"},
			steps: []string{"exec dotfiles/bin/git evil", "commit"}}, held: "dotfiles/bin/git"},
		{name: "a changed program behind a link of a search path", scene: scene{
			source: []string{"dotfiles/bin/mine *1"}, outside: []string{"local ->{SOURCE}/dotfiles/bin"}, search: []string{"{OUT}/local"},
			steps: []string{"exec dotfiles/bin/mine evil", "commit"}}, held: "dotfiles/bin/mine"},
		{name: "a program to which a link outside leads in a search path", scene: scene{
			source: []string{"tools/t.sh *mine"}, outside: []string{"bin/tool ->{SOURCE}/tools/t.sh"}, search: []string{"{OUT}/bin"},
			steps: []string{"exec tools/t.sh evil", "commit"}}, held: "tools/t.sh"},
		{name: "a link that a renamed directory brings into a repository", scene: scene{
			source: []string{".git/HEAD ref:", ".git/objects/", ".git/refs/", ".git/config x", "src/l ->../README", "README 1"},
			steps:  []string{"mv src .git/objects/ab", "commit"}}},
		{name: "a search path over a link that lands", scene: scene{
			source: []string{"v1/bin/tool *1", "cur ->v1"}, search: []string{"{SOURCE}/cur/bin"},
			steps: []string{"exec v2/bin/git evil", "commit", "layer", "ln cur v2", "commit"}}, held: "cur"},
		{name: "a search path that nothing was at", scene: scene{
			source: []string{"README 1"}, search: []string{"{SOURCE}/progs"},
			steps: []string{"exec tools/git evil", "commit", "layer", "ln progs tools", "commit"}}, held: "progs"},
		{name: "a search path that a directory is moved to", scene: scene{
			source: []string{"README 1"}, search: []string{"{SOURCE}/progs"},
			steps: []string{"exec tools/git evil", "commit", "layer", "mv tools progs", "commit"}}},
		{name: "a program in a search path that is a link", scene: scene{
			source: []string{"bin/run ->../scripts/run.sh", "scripts/run.sh *mine"}, search: []string{"{SOURCE}/bin"},
			steps: []string{"exec scripts/run.sh evil", "commit"}}, held: "scripts/run.sh"},
		{name: "what a link in a search path leads to becomes a program", scene: scene{
			source: []string{"bin/run ->../scripts/run.sh", "scripts/run.sh mine"}, search: []string{"{SOURCE}/bin"},
			steps: []string{"chmod scripts/run.sh 755", "commit"}}, held: "scripts/run.sh"},
		{name: "a home over a link", scene: scene{
			source: []string{"home/.config ->../dot/config", "dot/f 1"}, homes: []string{"home"},
			steps: []string{"write e/config/fish/config.fish evil", "commit", "layer", "rm dot", "ln dot e", "commit"}}},
		{name: "what the host names, over a link", scene: scene{
			source: []string{"tools ->t1", "t1/hook *1"}, named: []string{"tools/hook"},
			steps: []string{"exec t2/hook evil", "commit", "layer", "ln tools t2", "commit"}}, held: "tools"},
		{name: "hooks over a link", scene: scene{
			source: []string{".git/HEAD ref:", ".git/objects/", ".git/refs/", ".git/config x", ".git/hooks ->../ghooks", "ghooks/README 1"},
			steps:  []string{"exec e/pre-commit evil", "commit", "layer", "rm ghooks", "ln ghooks e", "commit"}}},
		{name: "a repository's own directory behind a link", scene: scene{
			source: []string{"sub/.git ->../store/g", "store/g/HEAD ref:", "store/g/config mine"},
			steps:  []string{"write store/g/config evil", "commit"}}, held: "store/g/config"},

		// A link shows a directory that tools fill.
		{name: "such a link, in the next layer", scene: scene{
			source: []string{"web/index.js 1"},
			steps:  []string{"write node_modules/web/.vscode/tasks.json evil", "commit", "layer", "rm web", "ln web node_modules/web", "commit"}}, held: "web"},
		{name: "such a link first", scene: scene{
			source: []string{"web/index.js 1", "node_modules/web/index.js 1"},
			steps:  []string{"rm web", "ln web node_modules/web", "commit", "layer", "write node_modules/web/.vscode/tasks.json evil", "commit"}}},
		{name: "a link to all packages", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"write node_modules/x/y/.mcp.json evil", "commit", "layer", "ln web node_modules", "commit"}}, held: "web"},
		{name: "a link to the vendored", scene: scene{
			source: []string{"vendor/acme/lib/.vscode/tasks.json x"},
			steps:  []string{"ln lib vendor/acme/lib", "commit"}}, held: "lib"},
		{name: "a link over others to a package", scene: scene{
			source: []string{"node_modules/web/.claude/settings.json x", "node_modules/web/f 1"},
			steps:  []string{"ln l1 node_modules", "commit", "layer", "ln web l1/web", "commit"}}},
		{name: "a link to a package through a directory that becomes one", scene: scene{
			source: []string{"web ->pkgs/web", "pkgs/web/f 1"},
			steps:  []string{"write node_modules/web/.mcp.json evil", "commit", "layer", "rm pkgs", "ln pkgs node_modules", "commit"}}, held: "pkgs"},
		{name: "a package that is moved out", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"write node_modules/web/.mcp.json evil", "commit", "layer", "mv node_modules/web web", "commit"}}},
		{name: "the directory of packages that is renamed", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"write node_modules/web/.vscode/tasks.json evil", "commit", "layer", "mv node_modules modules", "commit"}}},
		{name: "a link of the host to a package that is to be removed", scene: scene{
			source: []string{"web ->node_modules/web", "node_modules/web/f 1"},
			steps:  []string{"rm web", "write node_modules/web/.npmrc evil", "commit node_modules"}}, held: "node_modules/web/.npmrc"},
		{name: "a link of the host to a package", scene: scene{
			source: []string{"web ->node_modules/web", "node_modules/web/f 1"},
			steps:  []string{"write node_modules/web/.npmrc evil", "write node_modules/web/f 2", "commit"}}, held: "node_modules/web/.npmrc", lands: "node_modules/web/f"},
		{name: "a link to the objects of a repository", scene: scene{
			source: []string{".git/HEAD ref:", ".git/objects/", ".git/refs/", ".git/config x"},
			steps:  []string{"write .git/objects/ab/.envrc evil", "commit", "layer", "ln o .git/objects/ab", "commit"}}, held: "o"},
		{name: "a link of the host to the objects of a repository", scene: scene{
			source: []string{".git/HEAD ref:", ".git/objects/", ".git/refs/", ".git/config x", "o ->.git/objects"},
			steps:  []string{"write .git/objects/.envrc evil", "commit"}}, held: ".git/objects/.envrc"},
		{name: "such a link that is accepted", scene: scene{
			source: []string{"README 1"},
			steps:  []string{"write node_modules/web/f 1", "write node_modules/web/.mcp.json known", "ln web node_modules/web", "commit -accept web -accept node_modules/web/.mcp.json"}}, lands: "web node_modules/web/.mcp.json node_modules/web/f"},
	}
	for _, name := range slices.Sorted(maps.Keys(foundAtRandom)) {
		list = append(list, variant{name: name, scene: foundAtRandom[name]})
	}
	for _, file := range []string{".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".npmrc"} {
		list = append(list, variant{name: "a link to a package with " + file, scene: scene{
			source: []string{"web/index.js 1"},
			steps:  []string{"write node_modules/web/index.js 1", "write node_modules/web/" + file + " evil", "rm web", "ln web node_modules/web", "commit"}}})
	}
	return list
}

// rotated returns a scene in which each of n files takes the place of the next, and the last comes to a new
// one that is not committed.
func rotated(n int) scene {
	sc := scene{source: []string{"other 1"}, steps: []string{"write other 2"}}
	chosen := "commit other"
	for i := n - 1; i >= 0; i-- {
		from := "f" + strconv.Itoa(i)
		sc.source = append(sc.source, from+" content"+strconv.Itoa(i))
		sc.steps = append(sc.steps, "mv "+from+" f"+strconv.Itoa(i+1))
		chosen += " " + from
	}
	sc.steps = append(sc.steps, chosen)
	return sc
}

// foundAtRandom are scenes that TestCommitProperty has found and made small.
var foundAtRandom = map[string]scene{
	"a link into the objects of a bare repository": {
		source: []string{"work ->bare/objects/ab", "bare/HEAD ref", "bare/refs/x 1", "bare/objects/ab/cdef 1"},
		steps:  []string{"write bare/objects/ab/crush.json 2", "commit"}},
	"a link to a package with many things that are only marked": {
		source: decoys("node_modules/pkg/.vscode/tasks.json 1"),
		steps:  []string{"ln web node_modules/pkg", "commit"}},
	"a package with many things that are only marked, renamed": {
		source: decoys("node_modules/pkg/.vscode/tasks.json 1"),
		steps:  []string{"mv node_modules/pkg web", "commit"}},
	"a directory with a file of mise that is renamed out of git's references": {
		source: []string{".git/refs/heads/e/.mise.toml 1"},
		steps:  []string{"mv .git/refs/heads/e .venv/bin", "commit"}},
	"a repository in the objects of a directory with a HEAD in a repository": {
		source: []string{"d/HEAD 5", "bin/.git/config 3", "HEAD ref", "objects/", "refs/"},
		steps:  []string{"mv bin d/objects/.git/hooks/pre-commit", "commit"}},
	"a directory that is named like the reference of a repository": {
		source: []string{".git/objects/", ".git/refs/"},
		steps:  []string{"mkdir .git/HEAD", "commit"}},
	"a repository that is renamed into the directory of an editor": {
		source: []string{"a/.git/objects/x six"},
		steps:  []string{"mv a shared/.vscode", "commit"}},
	"a reference that becomes hooks": {
		source: []string{"bin/.git/refs/x 4"},
		steps:  []string{"mv bin/.git/refs/x d/.git/hooks", "commit"}},
	"what a link of the host shows of a package, removed": {
		source: []string{"node_modules/web/.npmrc 3", "shared ->node_modules/web"},
		steps:  []string{"rm node_modules/web/.npmrc", "commit"}},
	"a file of git's name in an editor's directory over a link": {
		source: []string{".vscode ->v2"},
		steps:  []string{"write v2/commondir 1", "ln .vscode d/objects/.mcp.json", "commit"}},
	"where a link of the host leads, removed": {
		source: []string{"bin/build.rs 5", "src/.cargo/config.toml ->../../bin/build.rs"},
		steps:  []string{"rm bin/build.rs", "commit"}},
	"where the link of a repository leads, removed with it": {
		source: []string{"ls 3", ".git ->ls"},
		steps:  []string{"rm .git", "rm ls", "commit"}},
	"where a link of the host leads that is to be a file": {
		source: []string{".mise/.claude ->../d/objects/run"},
		steps:  []string{"write .mise/.claude 3", "exec d/objects/run six", "commit"}},
	"an absolute link to the vendored, renamed": {
		source: []string{"v2/bin ->{SOURCE}/vendor/p", "vendor/p/.claude/settings.json 3"},
		steps:  []string{"mv v2/bin a", "commit"}},
	"a link to a package of the host's": {
		source: []string{"vendor/p/.mcp.json 4"},
		steps:  []string{"ln shared vendor/p", "commit"}},
	"a directory that is renamed to where a link leads, which is renamed": {
		source: []string{".claude ->vendor/p"},
		steps:  []string{"exec v2/bin/GNUmakefile six", "mv v2/bin vendor/p", "mv .claude dst/ls", "commit"}},
	"a directory by which a link of the host leads somewhere": {
		source: []string{"a/mise.toml *six", ".config ->cfg/../a"},
		steps:  []string{"write cfg/f 2", "commit"}},
	"a link of the host that another one replaces": {
		source: []string{".mise ->{SOURCE}/node_modules/web", ".config ->lib/../../profile"},
		steps:  []string{"mv .config .mise", "write node_modules/web/.bashrc 5", "commit"}},
}

// decoys returns a source with many Makefiles beside other files.
func decoys(files ...string) []string {
	for i := range 40 {
		files = append(files, "node_modules/pkg/m"+strconv.Itoa(i)+"/Makefile 1")
	}
	return files
}
