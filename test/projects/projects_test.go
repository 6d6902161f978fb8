//go:build linux

// Package projects runs the tests of five ordinary projects, in Go, TypeScript, Python, C and
// Rust, as a developer would at the first try: in a fresh account whose toolchains version
// managers have put into its home, by "paddock run" without any flag. It also lists what of that
// home commands see. "make projects-deps" gets what the account is made of, account.sh makes it,
// and "make test-projects" runs the tests.
package projects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// wanted is the variable by which the tests are asked for.
const wanted = "PADDOCK_TEST_PROJECTS"

// patience is for a command that hangs. The first build of the Go project takes long.
const patience = 15 * time.Minute

// Where the programs under test are, built once.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv(wanted) == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "paddock-projects-bin-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-buildvcs=false", boxtest.Usual(filepath.Join(dir, "usual")), "-o", dir+"/", "./cmd/paddock", "./cmd/paddock-agent")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	boxtest.LookForWalls(linux.New())
	return m.Run()
}

// account is a home, and who uses it.
type account struct {
	home, search string
	uid          int
}

// newAccount makes an account that is its caller's. It lies where homes are, since a sandbox has a
// /tmp of its own.
func newAccount(t *testing.T) *account {
	t.Helper()
	base := "/home"
	if os.Geteuid() != 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		base = home
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(base, "paddock-projects-") //nolint:usetesting // a home is not below the temporary directory
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // Go makes directories read-only
		if err := exec.Command("sh", "-c", `chmod -R u+w "$0" && rm -rf "$0"`, home).Run(); err != nil {
			t.Errorf("cannot remove %s: %v", home, err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("sh", "account.sh", home)
	var problems bytes.Buffer
	script.Stderr = &problems
	out, err := script.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Fatalf("cannot make the account: %v\n%s", err, problems.String())
	}
	return &account{home: home, search: lines[len(lines)-1], uid: os.Geteuid()}
}

// give gives the account to an ordinary user that the host does not know.
func (a *account) give(t *testing.T) {
	t.Helper()
	a.uid = 65531 // where no user is made
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", a.uid, a.uid), a.home).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// run runs a command as the account's user, in a directory of its home, and returns what it
// printed on standard output, and on both.
func (a *account) run(t *testing.T, dir string, argv ...string) (out, all string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	program, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir = filepath.Join(a.home, dir)
	cmd.Env = []string{"HOME=" + a.home, "PATH=" + a.search}
	if a.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}}
	} else if a.uid == 0 { // what is root's usual place for them is the host's
		cmd.Env = append(cmd.Env, "PADDOCK_CACHE_DIR="+a.home+"/.cache/paddock", "PADDOCK_STATE_DIR="+a.home+"/.local/state/paddock")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stdout.String() + stderr.String(), err
}

// inside runs a command by "paddock run" and nothing else. It must succeed.
func (a *account) inside(t *testing.T, dir string, argv ...string) (out, all string) {
	t.Helper()
	out, all, err := a.run(t, dir, slices.Concat([]string{filepath.Join(binDir, "paddock"), "run", "--"}, argv)...)
	if err != nil {
		t.Fatalf("in %s, %q: %v\n%s", dir, argv, err, all)
	}
	return out, all
}

// project is one of testdata.
type project struct {
	dir string
	// tests are what its developer calls to test it, each with what it prints.
	tests []call
	// asRoot is what root calls in its place, for whom toolchains and caches are mounts of
	// another kind: something shorter that uses them.
	asRoot []call
	cache  string // the tool whose cache it uses
}

// call is a command, and what it prints.
type call struct{ argv, says []string }

