package policy

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var testBase = Base{Dir: "/srv/project", Home: "/home/u"}

func TestResolveDefaults(t *testing.T) {
	got, err := Spec{}.Resolve(testBase)
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Backend: "linux", Level: "full", Seccomp: "default", RootFS: "host",
		Workspace: Workspace{Source: "/srv/project", Mode: "bind", Access: "rw"},
		Network:   Network{Mode: "none"},
		Limits:    Limits{Output: 1 << 20, Processes: 4096, Tmp: 1 << 30},
		Hostname:  "paddock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestResolveFillsIn(t *testing.T) {
	in := Spec{
		Workspace: Workspace{Source: "~/src/../app/", Unprotected: []string{"*", ".envrc"}},
		Mounts: []Mount{
			{Source: "~/go/pkg/mod"},
			{Source: "data", Target: "/data/a/b", Mode: "rw"},
			{Source: "/", Target: "/data"},
			{Source: "./~x", Target: "~/x"},
			{Source: "/a", Target: "/tmp/a"},
			{Source: "/a", Target: "/workspace/a"},
			{Source: "/a", Target: "/home/agent/a"},
		},
		Limits: Limits{CPUTime: Duration(1500 * time.Millisecond), Processes: 32},
		Env:    map[string]string{"A": "", "LD_PRELOAD": "x", "_1": "\n"},
	}
	got, err := in.Resolve(testBase)
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Backend: "linux", Level: "full", Seccomp: "default", RootFS: "host",
		Workspace: Workspace{Source: "/home/u/app", Mode: "bind", Access: "rw", Unprotected: []string{"*", ".envrc"}},
		Mounts: []Mount{
			{Source: "/", Target: "/data", Mode: "ro"},
			{Source: "/a", Target: "/tmp/a", Mode: "ro"},
			{Source: "/a", Target: "/workspace/a", Mode: "ro"},
			{Source: "/srv/project/data", Target: "/data/a/b", Mode: "rw"},
			{Source: "/srv/project/~x", Target: "/home/u/x", Mode: "ro"},
			{Source: "/a", Target: "/home/agent/a", Mode: "ro"},
			{Source: "/home/u/go/pkg/mod", Target: "/home/u/go/pkg/mod", Mode: "ro"},
		},
		Network:  Network{Mode: "none"},
		Limits:   Limits{CPUTime: Duration(2 * time.Second), Processes: 32, Output: 1 << 20, Tmp: 1 << 30},
		Env:      map[string]string{"A": "", "LD_PRELOAD": "x", "_1": "\n"},
		Hostname: "paddock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if in.Mounts[0].Target != "" {
		t.Error("Resolve changed the mounts of its receiver")
	}
	again, err := got.Resolve(Base{})
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("Resolve is not idempotent: %v %s", err, diff)
	}
}

