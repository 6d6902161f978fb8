//go:build linux

package escape

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// landedAttacks have the host obey what commits of layers have landed: by what is left when a
// part of the changes is held back, over links that change later, and in directories that tools
// fill. Each control accepts what is held back.
func landedAttacks() []later {
	const (
		// config is that of a repository without a directory .git.
		config  = `printf '[core]\n\trepositoryformatversion = 0\n\tworktree = %s\n\tfsmonitor = touch %s\n' "$WS/d" "$CANARY" >d/config` + "\n"
		head    = `echo ref: refs/heads/main >d/HEAD`
		status  = `git -C d status`
		through = `echo x >out`
		shown   = `mkdir sub shared e; echo 1 >e/f; echo 1 >shared/f; ln -s ../shared/cfg sub/.vscode`
	)
	row := func(name, accepts, prepare, attack, trigger string, env ...string) later {
		return later{name: name, want: wantStopped, by: byLanding(""), runs: true, accepts: accepts, prepare: prepare, attack: attack, trigger: trigger, env: env}
	}
	// but does harm on the host by something else, for the attack counts on what is held back.
	but := func(plain string, r later) later {
		r.plain = plain
		return r
	}
	// next is a start over a link that has landed, also where it was accepted.
	next := func(name, attack, start, plain, harm string) later {
		return later{name: name, want: wantStopped, by: byLanding("*"), runs: true, attack: attack, trigger: start + "\n" + harm, control: plain + "\n" + harm}
	}
	const (
		toSources = `ln -s src out`
		toHome    = `ln -s "$DIR/home" out`
		evilText  = `grep -q evil src/a.txt && harm`
		evilHome  = `grep -q evil "$HOME/a.txt" && harm`
		write     = ` sh -c 'echo evil >>a.txt'`
		mounted   = ` sh -c 'echo evil >>/mnt/out/a.txt'`
		plainly   = `echo evil >>out/a.txt`
	)
	rows := []later{
		but(`mkdir -p d/objects d/refs; `+config+head, row("a repository is completed by a removal that is held back", "", ``,
			`mkdir -p d/objects/.mise d/refs; `+config+"land\n"+`rm -r d/objects; `+head, status)),
		but(`mkdir -p d/refs; `+config+head, row("a repository is completed by a removal that is held back, in one commit", "d/HEAD d/config d/refs", `mkdir -p d/objects; echo : >d/objects/.envrc`,
			`mkdir -p d/refs; `+config+`rm -r d/objects; `+head, status)),
		row("a repository of parts that are moved together", "*", ``, `mkdir -p x/objects d/refs; `+config+head+"\nland\n"+`mv x/objects d/objects`, status),
		but(`ln -s lib/../../canary out`, row("a link over a link that is held back", "out", `mkdir lib; echo 1 >lib/x; git init -q a/b/c`,
			`rm -r lib; ln -s a/b/c/.git lib; ln -s lib/../../canary out`, through)),
		but(`plant shared/tasks.json`, row("a link whose removal is held back shows what lands", "shared/tasks.json", `mkdir sub shared; echo 1 >shared/f; ln -s ../shared sub/.vscode`,
			`rm sub/.vscode; plant shared/tasks.json`, `obeys sub/.vscode/tasks.json`)),
		but(`plant shared/mcp`, row("a link in a directory whose removal is held back shows what lands", "shared/mcp", `mkdir -p sub/deep shared; echo {} >shared/mcp; ln -s ../../shared/mcp sub/deep/.mcp.json`,
			`rm -r sub; plant shared/mcp`, `obeys sub/deep/.mcp.json`)),

		row("a link over a directory that becomes a link", "*", `mkdir lib; echo 1 >lib/x`, `ln -s lib/../canary out`+"\nland\n"+`rm -r lib; ln -s . lib`, through),
		row("a link over a directory that is moved up", "*", `mkdir -p a/c; echo 1 >a/c/x`, `ln -s ../../canary a/c/up`+"\nland\n"+`mv a/c c`, `echo x >c/up`),
		row("the way of the user's link becomes a link", "*", shown, `plant e/cfg/tasks.json`+"\nland\n"+`rm -r shared; ln -s e shared`, `obeys sub/.vscode/tasks.json`),
		row("a directory is moved to where the user's link leads", "*", shown, `plant e/tasks.json`+"\nland\n"+`mv e shared/cfg`, `obeys sub/.vscode/tasks.json`),

		row("PATH names a link into the directory", "*", `harmless dotfiles/bin/mine; mkdir -p "$HOME/.local"; ln -s "$WS/dotfiles/bin" "$HOME/.local/bin"`,
			`evil dotfiles/bin/another`, `another`, "PATH=$HOME/.local/bin:$PATH"),
		row("PATH names a link into the directory, where a program is changed", "*", `harmless dotfiles/bin/mine; mkdir -p "$HOME/.local"; ln -s "$WS/dotfiles/bin" "$HOME/.local/bin"`,
			`evil dotfiles/bin/mine`, `mine`, "PATH=$HOME/.local/bin:$PATH"),
		row("PATH leads over a link that changes", "*", `harmless v1/bin/tool; ln -s v1 cur`, `evil v2/bin/another`+"\nland\n"+`ln -sfn v2 cur`, `another`, "PATH=$WS/cur/bin:$PATH"),
		row("PATH names what is not there yet", "*", ``, `evil tools/another`+"\nland\n"+`ln -s tools progs`, `another`, "PATH=$WS/progs:$PATH"),

		next("a link that has landed is the workspace", toSources, `paddock run -w out --`+write, plainly, evilText),
		next("a link that has landed is a mount of another workspace", toSources, `mkdir "$DIR/other"; paddock run -w "$DIR/other" --rw out:/mnt/out --`+mounted, plainly, evilText),
		next("a link out that was accepted is the workspace", toHome, `paddock run -w out --`+write, plainly, evilHome),
	}
	// A link shows a directory that tools fill; in the workspace itself, all is named.
	const (
		web    = `mkdir web; echo 1 >web/index.js`
		filled = `for f in .vscode/tasks.json .claude/settings.json .mcp.json .npmrc; do plant node_modules/web/$f; done`
		linked = `rm -r web; ln -s node_modules/web web`
		tools  = `for f in .vscode/tasks.json .claude/settings.json .mcp.json .npmrc; do obeys web/$f; done`
		named  = `node_modules/web/.claude, node_modules/web/.mcp.json, node_modules/web/.npmrc, node_modules/web/.vscode`
	)
	return append(rows,
		row("a link shows a package that tools obey", "*", web, filled+"\n"+linked, tools),
		row("a link shows a package that tools obey, in the next commit", "*", web, filled+"\nland\n"+linked, tools),
		later{name: "a link shows a package that tools obey, without a layer", want: wantTold, tells: named, runs: true, prepare: web, attack: filled + "\n" + linked, trigger: tools})
}

