//go:build linux

package linux

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// rootFS makes a root file system that works: links to the host's programs
// and libraries would not do, so it is made of a static shell.
func rootFS(t *testing.T) string {
	t.Helper()
	root := tempDir(t)
	source := root + "/main.go"
	testkit.Write(t, source, `package main
import ("fmt"; "os"; "strings")
func main() {
	for _, name := range os.Args[1:] {
		if text, err := os.ReadFile(name); err == nil {
			fmt.Printf("%s: %s\n", name, strings.TrimSpace(string(text)))
		} else if list, err := os.ReadDir(name); err == nil {
			fmt.Printf("%s:", name)
			for _, e := range list { fmt.Printf(" %s", e.Name()) }
			fmt.Println()
		} else { fmt.Println(err) }
		if err := os.WriteFile(name+"/probe", nil, 0o600); err == nil { fmt.Println("wrote", name) }
	}
}
`, 0o644)
	build := exec.Command("go", "build", "-o", root+"/bin/sh", source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testkit.Write(t, root+"/etc/passwd", "evil:x:0:0::/:/bin/sh\n", 0o644)
	testkit.Write(t, root+"/etc/shadow", "secret\n", 0o644)
	testkit.Write(t, root+"/etc/os-release", "NAME=pen\n", 0o644)
	testkit.Write(t, root+"/var/lib/data", "kept\n", 0o644)
	testkit.Write(t, root+"/var/run/x", "not shown\n", 0o644)
	testkit.Write(t, root+"/tmp/x", "not shown\n", 0o644)
	testkit.Write(t, root+"/home/agent/x", "not shown\n", 0o644)
	if err := os.Symlink("bin", root+"/sbin"); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRootFS(t *testing.T) {
	root := rootFS(t)
	req := request(t, func(s *policy.Spec) { s.RootFS = root })
	box := launchBox(t, req)
	text := exactly(t, box, "/bin/sh", "/", "/etc", "/etc/os-release", "/var", "/var/lib/data", "/tmp", "/home/agent", "/usr", "/sbin", "/workspace", "/bin")
	for _, want := range []string{
		"/etc: group hostname hosts nsswitch.conf os-release passwd resolv.conf\n", "/etc/os-release: NAME=pen\n", "/var: lib tmp\n", "/var/lib/data: kept\n",
		"/tmp:\nwrote /tmp\n", "/home/agent:\nwrote /home/agent\n", "/sbin: sh\n", "/workspace:\nwrote /workspace\n", "open /usr: no such file",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the root lacks %q:\n%s", want, text)
		}
	}
	for _, never := range []string{"wrote /\n", "wrote /etc", "wrote /bin", "wrote /var", "main.go: package", "evil"} {
		if strings.Contains(text, never) {
			t.Errorf("the root has %q:\n%s", never, text)
		}
	}
	if string(box.Isolation().RootFS) != root {
		t.Errorf("%+v", box.Isolation())
	}
}

func TestRootFSThatCannotBe(t *testing.T) {
	dir := tempDir(t)
	testkit.Write(t, dir+"/file", "", 0o644)
	testkit.Write(t, dir+"/empty/x", "", 0o644)
	testkit.Write(t, dir+"/odd/bin/sh", "", 0o644)
	testkit.Write(t, dir+"/ws/root/bin/sh", "", 0o644)
	testkit.Write(t, dir+"/full/bin/sh", "", 0o644)
	testkit.Write(t, dir+"/nearly/bin/sh", "", 0o644)
	for i := range maxShown { // with bin one more than may be shown
		testkit.Write(t, fmt.Sprintf("%s/full/%d", dir, i), "", 0o644)
		testkit.Write(t, fmt.Sprintf("%s/nearly/etc/%d", dir, i), "", 0o644)
	}
	testkit.Write(t, dir+"/nearly/etc/passwd", "", 0o644)
	if err := os.Symlink("/etc", dir+"/odd/etc"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", dir+"/all"); err != nil {
		t.Fatal(err)
	}
	for root, says := range map[string]string{
		"missing": "no such file", "file": "not a directory", "empty": "no programs", "all": "all is a symbolic link to /",
		"odd": "it is not a directory", "full": "it holds more than 4096 names", "nearly": "it holds more than 4096 names", "ws/root": "commands can change it",
	} {
		req := request(t, func(s *policy.Spec) {
			s.RootFS, s.Workspace.Source = filepath.Join(dir, root), dir+"/ws"
		})
		_, err := New().Plan(t.Context(), req)
		fields := policy.FieldErrors(err)
		if len(fields) != 1 || fields[0].Field != "rootfs" || !strings.Contains(fields[0].Reason, says) {
			t.Errorf("%s: %v, want %q", root, err, says)
		}
	}
}
