package toolchain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// unpack makes what go unpacks of golang.org/toolchain, and makes executable when it first
// switches to it.
func unpack(t *testing.T, root, mod string, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, file := range []string{"VERSION", "bin/go", "bin/gofmt", "src/runtime/x.go", "pkg/tool/x/compile", "pkg/include/x.h", "lib/time/x", "go.env", "test/x"} {
			testkit.Write(t, root+"/"+mod+"/golang.org/"+versionDir(name)+"/"+file, name, 0o755)
		}
	}
}

// shownGo is what find says of such a version.
func shownGo(mod, name, env string) string {
	const text = "go: D/VERSION D/bin D/go.env D/lib D/pkg/include D/pkg/tool D/src D/NAME->bin/goENV @D"
	return strings.NewReplacer("D", mod+"/golang.org/"+versionDir(name), "NAME", name, "ENV", env).Replace(text)
}

// Those versions of Go are shown for which the workspace asks, if the caller's go has them.
func TestWithGo(t *testing.T) {
	const mod = "$HOME/go/pkg/mod"
	root := newRoot(t)
	unpack(t, root, "home/go/pkg/mod", "go1.21.0", "go1.25.3", "go1.26rc2", "go1.27.1", "go1.40.1")
	unpack(t, root, "home/m", "go1.30.0")
	unpack(t, root, "home/p/pkg/mod", "go1.31.0")
	unpack(t, root, "m", "go1.32.0")
	testkit.Write(t, root+"/home/go/pkg/mod/golang.org/"+versionDir("go1.40.0")+"/bin/go", "", 0o644)
	if err := os.Remove(root + "/home/go/pkg/mod/golang.org/" + versionDir("go1.40.1") + "/VERSION"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		goMod, goWork string
		env           map[string]string
		want          string
	}{
		"a version":                   {"module x\n\ngo 1.25.3 // at least\n", "", nil, shownGo(mod, "go1.25.3", "")},
		"the language":                {"go 1.21\n", "", nil, shownGo(mod, "go1.21.0", "")},
		"a toolchain":                 {"go 1.22\n\ntoolchain go1.27.1\n", "", nil, shownGo(mod, "go1.27.1", "")},
		"a candidate":                 {"\tgo\t1.26rc2\r\n", "", nil, shownGo(mod, "go1.26rc2", "")},
		"go.work":                     {"", "use ./a\ngo 1.25.3", nil, shownGo(mod, "go1.25.3", "")},
		"both":                        {"go 1.25.3\n", "go 1.27.1\n", nil, shownGo(mod, "go1.25.3", "") + "\n" + shownGo(mod, "go1.27.1", "")},
		"the same":                    {"go 1.25.3\ntoolchain go1.25.3\n", "go 1.25.3\n", nil, shownGo(mod, "go1.25.3", "")},
		"a variable":                  {"", "", map[string]string{"GOTOOLCHAIN": "go1.27.1+auto"}, shownGo(mod, "go1.27.1", " GOTOOLCHAIN=go1.27.1+auto")},
		"a variable allows it":        {"go 1.25.3\n", "", map[string]string{"GOTOOLCHAIN": "auto"}, shownGo(mod, "go1.25.3", " GOTOOLCHAIN=auto")},
		"a variable forbids it":       {"go 1.25.3\n", "", map[string]string{"GOTOOLCHAIN": "local"}, ""},
		"the cache is elsewhere":      {"go 1.30\n", "", map[string]string{"GOMODCACHE": "$HOME/m"}, shownGo("$HOME/m", "go1.30.0", "")},
		"GOPATH is elsewhere":         {"go 1.31\n", "", map[string]string{"GOPATH": "$HOME/p:$HOME/go"}, shownGo("$HOME/p/pkg/mod", "go1.31.0", "")},
		"the cache is out of HOME":    {"go 1.32\n", "", map[string]string{"GOMODCACHE": "$ROOT/m"}, ""},
		"the cache is relative":       {"go 1.25.3\n", "", map[string]string{"GOMODCACHE": "go/pkg/mod"}, ""},
		"none is asked for":           {"module x\n", "", nil, ""},
		"none was downloaded":         {"go 1.99.0\n", "", nil, ""},
		"other words":                 {"gogo 1.25.3\n// go 1.25.3\nrequire go 1.25.3 x\n", "", nil, ""},
		"paths":                       {"go 1.25.3/../../x\ntoolchain ../../x\n", "toolchain go1/x\n", nil, ""},
		"it is too far down":          {strings.Repeat("//\n", maxGoMod/3+1) + "go 1.25.3\n", "", nil, ""},
		"go has never switched to it": {"go 1.40.0\n", "", nil, ""},
		"a part of it is missing": {"go 1.40.1\n", "", nil,
			"left " + mod + "/golang.org/" + versionDir("go1.40.1") + ": the toolchain go: it is not a whole Go"},
	} {
		t.Run(name, func(t *testing.T) {
			for file, text := range map[string]string{"go.mod": tt.goMod, "go.work": tt.goWork} {
				at := filepath.Join(root, "ws", file)
				if text != "" {
					testkit.Write(t, at, text, 0o644)
				} else if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, find(t, root, "/usr/bin:/bin", tt.env, nil)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// A go.mod is hostile, and what it asks for is judged as all toolchains are.
func TestWithGoRefused(t *testing.T) {
	dir := "home/go/pkg/mod/golang.org/" + versionDir("go1.25.3")
	left := "left " + strings.Replace(dir, "home", "$HOME", 1) + ": the toolchain go: "
	for name, tt := range map[string]struct {
		change func(root string) error
		spec   func(root string, s *policy.Spec)
		want   string
	}{
		"go.mod is a link": {change: func(root string) error {
			return errors.Join(os.Rename(root+"/ws/go.mod", root+"/ws/x"), os.Symlink("x", root+"/ws/go.mod"))
		}},
		"go.mod is a FIFO": {change: func(root string) error {
			return errors.Join(os.Remove(root+"/ws/go.mod"), unix.Mkfifo(root+"/ws/go.mod", 0o600))
		}},
		"go.mod is a directory": {change: func(root string) error {
			return errors.Join(os.Remove(root+"/ws/go.mod"), os.Mkdir(root+"/ws/go.mod", 0o700))
		}},
		"commands can write it": {spec: func(root string, s *policy.Spec) { s.Mounts = []policy.Mount{{Source: root + "/home/go", Mode: "rw"}} },
			want: left + strings.Replace(dir, "home", "$HOME", 1) + "/bin: commands can change it: it lies in $HOME/go, which is writable"},
		"every user may write it": {change: func(root string) error { return os.Chmod(root+"/"+dir+"/src", 0o777) },
			want: left + strings.Replace(dir, "home", "$HOME", 1) + "/src: every user of this host may write to it (mode 0777)"},
		"it is a link out of HOME": {change: func(root string) error {
			return errors.Join(os.Rename(root+"/"+dir, root+"/go"), os.Symlink(root+"/go", root+"/"+dir))
		},
			want: left + "$ROOT/go/bin: it leads to $ROOT/go/bin, which is not below your home"},
		"the landlock level": {spec: func(_ string, s *policy.Spec) { s.Level = policy.LevelLandlock },
			want: left + "level landlock cannot show it under the name by which go looks for it"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			unpack(t, root, "home/go/pkg/mod", "go1.25.3")
			testkit.Write(t, root+"/ws/go.mod", "go 1.25.3\n", 0o644)
			if got := find(t, root, "/usr/bin", nil, nil); got != shownGo("$HOME/go/pkg/mod", "go1.25.3", "") {
				t.Fatalf("before anything was changed: %s", got)
			}
			if tt.change != nil {
				if err := tt.change(root); err != nil {
					t.Fatal(err)
				}
			}
			got := find(t, root, "/usr/bin", nil, func(s *policy.Spec) {
				if tt.spec != nil {
					tt.spec(root, s)
				}
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}