// byLanding has each part of an attack work in a layer of its own, which then lands; the user
// accepts these paths where they are held back.
func byLanding(accepts string) door {
	return func(t *testing.T, s *scene, r later, _ string) (ran bool, said string) {
		t.Helper()
		ran = true
		for part := range strings.SplitSeq(r.attack, "\nland\n") {
			inside, text := byTry(t, s, r, s.script(part))
			ran = ran && inside
			out := s.shell(t, "paddock commit "+layerID.FindString(text), r.env)
			if !strings.Contains(out, " landed\n") {
				t.Errorf("there was nothing to land: %s%s", text, out)
			}
			said += text + out
			if accepts != "" {
				said += s.accept(t, r, out, accepts)
			}
		}
		return ran, said
	}
}

// byTry is "paddock try", which keeps a layer.
func byTry(t *testing.T, s *scene, r later, script string) (bool, string) {
	t.Helper()
	return s.start(t, r, script, "try", "-q")
}

var (
	layerID = regexp.MustCompile(`(?m)^pd-[a-z2-7]+$`)
	heldAt  = regexp.MustCompile(`--accept (\S+)`)
	hint    = regexp.MustCompile(`(?m)^to land what is held back: paddock commit( --accept .*) (pd-[a-z2-7]+)$`)
)

// accept lands these paths of what commits have said to be held back.
func (s *scene) accept(t *testing.T, r later, said, paths string) (out string) {
	t.Helper()
	for _, h := range hint.FindAllStringSubmatch(said, -1) {
		accept := ""
		for _, m := range heldAt.FindAllStringSubmatch(h[1], -1) {
			if paths == "*" || slices.Contains(strings.Fields(paths), m[1]) {
				accept += " " + m[0]
			}
		}
		if accept != "" {
			out += s.shell(t, "paddock commit --on-conflict overwrite"+accept+" "+h[2], r.env)
		}
	}
	return out
}

// accepted has the user accept what was held back, when the row must do harm.
func (r later) accepted(t *testing.T, s *scene, said string) {
	t.Helper()
	out := s.accept(t, r, said, r.accepts)
	out += s.shell(t, r.trigger, r.env)
	if _, err := os.Stat(s.canary); err != nil {
		t.Errorf("accepted it does no harm either, so this shows nothing: %s%s", said, out)
	}
}

