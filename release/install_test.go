package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// These are versions that the module has in tests. They do not change, so that what was compiled
// for them is found again.
const thisVersion, otherVersion = "v0.0.1-test", "v0.0.2-test"

// install installs packages of a version as a user does, and returns the directory with the
// programs.
func install(t *testing.T, cgo, packages, version string) string {
	t.Helper()
	work := t.TempDir()
	c, err := commitOf(clone(t), version)
	if err != nil {
		t.Fatal(err)
	}
	proxy, bin := filepath.Join(work, "proxy"), filepath.Join(work, "bin")
	if err := c.writeProxy(proxy); err != nil {
		t.Fatal(err)
	}
	env, err := environment(proxy, filepath.Join(work, "go"))
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, "GOFLAGS=-modcacherw -trimpath", "GOBIN="+bin)
	if cgo != "" {
		env = append(env, "CGO_ENABLED="+cgo)
	}
	must(t, work, env, "go", "install", product+"/"+packages+"@"+version)
	return bin
}

// paddock runs an installed program in a new workspace, and returns what it printed.
func paddock(t *testing.T, bin string, env []string, args ...string) (string, error) {
	t.Helper()
	work := t.TempDir()
	if err := os.Chmod(filepath.Dir(work), 0o755); err != nil { // commands of root's are others
		t.Fatal(err)
	}
	return run(work, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PADDOCK_STATE_DIR=" + t.TempDir()}, env...), filepath.Join(bin, "paddock"), args...)
}

// "go install" gives programs that find each other and work, with cgo and without.
func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("sandboxes need Linux")
	}
	other := install(t, "0", "cmd/paddock-agent", otherVersion)
	for cgo, name := range map[string]string{"0": "without cgo", "1": "with cgo"} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("cc"); cgo == "1" && err != nil {
				if _, err := exec.LookPath("gcc"); err != nil {
					t.Skip("cgo needs a C compiler")
				}
			}
			bin := install(t, cgo, "cmd/...", thisVersion)
			var names []string
			entries, err := os.ReadDir(bin)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
				if got := dynamic(t, filepath.Join(bin, e.Name())); got != (cgo == "1" && e.Name() != "paddock-keeper") { // which imports nothing that has C in it
					t.Errorf("%s is linked dynamically: %v", e.Name(), got)
				}
			}
			if !slices.Equal(names, programs) {
				t.Fatalf("installed were %q, want %q", names, programs)
			}
			works(t, bin, filepath.Join(other, "paddock-agent"))
		})
	}
}

// dynamic reports whether a program needs a loader.
func dynamic(t *testing.T, path string) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// works tries installed programs, beside an agent of another version.
func works(t *testing.T, bin, otherAgent string) {
	tests := []struct {
		name   string
		env    []string
		args   []string
		want   []string
		failed bool
	}{
		{name: "a version", args: []string{"version"}, want: []string{"paddock " + thisVersion + "\n", "build    " + thisVersion + "."}},
		{name: "a command", args: []string{"run", "--", "sh", "-c", "echo made >made && cat made; cat /proc/self/status"},
			want: []string{"made\n", "\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n", "\nCapBnd:\t0000000000000000\n", "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n"}},
		{name: "a wall", args: []string{"run", "--", "sh", "-c", "touch /usr/x"}, want: []string{"Read-only file system"}, failed: true},
		{name: "the server beside it", args: []string{"mcp", "--help"}, want: []string{"--profile"}},
		{name: "the manual page", args: []string{"man"}, want: []string{".TH \"PADDOCK\" \"1\"", "paddock mcp install", thisVersionRoff}},
		{name: "an agent of another version", env: []string{"PADDOCK_AGENT=" + otherAgent}, args: []string{"run", "--", "true"}, failed: true,
			want: []string{"the host side is build " + thisVersion + ".", ", this agent " + otherVersion + ".", "install paddock and paddock-agent from one release"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			printed, err := paddock(t, bin, tt.env, tt.args...)
			if (err != nil) != tt.failed {
				t.Errorf("paddock %q: %v\n%s", tt.args, err, printed)
			}
			for _, want := range tt.want {
				if !strings.Contains(printed, want) {
					t.Errorf("paddock %q printed\n%s\nwithout %q", tt.args, printed, want)
				}
			}
		})
	}
}

// thisVersionRoff is the version as a manual page has it.
var thisVersionRoff = strings.ReplaceAll(thisVersion, "-", `\-`)