var projects = []project{
	{dir: "go", cache: "go",
		tests: []call{{[]string{"go", "test", "./..."}, []string{"ok  \texample.invalid/notes/cmd/notes\t", "ok  \texample.invalid/notes/note\t",
			"ok  \texample.invalid/notes/render\t", "ok  \texample.invalid/notes/schedule\t", "ok  \texample.invalid/notes/store\t"}}},
		asRoot: []call{{[]string{"go", "list", "-deps", "./..."}, []string{"github.com/yuin/goldmark/parser", "example.invalid/notes/cmd/notes"}}}},
	{dir: "typescript", cache: "npm",
		tests:  []call{{[]string{"npm", "test"}, []string{"> tsc --noEmit && vitest run", "18 passed"}}},
		asRoot: []call{{[]string{"npx", "vitest", "run", "test/formula.test.ts"}, []string{"9 passed"}}}},
	{dir: "python", cache: "pip",
		tests:  []call{{[]string{".venv/bin/python", "-m", "pytest"}, []string{"9 passed"}}, {[]string{".venv/bin/ledger", "--help"}, []string{"usage: ledger"}}},
		asRoot: []call{{[]string{".venv/bin/python", "-m", "pytest"}, []string{"9 passed"}}}},
	{dir: "c", cache: "ccache",
		tests:  []call{{[]string{"make", "test"}, []string{"ccache gcc ", "all tests passed"}}},
		asRoot: []call{{[]string{"make", "test"}, []string{"ccache gcc ", "all tests passed"}}, {[]string{"make", "clean"}, nil}}},
	{dir: "rust", cache: "cargo",
		tests:  []call{{[]string{"cargo", "test"}, []string{"Compiling semver v1", "test tests::keeps_versions_in_order ... ok", "test result: ok. 4 passed"}}},
		asRoot: []call{{[]string{"cargo", "metadata", "--format-version=1", "--locked"}, []string{`/semver-1.`}}}},
}

// shown are the directories and files of the account's home that the table of toolchains says
// are visible (backend/hostpath/toolchain/table.go), by toolchain.
func (a *account) shown(t *testing.T) map[string][]string {
	t.Helper()
	one := func(pattern string) string {
		t.Helper()
		found, _ := filepath.Glob(filepath.Join(a.home, pattern))
		if len(found) != 1 {
			t.Fatalf("%s is %q", pattern, found)
		}
		return strings.TrimPrefix(found[0], a.home+"/")
	}
	below := func(dir string, names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(dir, name))
		}
		return all
	}
	return map[string][]string{
		"nvm":    {one(".nvm/versions/node/v*")},
		"pyenv":  below(".pyenv", "bin", "libexec", "shims", "version", "versions"),
		"rustup": {".cargo/bin", ".rustup/settings.toml", ".rustup/toolchains"},
		"go":     append([]string{"go/bin"}, below(one("sdk/go*"), "VERSION", "bin", "go.env", "lib", "pkg/include", "pkg/tool", "src")...),
		"sdkman": {".sdkman/candidates/java/21.0.2-tem"},
		"asdf":   {".asdf/bin", ".asdf/installs", ".asdf/plugins", ".asdf/shims", ".tool-versions"},
		"mise":   append([]string{".config/mise/config.toml", ".local/bin/mise"}, append(below(".local/share/mise", ".fake-asdf", "installs", "plugins", "shims"), ".tool-versions")...),
		"bun":    {".bun/bin"},
		"deno":   {".deno/bin"},
	}
}

// covered are directories in them of which only the name is visible, and links lead to them.
var (
	covered = []string{".asdf/plugins/greet/.git", ".local/share/mise/plugins/hello/.git"}
	links   = []string{".sdkman/candidates/java/current"}
)