// TestAfterLanded has commits of renames and of edits lose nothing that the user has. Each row is
// a script of the host's, which must succeed.
func TestAfterLanded(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	if err := buildKeeper(); err != nil {
		t.Fatal(err)
	}
	const (
		skip    = "commits --on-conflict skip $L; "
		patched = `work "mv src dst; mv README.md NOTES.md"; paddock diff -q $L >review.patch; `
		noted   = `test ! -e README.md; grep -qx "# app" NOTES.md; test -s review.patch`
		edited  = `paddock create -q web --workspace-mode overlay --cache none; paddock exec web -- sh -c 'echo x >new'; paddock stop web; `
		started = `paddock start -q web; paddock exec web -- sh -c 'echo agent >>src/first'; paddock stop web; `
		both    = `test "$(paste -s -d , src/first)" = first,user,agent`
	)
	for _, r := range []struct{ name, script string }{
		{"a renamed directory with a link out", `ln -s /etc/passwd src/out; work "mv src dst"; commits $L; lossless; test -L src/out || test -L dst/out; whole`},
		{"a renamed directory with a program's name, and an edit", `printf "#!/bin/sh\nfourth\n" >src/ls; chmod +x src/ls; work "mv src dst; echo fifth >>dst/third"; commits $L; lossless fourth fifth; whole fourth fifth`},
		{"a renamed directory, of which the user edits a file", `work "mv src dst"; echo mine >>src/first; ` + skip + `lossless mine; whole`},
		{"a renamed directory, where the user makes the new place", `work "mv src dst"; mkdir dst; echo mine >dst/first; ` + skip + `lossless mine; whole`},
		{"the old place of a renamed directory alone", `work "mv src dst"; commits $L src; lossless; whole`},
		{"a renamed directory whose new place is discarded", `work "mv src dst"; paddock discard $L dst; if paddock layers --json | grep -q $L; then commits $L; fi; lossless; test -e src/first`},
		{"a file of a renamed directory is discarded", `work "mv src dst; echo fourth >new"; paddock discard $L dst/third || paddock discard $L dst; commits $L; lossless`},
		{"a renamed file whose new place is held back", `work "mv src/first src/.envrc"; commits $L; lossless; test -e src/first`},

		{"renames are no conflict with a patch beside them", patched + `paddock commit -q $L; moved; ` + noted},
		{"renames with a patch beside them, where conflicts are skipped", patched + `paddock commit -q --on-conflict skip $L; moved; ` + noted},
		{"a rename with a patch in it is a conflict", `work "mv src dst"; paddock diff -q $L >src/review.patch; if paddock commit -q $L; then exit 1; fi; test -s src/review.patch; lossless; whole`},
		{"an edit that commands have seen is no conflict", edited + `echo user >>src/first; ` + started + `paddock diff web | grep -x " user"; paddock commit -q web; ` + both},
		{"an edit that commands have not seen is a conflict", edited + started + `echo user >>src/first; if paddock commit -q web; then exit 1; fi; paddock commit -q --on-conflict overwrite web; test "$(tail -n 1 src/first)" = agent`},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if out, err := s.host(t.Context(), keeping+"set -eux\n"+r.script, nil).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// keeping are words of such scripts: work has commands work in a layer, and commits lands what
// may land. lossless fails unless each line of the files in src is still in src or dst, of the
// directory or of the layer. The control is whole: the layer did move everything.
const keeping = `
mkdir src/deep; echo first >src/first; echo second >src/deep/second; echo third >src/third
work() { L=$(paddock try -q -- sh -c "$1" 2>&1 | grep -x 'pd-[a-z2-7]*'); }
commits() { paddock commit "$@" || test $? = 1; }
lossless() {
	mkdir "$DIR/layer"
	! paddock layers --json | grep -q $L || paddock diff --tar -q $L | tar -xC "$DIR/layer"
	for line in one first second third "$@"; do grep -rqsx $line src dst "$DIR/layer/src" "$DIR/layer/dst"; done
}
moved() { test ! -e src; for line in one first second third "$@"; do grep -rqx $line dst; done; }
whole() {
	if paddock layers --json | grep -q $L; then
		held=$(paddock commit --dry-run --on-conflict overwrite $L | grep -o -- '--accept [^ ]*' || :)
		paddock commit -q --on-conflict overwrite $held $L
	fi
	moved "$@"
}
`