func TestResolveErrors(t *testing.T) {
	mount := func(source, target string) Spec { return Spec{Mounts: []Mount{{Source: source, Target: target}}} }
	target := func(target string) Spec { return mount("/a", target) }
	workspace := func(source string) Spec { return Spec{Workspace: Workspace{Source: source}} }
	limits := func(l Limits) Spec { return Spec{Limits: l} }
	env := func(name, value string) Spec { return Spec{Env: map[string]string{name: value}} }
	host := func(name string) Spec { return Spec{Hostname: name} }
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Backend: "linus"}, `backend "linus": it must be "linux", "host", "docker", "codex" or "wrapper"`},
		{Spec{Network: Network{Mode: "bridge"}}, `network "bridge": it must be "none", "allow", "observe" or "host"`},
		{Spec{Workspace: Workspace{Mode: "layer"}}, `workspace.mode "layer": it must be "bind", "copy" or "overlay"`},
		{Spec{Workspace: Workspace{Mode: "overlay", Access: "ro"}}, `workspace.access "ro": commands would get a layer that they cannot change`},
		{Spec{Workspace: Workspace{Mode: "overlay", Unprotected: []string{"*"}}}, `workspace.unprotected "*": in an overlay nothing of the workspace is protected: what would run on the host is held back when changes are committed`},
		{Spec{Workspace: Workspace{Mode: "overlay"}, Limits: Limits{Disk: GiB}}, `limits.disk "1GiB": a layer lies on the host's disk, which has no bound for a directory`},
		{Spec{Backend: "docker", Workspace: Workspace{Mode: "overlay"}, Docker: &Docker{Image: "x"}}, `workspace.mode "overlay": backend docker's engine mounts no layers of this host`},
		{Spec{Workspace: Workspace{Layers: "/l"}}, `workspace.layers "/l": a workspace of mode bind has no layers`},
		{Spec{Level: "landlock", Workspace: Workspace{Mode: "overlay"}}, `workspace.mode "overlay": the landlock level mounts nothing`},
		{Spec{Workspace: Workspace{Mode: "copy", Access: "ro"}}, `workspace.access "ro": commands would get a copy that they cannot change`},
		{Spec{Level: "half"}, `level "half": it must be "full" or "landlock"`},
		{Spec{Seccomp: "off"}, `seccomp "off": it must be "default", "strict" or "debug"`},
		{Spec{RootFS: "/"}, `rootfs "/": the whole host cannot be shown`},
		{Spec{RootFS: "/proc/1/root"}, `rootfs "/proc/1/root": /proc belongs to the kernel`},
		{Spec{AllowDegraded: []string{"memory", "all"}}, `allow_degraded[1] "all": it is nothing that can be degraded`},
		{Spec{Level: "landlock", RootFS: "/img"}, `rootfs "/img": the landlock level shows the host's own root`},
		{Spec{Level: "landlock", Workspace: Workspace{Mode: "copy"}}, `workspace.mode "copy": the landlock level has no place for a copy`},
		{Spec{Level: "landlock", Mounts: []Mount{{Source: "/a", Target: "/b"}}}, `mounts[0].target "/b": the landlock level shows paths where they are on the host`},
		{Spec{Level: "landlock", Hostname: "box"}, `hostname "box": the landlock level has the host's own name`},
		{Spec{Level: "landlock", Limits: Limits{Tmp: 2 * MiB}}, `limits.tmp "2MiB": the landlock level keeps temporary files on the host's disk, unbounded`},
		{Spec{Workspace: Workspace{Access: "wo"}}, `workspace.access "wo": it must be "rw" or "ro"`},
		{Spec{Workspace: Workspace{Unprotected: []string{"*", ".git/x"}}}, `workspace.unprotected[1] ".git/x": it is not a protected path`},
		{Spec{Workspace: Workspace{Unprotected: make([]string, 1025)}}, `workspace.unprotected: it has more than 1024 entries`},
		{workspace("/"), `workspace.source "/": the whole host cannot be a workspace`},
		{workspace("//../."), `workspace.source "//../.": the whole host cannot be a workspace`},
		{workspace("../../.."), `workspace.source "../../..": the whole host cannot be a workspace`},
		{workspace("/proc/self/cwd"), `workspace.source "/proc/self/cwd": /proc belongs to the kernel`},
		{workspace("a\x00b"), `workspace.source "a\x00b": it contains a NUL byte`},
		{workspace("a\nb"), `workspace.source "a\nb": it contains a line break`},
		{workspace("~root"), `workspace.source "~root": only the caller's own ~ is known`},
		{workspace(strings.Repeat("a/", 2048)), `workspace.source "` + strings.Repeat("a/", 40) + `"…: it is longer than 4095 bytes`},
		{workspace("/" + strings.Repeat("é", 128)), `workspace.source "/` + strings.Repeat("é", 39) + `"…: a name in it is longer than 255 bytes`},

		{mount("", "/a"), `mounts[0].source: it is empty`},
		{mount("/", ""), `mounts[0].target "/": a mount cannot cover the whole sandbox`},
		{Spec{Mounts: []Mount{{Source: "/", Target: "/h", Mode: "rw"}}}, `mounts[0].source "/": the whole host cannot be mounted read-write`},
		{mount("/proc", "/p"), `mounts[0].source "/proc": /proc belongs to the kernel`},
		{mount("/sys/fs/../fs/cgroup", "/p"), `mounts[0].source "/sys/fs/../fs/cgroup": /sys belongs to the kernel`},
		{mount("/dev/kvm", "/p"), `mounts[0].source "/dev/kvm": /dev belongs to the kernel`},
		{Spec{Mounts: []Mount{{Source: "/a", Mode: "w"}}}, `mounts[0].mode "w": it must be "ro" or "rw"`},
		{Spec{Mounts: make([]Mount, 257)}, `mounts: there are more than 256`},
		{target("a/b"), `mounts[0].target "a/b": it is not an absolute path`},
		{target("/a/../b"), `mounts[0].target "/a/../b": it contains ".."`},
		{target("~/../b"), `mounts[0].target "~/../b": it contains ".."`},
		{target("/a/"), `mounts[0].target "/a/": it is not a clean path`},
		{target("//a"), `mounts[0].target "//a": it is not a clean path`},
		{target("/"), `mounts[0].target "/": a mount cannot cover the whole sandbox`},
		{target("/proc"), `mounts[0].target "/proc": the sandbox has a /proc of its own`},
		{target("/proc/sys"), `mounts[0].target "/proc/sys": the sandbox has a /proc of its own`},
		{target("/dev/shm"), `mounts[0].target "/dev/shm": the sandbox has a /dev of its own`},
		{target("/usr"), `mounts[0].target "/usr": /usr is read-only inside`},
		{target("/etc/passwd"), `mounts[0].target "/etc/passwd": /etc is read-only inside`},
		{target("/workspace"), `mounts[0].target "/workspace": it would cover the sandbox's own /workspace`},
		{target("/home"), `mounts[0].target "/home": it would cover the sandbox's own /home/agent`},
		{target("/home/agent"), `mounts[0].target "/home/agent": it would cover the sandbox's own /home/agent`},
		{target("/tmp"), `mounts[0].target "/tmp": it would cover the sandbox's own /tmp`},
		{target("/a\nb"), `mounts[0].target "/a\nb": it contains a line break`},
		{Spec{Mounts: []Mount{{Source: "/x", Target: "/home/u/b"}, {Source: "/a"}, {Source: "/c", Target: "~/b"}}},
			`mounts[2].target "/home/u/b": another mount has it, of "/x"`},

		{limits(Limits{Timeout: -1}), `limits.timeout "-1ns": it must not be negative`},
		{limits(Limits{Timeout: 1}), `limits.timeout "1ns": it is less than 1ms`},
		{limits(Limits{Timeout: Duration(169 * time.Hour)}), `limits.timeout "169h0m0s": it is more than 168h0m0s`},
		{limits(Limits{Output: -5}), `limits.output "-5B": it must not be negative`},
		{limits(Limits{Output: 2 * GiB}), `limits.output "2GiB": it is more than 1GiB`},
		{limits(Limits{CPUTime: Duration(time.Millisecond)}), `limits.cpu_time "1ms": it is less than 1s`},
		{limits(Limits{CPUTime: 1<<63 - 1}), `limits.cpu_time "2562047h47m16.854775807s": it is more than 8760h0m0s`},
		{limits(Limits{FileSize: -1}), `limits.file_size "-1B": it must not be negative`},
		{limits(Limits{OpenFiles: 15}), `limits.open_files "15": it is less than 16`},
		{limits(Limits{OpenFiles: 1<<20 + 1}), `limits.open_files "1048577": it is more than 1048576`},
		{limits(Limits{Processes: 3}), `limits.processes "3": it is less than 4`},
		{limits(Limits{Processes: 1 << 63}), `limits.processes "9223372036854775808": it is more than 4194304`},
		{limits(Limits{Memory: 4*MiB - 1}), `limits.memory "4194303B": it is less than 4MiB`},
		{limits(Limits{Memory: -1}), `limits.memory "-1B": it must not be negative`},
		{limits(Limits{Memory: 8 * MiB, MemoryHigh: 9 * MiB}), `limits.memory_high "9MiB": it is more than limits.memory, 8MiB`},
		{limits(Limits{Swap: MiB}), `limits.swap "1MiB": it is beside limits.memory, which is not given`},
		{limits(Limits{CPUs: 9}), `limits.cpus "0.009": it is less than 0.01`},
		{limits(Limits{Disk: MiB}), `limits.disk "1MiB": a bind workspace lies on the host's disk, which has no bound for a directory`},
		{Spec{Workspace: Workspace{Mode: "copy"}, Limits: Limits{Disk: 1}}, `limits.disk "1B": it is less than 1MiB`},
		{limits(Limits{Tmp: MiB - 1}), `limits.tmp "1048575B": it is less than 1MiB`},

		{env("", "x"), `env."": the name is empty`},
		{env("1A", "x"), `env.1A: a name is letters, digits and underscores, and does not start with a digit`},
		{env("A=B", "x"), `env."A=B": a name is letters, digits and underscores, and does not start with a digit`},
		{env("A\x00", "x"), `env."A\x00": a name is letters, digits and underscores, and does not start with a digit`},
		{env("É", "x"), `env."É": a name is letters, digits and underscores, and does not start with a digit`},
		{env("TOKEN", "secret\x00"), `env.TOKEN: the value contains a NUL byte`},
		{env("A", strings.Repeat("x", 128<<10-2)), `env.A: name and value are longer than 128KiB, the kernel's bound`},
		{env("A", strings.Repeat("x", 1<<20)), `env: it is larger than 1MiB in total`},
		{env(strings.Repeat("A", 256), ""), `env."` + strings.Repeat("A", 80) + `"…: the name is longer than 255 bytes`},

		{host("a b"), `hostname "a b": a host name is letters, digits, hyphens and dots`},
		{host("a_b"), `hostname "a_b": a host name is letters, digits, hyphens and dots`},
		{host("a..b"), `hostname "a..b": a part between dots is empty`},
		{host("-a"), `hostname "-a": a part between dots starts or ends with a hyphen`},
		{host("a-.b"), `hostname "a-.b": a part between dots starts or ends with a hyphen`},
		{host(strings.Repeat("a", 64)), `hostname "` + strings.Repeat("a", 64) + `": a part between dots is longer than 63 bytes`},
		{host(strings.Repeat("a.", 32) + "a"), `hostname "` + strings.Repeat("a.", 32) + `a": it is longer than 64 bytes`},
	} {
		got, err := tt.spec.Resolve(testBase)
		if want := "cannot use " + tt.want; err == nil || err.Error() != want {
			t.Errorf("error:\n got %v\nwant %s", err, want)
		}
		if !reflect.DeepEqual(got, Spec{}) {
			t.Errorf("%s: a spec is returned with the error", tt.want)
		}
	}
}

