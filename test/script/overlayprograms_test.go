package script

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// What programs do with what was there before works in an overlay as it does in the directory
// itself.
func TestOverlayPrograms(t *testing.T) {
	t.Parallel()
	boxtest.RequireWalls(t)
	const repo = `git init -q . && git config user.name x && git config user.email x@example.com && mkdir -p dir/deep && echo 1 > dir/one && echo 2 > dir/deep/two && echo a > file && git add . && git commit -qm one
		git checkout -qb other && git rm -q -r dir && echo now a file > dir && git add dir && git commit -qm other && git checkout -q -`
	for _, tt := range []struct{ name, program, before, inside string }{
		{"git works", "git", repo, `git status --porcelain | wc -l | grep -x 0; echo b >> file; git add file; git commit -qm two; git checkout -q other; test -f dir; git checkout -q -; test -d dir/deep
			echo c >> file; git stash -q; git stash pop -q; git checkout -q -- .; git clone -q ` + cloneFlag() + ` . clone; git worktree add -q tree other; git worktree remove tree; git gc -q; git repack -qad; git branch -m other another; git clean -fdxq; git fsck --strict`},
		{"git moves a file", "git", repo, `git mv file moved; git commit -qm moved; git mv dir/one one; test ! -e dir/one; git status --porcelain`},
		{"npm works", "npm", `mkdir -p dep && echo '{"name":"dep","version":"1.0.0"}' > dep/package.json && echo 'module.exports = 1' > dep/index.js && echo '{"name":"top","version":"1.0.0","dependencies":{"dep":"file:./dep"}}' > package.json && npm install --offline --no-audit --no-fund`,
			`npm ls; npm version 1.0.1 --no-git-tag-version; mkdir more; echo '{"name":"more","version":"1.0.0"}' > more/package.json; npm install --offline --no-audit --no-fund ./more; npm uninstall dep --no-audit --no-fund; rm -rf node_modules; npm ci --offline --no-audit --no-fund; ls node_modules/more/`},
		{"go works", "go", `printf 'module example.com/m\n\ngo 1.21\n' > go.mod && mkdir p && printf 'package p\n\nfunc F() int { return 1 }\n' > p/p.go && printf 'package main\n\nimport "example.com/m/p"\n\nfunc main() { println(p.F()) }\n' > m.go`,
			`export GOFLAGS=-mod=mod GOTOOLCHAIN=local; go build ./p; sed -i 's/return 1/return 2/' p/p.go; go build -o m . 2>&1; ./m 2>&1 | grep -x 2; go mod vendor; go clean -testcache`},
		{"make keeps times", "make", `printf 'out: in\n\tcp in out\n' > Makefile && echo 1 > in && make -s`, `make -q; sleep 1.1; echo 2 > in; ! make -q; make -s; make -q; grep 2 out`},
		{"cargo works", "cargo", `mkdir src && echo 'fn main() { println!("one"); }' > src/main.rs && printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml && cargo build -q --offline`, `sed -i s/one/two/ src/main.rs; cargo build -q --offline; ./target/debug/p | grep two; cargo clean -q; cargo build -q --offline`},
		{"pip works", "python3", `python3 -m venv v && python3 -c '
import zipfile
for v in ("1.0", "2.0"):
    with zipfile.ZipFile("p-%s-py3-none-any.whl" % v, "w") as z:
        z.writestr("p.py", "x = %s" % v)
        d = "p-%s.dist-info/" % v
        z.writestr(d + "METADATA", "Metadata-Version: 2.1\nName: p\nVersion: %s\n" % v)
        z.writestr(d + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(d + "RECORD", "p.py,,\n")
' && v/bin/pip -q install --no-index p-1.0-py3-none-any.whl`, `v/bin/python -m pip -q install --no-index -U p-2.0-py3-none-any.whl; v/bin/python -c 'import p; assert p.x == 2.0'; v/bin/python -m pip -q uninstall -y p; ! v/bin/python -c 'import p'; rm -rf v; python3 -m venv --without-pip v`},
		{"shells work", "sh", `mkdir -p d/e && echo 1 > d/e/f && ln d/e/f hard && ln -s d/e link && tar cf t.tar d`,
			`mv d moved; cat moved/e/f; sed -i s/1/2/ moved/e/f; rm -rf moved; mkdir d; tar xf t.tar; cat d/e/f; mkfifo pipe; (echo x > pipe &) ; cat pipe; rm -rf d; mkdir d; ls d | wc -l | grep -x 0; flock hard true; chmod 000 hard; chmod 644 hard; cp --reflink=auto t.tar t2.tar; cmp t.tar t2.tar; truncate -s 1G sparse; rm sparse`},
		{"sqlite works", "python3", `python3 -c '
import sqlite3
c = sqlite3.connect("db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(x)"); c.execute("insert into t values (1)"); c.commit()'`, `python3 -c '
import sqlite3
c = sqlite3.connect("db"); c.execute("insert into t values (2)"); c.commit(); assert c.execute("select sum(x) from t").fetchone()[0] == 3'`},
		{"a directory is renamed", "python3", `mkdir d && echo 1 > d/f`, renames()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Skip("there is no " + tt.program + " here")
			}
			ws := t.TempDir()
			if out, err := exec.Command("sh", "-c", "cd "+ws+" && { "+tt.before+"\n}").CombinedOutput(); err != nil {
				t.Skipf("%s does not work here: %v: %s", tt.program, err, out)
			}
			in := func(mode string) ([]byte, error) { // it has no effect outside
				return paddockCommand(t, "run", "-q", "-w", ws, "--workspace-mode", mode, "--", "sh", "-euc", tt.inside).CombinedOutput()
			}
			out, err := in("overlay")
			if err == nil {
				return
			}
			if out, err := in("copy"); err != nil && tt.name != "a directory is renamed" {
				t.Skipf("%s does not work in a sandbox here: %v: %s", tt.program, err, out)
			}
			t.Errorf("%v: %s", err, out)
		})
	}
}

// renames renames a directory of the source without mv, which can only root's overlays.
func renames() string {
	script := `python3 -c '
import os, errno
try:
    os.rename("d", "e")
except OSError as e:
    print(errno.errorcode[e.errno])
'`
	if os.Geteuid() == 0 {
		return script + `; test -d e; test ! -e d`
	}
	return strings.TrimSpace(script) + ` | grep -x EXDEV; test -d d; mkdir n; python3 -c 'import os; os.rename("n", "m")'`
}

// cloneFlag is what git needs to clone where a new hard link is another file at once.
func cloneFlag() string {
	if os.Geteuid() == 0 {
		return "--local"
	}
	return "--no-hardlinks"
}