// list lists these paths below the home, those above them, and all that is in whole.
func (a *account) list(t *testing.T, paths, whole []string) (all []string) {
	t.Helper()
	for _, at := range slices.Concat(paths, whole) {
		for ; at != "."; at = filepath.Dir(at) {
			all = append(all, at)
		}
	}
	for _, dir := range whole {
		if err := filepath.WalkDir(filepath.Join(a.home, dir), func(at string, _ fs.DirEntry, err error) error {
			rel := strings.TrimPrefix(at, a.home+"/")
			if all = append(all, rel); slices.Contains(covered, rel) {
				return fs.SkipDir
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestProjects(t *testing.T) {
	if os.Getenv(wanted) == "" {
		t.Skip("it takes long: make test-projects runs it")
	}
	boxtest.RequireWalls(t)
	a := newAccount(t)
	if os.Geteuid() == 0 {
		t.Run("root", a.test)
		a.give(t)
	}
	t.Run("ordinary user", a.test)
}

// test tests the projects as the account's user.
func (a *account) test(t *testing.T) {
	t.Run("toolchains", a.toolchains)
	t.Run("home", a.visible)
	for _, p := range projects {
		t.Run(p.dir, func(t *testing.T) {
			dir, calls := "src/"+p.dir, p.tests
			if a.uid == 0 {
				calls = p.asRoot
			}
			for _, c := range calls {
				_, all := a.inside(t, dir, c.argv...)
				for _, want := range c.says {
					if !strings.Contains(all, want) {
						t.Errorf("%q prints no %q:\n%s", c.argv, want, all)
					}
				}
			}
			if _, all, err := a.run(t, dir, "git", "status", "--porcelain"); all != "" || err != nil {
				t.Errorf("the tests change the project: %s (%v)", all, err)
			}
			if iso := a.isolation(t, dir); !slices.Contains(iso.Caches, p.cache) {
				t.Errorf("the caches are %q", iso.Caches)
			}
			a.visibleOf(t, p)
		})
	}
}

// isolation is what a result says about the walls.
type isolation struct {
	Toolchains []struct {
		Name string
		Dirs []string
	}
	Caches []string
}

func (a *account) isolation(t *testing.T, dir string) isolation {
	t.Helper()
	out, all, err := a.run(t, dir, filepath.Join(binDir, "paddock"), "run", "--json", "--", "true")
	var result struct{ Isolation isolation }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &result)); err != nil {
		t.Fatalf("%v\n%s", err, all)
	}
	return result.Isolation
}

// toolchains are those that the account has, and the programs inside are theirs.
func (a *account) toolchains(t *testing.T) {
	got := map[string][]string{}
	for _, tool := range a.isolation(t, "src/plain").Toolchains {
		for _, dir := range tool.Dirs {
			got[tool.Name] = append(got[tool.Name], strings.TrimPrefix(dir, a.home+"/"))
		}
	}
	if diff := cmp.Diff(a.shown(t), got); diff != "" {
		t.Errorf("toolchains (-want +got):\n%s", diff)
	}
	const script = `for program in node npm npx python python3 cargo rustc go stringer java greet hello mise bun deno; do command -v $program; done
node --version; npm --version; python --version; cargo --version; rustc --version; go version; go env GOROOT; java; greet; hello; mise --version; bun --version; deno --version`
	outside, all, err := a.run(t, "src/plain", "env", "JAVA_HOME="+a.home+"/.sdkman/candidates/java/21.0.2-tem", "sh", "-ec", script)
	if err != nil {
		t.Fatalf("outside: %v\n%s", err, all)
	}
	inside, _ := a.inside(t, "src/plain", "sh", "-ec", script)
	// PATH inside has a directory where it is, not by the link of sdkman's.
	outside = strings.ReplaceAll(outside, "/java/current/bin", "/java/21.0.2-tem/bin")
	if diff := cmp.Diff(outside, inside); diff != "" {
		t.Errorf("the programs (-outside +inside):\n%s", diff)
	}
}

// visible is what the table says, and nothing else of the home.
func (a *account) visible(t *testing.T) {
	whole := slices.Concat(slices.Collect(maps.Values(a.shown(t)))...)
	a.compare(t, "src/plain", a.list(t, slices.Concat(links, []string{"src/plain"}), whole), nil)
	if secrets, all, err := a.run(t, "src/plain", "sh", "-c", findSecrets, "sh", a.home); strings.Count(secrets, "\n") < 27 || err != nil { // or the search proves nothing
		t.Errorf("outside there are no 27 secrets: %v\n%s", err, all)
	}
}

// visibleOf is what a project sees besides: a link to the workspace, and caches.
func (a *account) visibleOf(t *testing.T, p project) {
	t.Helper()
	known := append(slices.Concat(slices.Collect(maps.Values(a.shown(t)))...), ".cache/paddock")
	if p.cache == "go" {
		known = append(known, "go/pkg/mod/cache/download")
	}
	a.compare(t, "src/"+p.dir, a.list(t, slices.Concat(links, []string{"src/" + p.dir}, known), nil), known)
}

const findSecrets = `find "$@" -type f -size -2 -exec grep -lsF the-secret-of {} + 2>/dev/null; true` // they are small

// compare compares what is visible of the home with a list, which has only the names of known
// directories, and looks for secrets.
func (a *account) compare(t *testing.T, dir string, want, known []string) {
	t.Helper()
	find := []string{"find", a.home, "-mindepth", "1"}
	for _, at := range known {
		find = append(find, "-path", filepath.Join(a.home, at), "-prune", "-print", "-o")
	}
	out, _ := a.inside(t, dir, append(find, "-print")...)
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(out, a.home+"/", "")), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is visible of the home (-want +got):\n%s", diff)
	}
	if found, _ := a.inside(t, dir, "sh", "-c", findSecrets, "sh", a.home, "/home", "/root", "/workspace", "/tmp", "/run", "/var", "/etc"); found != "" {
		t.Errorf("credentials can be read: %s", found)
	}
}
