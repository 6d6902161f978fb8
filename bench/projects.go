//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// projectTests are the test runs of real projects that are measured, with work for some seconds:
// what ROUNDS says, and what has to be compiled each time.
var projectTests = []struct {
	name, dir string
	script    string // for sh, in the project's directory
	before    string // outside of the time that counts
	want      string // in the output
}{
	{name: "Go", dir: "go", script: "ROUNDS=200 go test -count=1 ./...", want: "ok  \texample.invalid/notes/store"},
	{name: "TypeScript", dir: "typescript", script: "ROUNDS=20 npm test", want: "18 passed"},
	{name: "Python", dir: "python", script: "ROUNDS=40 .venv/bin/python -m pytest", want: "9 passed"},
	{name: "C", dir: "c", script: "make -s clean && ROUNDS=150 make test", want: "all tests passed"},
	{name: "Rust", dir: "rust", script: "ROUNDS=300 cargo test", before: "touch src/lib.rs", want: "4 passed"},
}

// allowance is what a test run inside may take beyond its share: about thirty starts.
const allowance = 300 * time.Millisecond

// developer is the account whose projects are measured: see test/projects.
type developer struct {
	b    *bench
	home string
	path string
}

// measureProjects measures what a developer waits for: the tests of real projects, from the second
// time on, inside and outside; and a start with toolchains and caches, beside one without.
func measureProjects(ctx context.Context, b *bench) (err error) {
	const tests, starts = "tests of the %s project inside, less 0.3 s", "start with toolchains and caches, to one without"
	d, why := developer{b: b}, "it takes minutes, which a short run does not have"
	if !b.short {
		why, err = d.make(ctx)
	}
	if d.home != "" {
		defer d.remove()
	}
	if err != nil {
		return err
	}
	if why != "" {
		t, promises := table{Title: "tests of real projects"}, []promise{}
		for _, p := range projectTests {
			t.Rows = append(t.Rows, row{Name: p.name, Absent: why})
			promises = append(promises, atMost(fmt.Sprintf(tests, p.name), 0, 1.3, "×").unless(why))
		}
		for _, name := range []string{starts, starts + ", nine toolchains"} {
			promises = append(promises, atMost(name, 0, 1.15, "×").unless(why))
		}
		b.add(t, promises...)
		return nil
	}
	const rounds = 5
	for _, p := range projectTests {
		outside, inside := d.testing("outside", p.dir, p.before, p.script, p.want, false), d.testing("paddock run, from the second time on", p.dir, p.before, p.script, p.want, true)
		if err := interleave(ctx, 1, rounds, outside, inside); err != nil {
			return err
		}
		b.add(times(fmt.Sprintf("tests of the %s project, %d rounds", p.name, rounds), time.Second, outside, outside, inside),
			atMost(fmt.Sprintf(tests, p.name), ratio(inside.sample.median()-allowance, outside.sample.median()), 1.3, "×"))
	}
	return d.measureStarts(ctx, starts)
}

// measureStarts measures what toolchains and caches add to a start in the Go project: with the
// PATH of a developer of Go, and with that of the account, which has nine toolchains.
func (d *developer) measureStarts(ctx context.Context, promised string) error {
	var own []string
	for dir := range strings.SplitSeq(d.path, ":") {
		if !strings.HasPrefix(dir, d.home) || strings.HasPrefix(dir, d.home+"/sdk/") || strings.HasPrefix(dir, d.home+"/go/") {
			own = append(own, dir)
		}
	}
	few, many := strings.Join(own, ":"), d.path
	with, without := d.starting("with Go's, and its cache", few), d.starting("without", few, "--no-toolchains", "--cache", "none")
	all, none := d.starting("with nine, and the cache", many), d.starting("without, the same PATH", many, "--no-toolchains", "--cache", "none")
	const rounds = 100
	if err := interleave(ctx, warmups, rounds, with, without, all, none); err != nil {
		return err
	}
	d.b.add(times(fmt.Sprintf("start of paddock run -- true with toolchains and caches, %d rounds", rounds), time.Millisecond, without, with, without, all, none),
		atMost(promised, ratio(with.sample.median(), without.sample.median()), 1.15, "×"),
		atMost(promised+", nine toolchains", ratio(all.sample.median(), none.sample.median()), 1.15, "×"))
	return nil
}

// make makes the account, or says why that is not possible here.
func (d *developer) make(ctx context.Context) (why string, err error) {
	const script = "test/projects/account.sh"
	if _, err := os.Stat(script); err != nil {
		return "it is run from the top of the tree alone", nil //nolint:nilerr // a fact, which the table tells
	}
	base := "/home" // below /tmp a workspace has another path inside
	if os.Geteuid() != 0 {
		if base, err = os.UserHomeDir(); err != nil {
			return "", err
		}
	}
	if d.home, err = os.MkdirTemp(base, "paddock-bench-"); err != nil {
		return "", err
	}
	if err := os.Chmod(d.home, 0o755); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", script, d.home)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		return fmt.Sprintf("the account cannot be made (%v: %s); make projects-deps gets what it needs", err, lines[len(lines)-1]), nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	d.path = lines[len(lines)-1]
	return "", nil
}

// remove removes the account. Go makes directories read-only.
func (d *developer) remove() {
	_ = exec.Command("sh", "-c", `chmod -R u+w "$0" && rm -rf "$0"`, d.home).Run()
}

// command is a command of the developer's in one of the projects.
func (d *developer) command(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(d.home, "src", dir)
	cmd.Env = []string{"HOME=" + d.home, "PATH=" + d.path, "LANG=C.UTF-8", "PADDOCK_STATE_DIR=" + d.b.state, "PADDOCK_CACHE_DIR=" + d.home + "/.cache/paddock"}
	return cmd
}

// testing is a case of a project's tests.
func (d *developer) testing(name, dir, before, script, want string, inside bool) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		if out, err := d.command(ctx, dir, "/bin/sh", "-c", before).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
		argv := []string{"/bin/sh", "-c", script}
		if inside {
			argv = append([]string{d.b.paddock, "run", "--"}, argv...)
		}
		began := time.Now()
		out, err := d.command(ctx, dir, argv...).CombinedOutput()
		took := time.Since(began)
		if err == nil && !bytes.Contains(out, []byte(want)) {
			err = fmt.Errorf("no %q", want)
		}
		if err != nil {
			err = fmt.Errorf("%w in what it printed: %s", err, out)
		}
		return took, err
	}}
}

// starting is a case of a start in the Go project, with a PATH.
func (d *developer) starting(name, search string, flags ...string) *benchCase {
	return command(name, func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		cmd := d.command(ctx, "go", append(append([]string{d.b.paddock, "run"}, flags...), argv...)...)
		cmd.Env = append(cmd.Env, "PATH="+search) // the last one counts
		return cmd, nil
	}, "", "--", "true")
}
