package core

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o755, "b/only": 0o755, "a/plain": 0o644, "b/plain": 0o755, "a/dead": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "only"), 0o755); err != nil {
		t.Fatal(err)
	}
	both := dir + "/a:" + dir + "/b"
	tests := map[string]struct {
		name, path string
		want       string
		code       wire.Code
	}{
		"the first":               {"tool", both, dir + "/a/tool", ""},
		"not a directory":         {"only", both, dir + "/b/only", ""},
		"executable only":         {"plain", both, dir + "/b/plain", ""},
		"relative entry":          {"tool", "a", dir + "/a/tool", ""},
		"empty entry":             {"tool", ":" + dir + "/b", dir + "/b/tool", ""},
		"a slash ends the search": {"./x/y", both, "./x/y", ""},
		"missing":                 {"none", both, "", wire.CodeNotFound},
		"missing directory":       {"tool", dir + "/c", "", wire.CodeNotFound},
		"nowhere to look":         {"tool", "", "", wire.CodeNotFound},
		"not executable":          {"dead", both, "", wire.CodeNotExecutable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := LookPath(tt.name, tt.path, dir)
			if tt.code != "" {
				if err == nil || err.Code != tt.code || err.Object != tt.name || err.Errno == 0 {
					t.Errorf("got %q, %+v, want %s", got, err, tt.code)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestSearchPath(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string
	}{
		"set":   {map[string]string{"PATH": "/x"}, "/x"},
		"empty": {map[string]string{"PATH": ""}, ""},
		"unset": {map[string]string{}, "/bin:/usr/bin"},
	} {
		if got := SearchPath(tt.env); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestRlimits(t *testing.T) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	find := func(limits []clone.Rlimit, resource int) *unix.Rlimit {
		i := slices.IndexFunc(limits, func(l clone.Rlimit) bool { return l.Resource == resource })
		if i < 0 {
			return nil
		}
		return &limits[i].Limit
	}
	none := new(Sandbox).Rlimits(nil)
	if l := find(none, unix.RLIMIT_CORE); l == nil || *l != (unix.Rlimit{}) {
		t.Errorf("core: %v", l)
	}
	if l := find(none, unix.RLIMIT_NOFILE); l == nil || l.Cur != min(1024, files.Max) || l.Max != files.Max {
		t.Errorf("open files: %v", l)
	}
	for _, resource := range []int{unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_NPROC} {
		if l := find(none, resource); l != nil {
			t.Errorf("resource %d is limited to %v unasked", resource, l)
		}
	}
	asked := new(Sandbox).Rlimits(&wire.Limits{CPUSeconds: 3, FileSizeBytes: 4096, OpenFiles: 20, Processes: 5})
	for resource, want := range map[int]uint64{unix.RLIMIT_CPU: 3, unix.RLIMIT_FSIZE: 4096, unix.RLIMIT_NOFILE: 20, unix.RLIMIT_NPROC: 5} {
		hard := want
		if resource == unix.RLIMIT_CPU {
			hard++
		}
		if l := find(asked, resource); l == nil || l.Cur != want || l.Max != hard {
			t.Errorf("resource %d: %v, want %d", resource, l, want)
		}
	}
	if l := find(new(Sandbox).Rlimits(&wire.Limits{OpenFiles: math.MaxUint64}), unix.RLIMIT_NOFILE); l == nil || l.Max != files.Max {
		t.Errorf("a limit above the agent's own became %v", l)
	}
}