func TestResolveWithoutBase(t *testing.T) {
	spec := Spec{Workspace: Workspace{Source: "x"}, Mounts: []Mount{{Source: "/a", Target: "~/a"}}}
	_, err := spec.Resolve(Base{Dir: "relative"})
	want := `cannot use workspace.source "x": it is relative, and the directory it starts from is not known
cannot use mounts[0].target "~/a": the home directory is not known`
	if err == nil || err.Error() != want {
		t.Errorf("error:\n got %v\nwant %s", err, want)
	}
	got, err := Spec{Mounts: []Mount{{Source: "~/a"}}}.Resolve(Base{Dir: "/w", Home: "/"})
	if err != nil || got.Mounts[0] != (Mount{Source: "/a", Target: "/a", Mode: "ro"}) {
		t.Errorf("with the home /: %+v, %v", got.Mounts, err)
	}
}

func TestResolveReportsAllInOrder(t *testing.T) {
	spec := Spec{
		Hostname: "-", Network: Network{Mode: "x"}, Backend: "y",
		Mounts: []Mount{{Source: "/ok"}, {Mode: "x", Target: "/usr"}},
		Env:    map[string]string{"b c": "", "a b": ""},
	}
	_, err := spec.Resolve(testBase)
	var fields []string
	for _, e := range FieldErrors(fmt.Errorf("wrapped: %w", err)) {
		fields = append(fields, e.Field)
	}
	want := []string{"backend", "mounts[1].source", "mounts[1].target", "mounts[1].mode", "network",
		`env."a b"`, `env."b c"`, "hostname"}
	if !slices.Equal(fields, want) {
		t.Errorf("fields = %q, want %q", fields, want)
	}
}

