//go:build linux

package work

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// tell is what a program prints, without its end of line.
func tell(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// goModule gives the module a dependency of Paddock's, which is in the cache
// of modules, the Go that runs the tests, and what that has compiled.
func goModule(t *testing.T, dir string) toolchain {
	t.Helper()
	version := tell(t, "go", "list", "-m", "-f", "{{.Version}}", "golang.org/x/sys")
	template, err := os.ReadFile(filepath.Join(dir, "go.mod.in"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join("..", "..", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, filepath.Join(dir, "go.mod"), strings.ReplaceAll(string(template), "VERSION", version), 0o644)
	testkit.Write(t, filepath.Join(dir, "go.sum"), string(sums), 0o644)
	root, cache, compiled := tell(t, "go", "env", "GOROOT"), tell(t, "go", "env", "GOMODCACHE"), tell(t, "go", "env", "GOCACHE")
	tools := toolchain{
		path: root + "/bin", env: []string{"GOMODCACHE=" + cache, "COMPILED=" + compiled},
		mounts: map[string]string{cache: "/mnt/modules", compiled: "/mnt/compiled"},
	}
	if !system(root) && !strings.HasPrefix(root, cache) {
		tools.mounts[root] = "/mnt/go"
	}
	return tools
}

// repository makes the directory a repository before the sandbox opens.
func repository(t *testing.T, dir string) toolchain {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-eu", "./setup.sh")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return toolchain{}
}

// rust is the toolchain itself: what is in the path may be a program that
// looks for it in the home.
func rust(t *testing.T, _ string) toolchain {
	t.Helper()
	for _, program := range []string{"rustc", "cargo"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed here")
		}
	}
	root := tell(t, "rustc", "--print", "sysroot")
	tools := toolchain{path: root + "/bin"}
	if !system(root) {
		tools.mounts = map[string]string{root: "/mnt/rust"}
	}
	return tools
}
