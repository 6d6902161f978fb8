package arch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// versions returns the version of every module that the product links.
func versions(t *testing.T, env ...string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./...")
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), env...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot list the modules: %v\n%s", err, problems.String())
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[path] = version
		}
	}
	return found
}

// What tests build in the workspace is what users build: no module that the
// tests need raises the version of one that the product links.
func TestModulesAgree(t *testing.T) {
	product, workspace := versions(t, "GOWORK=off"), versions(t)
	for path, version := range product {
		if workspace[path] != version {
			t.Errorf("%s is %s in the product's go.mod and %s with go.work: require the same in test/go.mod and bench/go.mod", path, version, workspace[path])
		}
	}
	if len(product) == 0 {
		t.Error("there are no modules to compare")
	}
}
