// Package langchain holds examples in Python; its test runs theirs.
package langchain

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/linux"
)

func TestLangchainExamples(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	for _, f := range linux.New().Probe(t.Context()).Features {
		if f.Name == "user namespaces" && !f.OK {
			t.Skip("user namespaces are forbidden here: " + f.Detail)
		}
	}
	bin, usual := t.TempDir(), t.TempDir()
	for _, name := range []string{"paddock", "paddock-agent"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-X=github.com/paddock-dev/paddock/backend/hostpath.RootState="+usual+"/paddock", "-o", filepath.Join(bin, name), "../../cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", name, err, text)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", "-W", "error", "-m", "unittest", "-v", "test_examples")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PADDOCK_STATE_DIR="+t.TempDir(), "XDG_STATE_HOME="+usual)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