func TestFieldErrorPosition(t *testing.T) {
	for _, tt := range []struct {
		e    FieldError
		want string
	}{
		{FieldError{Field: "a", Reason: "r"}, "cannot use a: r"},
		{FieldError{Field: "a", Reason: "r", Line: 3}, "line 3: cannot use a: r"},
		{FieldError{Field: "a", Reason: "r", File: "f"}, "f: cannot use a: r"},
		{FieldError{Reason: "r", File: "f", Line: 3}, "f:3: cannot read the spec: r"},
	} {
		if got := tt.e.Error(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestInventory(t *testing.T) {
	type key struct {
		under Under
		path  string
	}
	seen := map[key]bool{}
	for _, o := range Inventory() {
		k := key{o.Under, o.Path}
		if seen[k] {
			t.Errorf("%s %s is there twice", o.Under, o.Path)
		}
		seen[k] = true
		if o.Path != path.Clean(o.Path) || path.IsAbs(o.Path) || strings.ContainsAny(o.Path, "*?[") || o.Tool == "" || o.Why == "" || o.Class == "" ||
			len(o.Except) > 0 && !o.Dir || strings.Contains(strings.Join(append(o.Except, o.With...), ""), "/") {
			t.Errorf("wrong: %+v", o)
		}
	}
	names := ProtectedPaths()
	for _, must := range []string{".git/hooks", ".git/config", ".git/commondir", ".envrc", ".vscode", ".idea", ".claude", ".mcp.json", ".husky", ".bashrc", ".ssh"} {
		if !slices.Contains(names, must) {
			t.Errorf("%s is not protected", must)
		}
	}
	for _, not := range []string{"HEAD", "Makefile", "package.json", ".git/rebase-merge", ".gitattributes"} {
		if slices.Contains(names, not) {
			t.Errorf("%s is protected, which daily work changes", not)
		}
	}
	if _, err := (Spec{Workspace: Workspace{Unprotected: names}}).Resolve(testBase); err != nil {
		t.Errorf("the protected paths cannot be opened: %v", err)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("", "~/a", "/b", "rw", "A", "b", "h", int64(1), int64(1<<20))
	f.Add(".", "/", "~/b/c", "ro", "_", "\x00", "a.b", int64(1e9), int64(-1))
	f.Add("//..", "/proc/..", "/usr/x", "", "", "", "-", int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, workspace, source, target, mode, name, value, host string, span, size int64) {
		spec := Spec{
			Workspace: Workspace{Source: workspace},
			Mounts:    []Mount{{Source: source, Target: target, Mode: mode}, {Source: target, Target: source}},
			Env:       map[string]string{name: value},
			Hostname:  host,
			Limits:    Limits{Timeout: Duration(span), CPUTime: Duration(span), Output: Size(size), Tmp: Size(size)},
		}
		got, err := spec.Resolve(testBase)
		if err != nil {
			for _, e := range FieldErrors(err) {
				checkBounded(t, e)
			}
			return
		}
		again, err := got.Resolve(Base{})
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("Resolve is not idempotent: %v\n%+v\n%+v", err, got, again)
		}
	})
}

// The hint for a path that is not protected names those that may have been
// meant, and is short.
func TestUnprotectedHint(t *testing.T) {
	for path, names := range map[string]string{".git/x": ".git/hooks", ".git/index": ".git/config", "src": `"*"`, "": `"*"`, ".config/x": ".config/mise"} {
		_, err := Spec{Workspace: Workspace{Unprotected: []string{path}}}.Resolve(Base{Dir: "/w"})
		var bad *FieldError
		if !errors.As(err, &bad) || !strings.Contains(bad.Hint, names) || len(bad.Hint) > 400 {
			t.Errorf("%q: %v", path, err)
		}
	}
}
