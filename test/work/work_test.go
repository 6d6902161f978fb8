//go:build linux

package work

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// job is one piece of work. Its script ends with a status that says that it
// came to its end, and no failure on the way has.
type job struct {
	name   string // of the directory in testdata
	needs  []string
	status int
	// prepare completes the copy of either side and says what the job has
	// beyond the system, where anything.
	prepare func(t *testing.T, dir string) toolchain
}

var jobs = []job{
	{name: "go", needs: []string{"sha256sum"}, status: 3, prepare: goModule},
	{name: "git", needs: []string{"git"}, status: 21},
	{name: "gitrepo", needs: []string{"git"}, status: 22, prepare: repository},
	{name: "c", needs: []string{"gcc", "make", "ar", "nm", "strip"}, status: 23},
	{name: "python", needs: []string{"python3"}, status: 7},
	{name: "node", needs: []string{"node", "npm"}, status: 9},
	{name: "java", needs: []string{"java", "javac", "jar"}, status: 24},
	{name: "web", needs: []string{"python3", "curl"}, status: 25},
	{name: "shell", needs: []string{"perl", "tar", "flock"}, status: 42},
	{name: "rust", status: 13, prepare: rust},
}

func TestWork(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			for _, program := range j.needs {
				if !visible(program) {
					t.Skip(program + " is not installed here")
				}
			}
			j.compare(t)
		})
	}
}

// compare does the job on both sides.
func (j job) compare(t *testing.T) {
	t.Helper()
	out, in := newSide(t, j), newSide(t, j)
	outside := out.finish(t, out.host(t.Context()))
	inside := in.finish(t, in.paddock(t.Context()))
	if outside.status != j.status {
		t.Fatalf("the job does not work here at all: status %d, want %d\n%s%s", outside.status, j.status, outside.stdout, outside.stderr)
	}
	if inside.status != outside.status {
		t.Errorf("status %d inside, %d outside; standard error inside:\n%s", inside.status, outside.status, inside.stderr)
	}
	differ(t, "standard output", outside.stdout, inside.stdout)
	differ(t, "tree of files", outside.tree, inside.tree)
	t.Logf("outside %v, inside %v", outside.took, inside.took)
}

// differ tells of the first line that is not the same.
func differ(t *testing.T, what, outside, inside string) {
	t.Helper()
	if inside == outside {
		return
	}
	a, b := strings.Split(outside, "\n"), strings.Split(inside, "\n")
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	t.Errorf("the %s differs from line %d on\noutside:\n%s\ninside:\n%s", what, n+1,
		strings.Join(a[n:min(n+10, len(a))], "\n"), strings.Join(b[n:min(n+10, len(b))], "\n"))
}

// visible says whether a program is found on both sides: in the path, and in
// a directory that sandboxes have.
func visible(program string) bool {
	for _, dir := range filepath.SplitList(systemPath) {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, program))
		if err == nil && system(path) {
			return true
		}
	}
	return false
}

// system says whether a path of the host is the same inside.
func system(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	return err == nil && (strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/opt/"))
}
