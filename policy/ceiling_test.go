package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const minute = Duration(time.Minute)

func ceiling(change func(*Ceiling)) *Ceiling {
	c := &Ceiling{Workspace: []Place{{"/srv/a", "rw"}, {"/srv/read", "ro"}, {"/srv/default", ""}}}
	if change != nil {
		change(c)
	}
	return c
}

func spec(change func(*Spec)) Spec {
	s := Spec{Workspace: Workspace{Source: "/srv/a/x"}}
	if change != nil {
		change(&s)
	}
	return s
}

// TestCeiling has, for each field, what is let through and what is not. An
// empty rule is the first kind.
func TestCeiling(t *testing.T) {
	mounts := func(c *Ceiling) { c.Mounts = []Place{{"/data", "ro"}, {"/data/out", "rw"}, {"/etc/hosts", ""}} }
	mount := func(source, mode string) func(*Spec) {
		return func(s *Spec) { s.Mounts = []Mount{{Source: source, Mode: mode, Target: "/mnt/x"}} }
	}
	workspace := func(w Workspace) func(*Spec) { return func(s *Spec) { s.Workspace = w } }
	tests := []struct {
		name    string
		ceiling func(*Ceiling)
		spec    func(*Spec)
		rule    string
		field   string
	}{
		{"defaults", nil, nil, "", ""},
		{"backend linux", nil, func(s *Spec) { s.Backend = "linux" }, "", ""},
		{"another backend", nil, func(s *Spec) { s.Backend = "docker" }, "ceiling.backends", "backend"},
		{"level full", nil, func(s *Spec) { s.Level = LevelFull }, "", ""},
		{"level landlock", nil, func(s *Spec) { s.Level = LevelLandlock }, "ceiling.levels", "level"},
		{"level landlock, allowed", func(c *Ceiling) { c.Levels = []string{LevelLandlock} }, func(s *Spec) { s.Level = LevelLandlock }, "", ""},
		{"a default that is not allowed", func(c *Ceiling) { c.Levels = []string{LevelLandlock} }, nil, "ceiling.levels", "level"},
		{"seccomp strict", nil, func(s *Spec) { s.Seccomp = "strict" }, "", ""},
		{"seccomp debug", nil, func(s *Spec) { s.Seccomp = "debug" }, "ceiling.seccomp", "seccomp"},
		{"seccomp debug, allowed", func(c *Ceiling) { c.Seccomp = []string{"debug"} }, func(s *Spec) { s.Seccomp = "debug" }, "", ""},
		{"network none", nil, func(s *Spec) { s.Network.Mode = "none" }, "", ""},
		{"network host", nil, func(s *Spec) { s.Network.Mode = "host" }, "ceiling.network", "network"},
		{"network host, allowed", func(c *Ceiling) { c.Network = []string{"none", "host"} }, func(s *Spec) { s.Network.Mode = "host" }, "", ""},
		{"rootfs host", nil, func(s *Spec) { s.RootFS = "host" }, "", ""},
		{"rootfs", nil, func(s *Spec) { s.RootFS = "/images/a" }, "ceiling.rootfs", "rootfs"},
		{"rootfs, allowed", func(c *Ceiling) { c.RootFS = []string{"/images"} }, func(s *Spec) { s.RootFS = "/images/a" }, "", ""},
		{"rootfs of a longer name", func(c *Ceiling) { c.RootFS = []string{"/images"} }, func(s *Spec) { s.RootFS = "/images2" }, "ceiling.rootfs", "rootfs"},
		{"rootfs host, not allowed", func(c *Ceiling) { c.RootFS = []string{"/images"} }, nil, "ceiling.rootfs", "rootfs"},
		{"rootfs named like host", func(c *Ceiling) { c.RootFS = []string{"host"} }, func(s *Spec) { s.RootFS = "/host" }, "ceiling.rootfs", "rootfs"},

		{"the place itself", nil, workspace(Workspace{Source: "/srv/a"}), "", ""},
		{"the place, unclean", nil, workspace(Workspace{Source: "/srv//a/./b/../c/"}), "", ""},
		{"above the place", nil, workspace(Workspace{Source: "/srv"}), "ceiling.workspace", "workspace.source"},
		{"out by name", nil, workspace(Workspace{Source: "/srv/a/../b"}), "ceiling.workspace", "workspace.source"},
		{"a longer name", nil, workspace(Workspace{Source: "/srv/ab"}), "ceiling.workspace", "workspace.source"},
		{"relative", nil, workspace(Workspace{Source: "srv/a"}), "ceiling.workspace", "workspace.source"},
		{"of somebody's home", nil, workspace(Workspace{Source: "~/a"}), "ceiling.workspace", "workspace.source"},
		{"left out", nil, workspace(Workspace{}), "ceiling.workspace", "workspace.source"},
		{"a NUL byte", nil, workspace(Workspace{Source: "/srv/a/\x00"}), "ceiling.workspace", "workspace.source"},
		{"writable by default", nil, workspace(Workspace{Source: "/srv/read/a"}), "ceiling.workspace", "workspace.source"},
		{"writable, of no mode", nil, workspace(Workspace{Source: "/srv/default"}), "ceiling.workspace", "workspace.source"},
		{"read-only", nil, workspace(Workspace{Source: "/srv/read/a", Access: "ro"}), "", ""},
		{"a copy", nil, workspace(Workspace{Source: "/srv/read/a", Mode: ModeCopy}), "", ""},
		{"an overlay", nil, workspace(Workspace{Source: "/srv/read/a", Mode: ModeOverlay}), "", ""},
		{"a place for layers", nil, workspace(Workspace{Source: "/srv/a", Mode: ModeOverlay, Layers: "/srv/a"}), "ceiling.workspace", "workspace.layers"},
		{"unprotected", nil, workspace(Workspace{Source: "/srv/a", Unprotected: []string{".envrc"}}), "ceiling.unprotected", "workspace.unprotected[0]"},
		{"unprotected, allowed", func(c *Ceiling) { c.Unprotected = []string{".envrc"} },
			workspace(Workspace{Source: "/srv/a", Unprotected: []string{".envrc"}}), "", ""},
		{"all unprotected", func(c *Ceiling) { c.Unprotected = []string{".envrc"} },
			workspace(Workspace{Source: "/srv/a", Unprotected: []string{".envrc", "*"}}), "ceiling.unprotected", "workspace.unprotected[1]"},
		{"all unprotected, allowed", func(c *Ceiling) { c.Unprotected = []string{"*"} },
			workspace(Workspace{Source: "/srv/a", Unprotected: []string{".envrc", "*"}}), "", ""},

		{"a mount", nil, mount("/data", "ro"), "ceiling.mounts", "mounts[0].source"},
		{"a mount, allowed", mounts, mount("/data/in", "ro"), "", ""},
		{"a mount of no mode", mounts, mount("/data/in", ""), "", ""},
		{"a writable mount", mounts, mount("/data/in", "rw"), "ceiling.mounts", "mounts[0].source"},
		{"a writable mount, allowed", mounts, mount("/data/out/x", "rw"), "", ""},
		{"a file", mounts, mount("/etc/hosts", "ro"), "", ""},
		{"a neighbour of a file", mounts, mount("/etc/hosts2", "ro"), "ceiling.mounts", "mounts[0].source"},
		{"the whole host", mounts, mount("/", "ro"), "ceiling.mounts", "mounts[0].source"},
		{"the whole host, allowed", func(c *Ceiling) { c.Mounts = []Place{{Source: "/"}} }, mount("/home", ""), "", ""},
		{"a home", mounts, mount("~", "ro"), "ceiling.mounts", "mounts[0].source"},

		{"degraded", nil, func(s *Spec) { s.AllowDegraded = []string{"memory"} }, "ceiling.allow_degraded", "allow_degraded[0]"},
		{"degraded, allowed", func(c *Ceiling) { c.AllowDegraded = []string{"memory"} },
			func(s *Spec) { s.AllowDegraded = []string{"memory"} }, "", ""},
		{"more degraded", func(c *Ceiling) { c.AllowDegraded = []string{"memory"} },
			func(s *Spec) { s.AllowDegraded = []string{"memory", "cpus"} }, "ceiling.allow_degraded", "allow_degraded[1]"},
		{"variables and host name", nil, func(s *Spec) { s.Env, s.Hostname = map[string]string{"A": "b"}, "x" }, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := spec(tt.spec)
			got, err := ceiling(tt.ceiling).Apply(s)
			checkCeilingError(t, err, tt.rule, tt.field)
			if err == nil && cmp.Diff(s, got) != "" {
				t.Errorf("the spec changed: %s", cmp.Diff(s, got))
			}
			if same, err := (*Ceiling)(nil).Apply(s); err != nil || cmp.Diff(s, same) != "" {
				t.Errorf("without a ceiling: %v", err)
			}
		})
	}
}

func checkCeilingError(t *testing.T, err error, rule, field string) {
	t.Helper()
	found := (*CeilingError)(nil)
	switch {
	case rule == "" && err == nil:
	case !errors.As(err, &found):
		t.Errorf("got %v, want a refusal by %q", err, rule)
	case found.Rule != rule || found.Field != field || found.Hint == "" || found.Layer() != "privilege":
		t.Errorf("got %+v, want rule %q, field %q", found, rule, field)
	case !strings.HasPrefix(err.Error(), "cannot use "+field) || len(FieldErrors(err)) != 1:
		t.Errorf("it reads %q", err)
	}
}

// TestCeilingLimits has each limit with a maximum, below, at, above and left open.
func TestCeilingLimits(t *testing.T) {
	set := func(l Limits) func(*Ceiling) { return func(c *Ceiling) { c.Limits = l } }
	tests := []struct {
		name    string
		ceiling Limits
		spec    Limits
		want    Limits
		refused string
	}{
		{"nothing", Limits{}, Limits{}, Limits{}, ""},
		{"no maximum and no default", Limits{}, Limits{Timeout: 99 * minute, Memory: GiB, Swap: GiB}, Limits{Timeout: 99 * minute, Memory: GiB, Swap: GiB}, ""},
		{"the defaults", Limits{}, Limits{Tmp: DefaultTmp, Processes: DefaultProcesses, Output: DefaultOutput, Disk: DefaultDisk},
			Limits{Tmp: DefaultTmp, Processes: DefaultProcesses, Output: DefaultOutput, Disk: DefaultDisk}, ""},
		{"tmp above the default", Limits{}, Limits{Tmp: 10 << 40}, Limits{}, "tmp"},
		{"processes above the default", Limits{}, Limits{Processes: 100000}, Limits{}, "processes"},
		{"output above the default", Limits{}, Limits{Output: DefaultOutput + 1}, Limits{}, "output"},
		{"disk above the default", Limits{}, Limits{Disk: DefaultDisk + 1}, Limits{}, "disk"},
		{"above the default, allowed", Limits{Tmp: 2 * GiB}, Limits{Tmp: 2 * GiB}, Limits{Tmp: 2 * GiB}, ""},
		{"the default as the maximum", Limits{Processes: DefaultProcesses}, Limits{}, Limits{}, ""}, // filled in by Resolve
		{"timeout open", Limits{Timeout: minute}, Limits{}, Limits{Timeout: minute}, ""},
		{"timeout less", Limits{Timeout: minute}, Limits{Timeout: minute - 1}, Limits{Timeout: minute - 1}, ""},
		{"timeout same", Limits{Timeout: minute}, Limits{Timeout: minute}, Limits{Timeout: minute}, ""},
		{"timeout more", Limits{Timeout: minute}, Limits{Timeout: minute + 1}, Limits{}, "timeout"},
		{"timeout negative", Limits{Timeout: minute}, Limits{Timeout: -1}, Limits{}, "timeout"},
		{"cpu_time open", Limits{CPUTime: minute}, Limits{}, Limits{CPUTime: minute}, ""},
		{"cpu_time rounded", Limits{CPUTime: minute - 5}, Limits{CPUTime: minute - 1}, Limits{CPUTime: minute}, ""},
		{"cpu_time more", Limits{CPUTime: minute}, Limits{CPUTime: minute + 1}, Limits{}, "cpu_time"},
		{"output open", Limits{Output: 2 * MiB}, Limits{}, Limits{Output: DefaultOutput}, ""},
		{"output open, below the default", Limits{Output: KiB}, Limits{}, Limits{Output: KiB}, ""},
		{"output more", Limits{Output: KiB}, Limits{Output: KiB + 1}, Limits{}, "output"},
		{"file_size open", Limits{FileSize: MiB}, Limits{}, Limits{FileSize: MiB}, ""},
		{"file_size more", Limits{FileSize: MiB}, Limits{FileSize: GiB}, Limits{}, "file_size"},
		{"open_files open", Limits{OpenFiles: 64}, Limits{}, Limits{OpenFiles: 64}, ""},
		{"open_files more", Limits{OpenFiles: 64}, Limits{OpenFiles: 65}, Limits{}, "open_files"},
		{"processes open", Limits{Processes: 1 << 20}, Limits{}, Limits{Processes: DefaultProcesses}, ""},
		{"processes open, below the default", Limits{Processes: 64}, Limits{}, Limits{Processes: 64}, ""},
		{"processes more", Limits{Processes: 64}, Limits{Processes: 1 << 63}, Limits{}, "processes"},
		{"tmp open", Limits{Tmp: MiB}, Limits{}, Limits{Tmp: MiB}, ""},
		{"tmp more", Limits{Tmp: MiB}, Limits{Tmp: 2 * MiB}, Limits{}, "tmp"},
		{"cpus open", Limits{CPUs: 1500}, Limits{}, Limits{CPUs: 1500}, ""},
		{"cpus more", Limits{CPUs: 1500}, Limits{CPUs: 1501}, Limits{}, "cpus"},
		{"memory open", Limits{Memory: GiB}, Limits{}, Limits{Memory: GiB}, ""},
		{"memory more", Limits{Memory: GiB}, Limits{Memory: GiB + 1}, Limits{}, "memory"},
		{"memory_high", Limits{Memory: GiB}, Limits{MemoryHigh: MiB * 8}, Limits{Memory: GiB, MemoryHigh: MiB * 8}, ""},
		{"memory_high more", Limits{Memory: GiB}, Limits{MemoryHigh: GiB + 1}, Limits{}, "memory_high"},
		{"memory_high of its own", Limits{MemoryHigh: MiB * 8}, Limits{MemoryHigh: MiB * 9}, Limits{}, "memory_high"},
		{"swap beside memory", Limits{Memory: GiB}, Limits{Swap: 1}, Limits{}, "swap"},
		{"swap", Limits{Memory: GiB, Swap: MiB}, Limits{Swap: MiB}, Limits{Memory: GiB, Swap: MiB}, ""},
		{"swap open", Limits{Memory: GiB, Swap: MiB}, Limits{}, Limits{Memory: GiB}, ""},
		{"swap more", Limits{Memory: GiB, Swap: MiB}, Limits{Swap: MiB + 1}, Limits{}, "swap"},
		{"disk of no copy", Limits{Disk: MiB}, Limits{}, Limits{}, ""},
		{"disk more", Limits{Disk: MiB}, Limits{Disk: MiB + 1}, Limits{}, "disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ceiling(set(tt.ceiling)).Apply(spec(func(s *Spec) { s.Limits = tt.spec }))
			rule, field := "", ""
			if tt.refused != "" {
				rule, field = "ceiling.limits."+tt.refused, "limits."+tt.refused
			}
			checkCeilingError(t, err, rule, field)
			if diff := cmp.Diff(tt.want, got.Limits); diff != "" {
				t.Error(diff)
			}
		})
	}
	for maximum, want := range map[Size]Size{0: 0, MiB: MiB, 4 * GiB: DefaultDisk} {
		got, err := ceiling(set(Limits{Disk: maximum})).Apply(spec(func(s *Spec) { s.Workspace.Mode = ModeCopy }))
		if err != nil || got.Limits.Disk != want {
			t.Errorf("a copy below %v gets %v, %v; want %v", maximum, got.Limits.Disk, err, want)
		}
	}
}

// TestCeilingLasts has the times of lasting sandboxes, and what a ceiling says of them once it is
// written out.
func TestCeilingLasts(t *testing.T) {
	const hour = 60 * minute
	for name, tt := range map[string]struct {
		ceiling                *Ceiling
		idle, lifetime         Duration
		wantIdle, wantLifetime Duration
		refused                string
	}{
		"no ceiling":              {nil, 0, 100000 * hour, hour, 100000 * hour, ""},
		"no ceiling, open":        {nil, 0, 0, hour, 0, ""},
		"open":                    {ceiling(nil), 0, 0, hour, DefaultLifetime, ""},
		"below":                   {ceiling(nil), minute, hour, minute, hour, ""},
		"idle above the default":  {ceiling(nil), hour + 1, 0, 0, 0, "idle"},
		"lifetime above":          {ceiling(nil), 0, 100000 * hour, 0, 0, "lifetime"},
		"idle of its own":         {ceiling(func(c *Ceiling) { c.Idle = 9 * hour }), 9 * hour, 0, 9 * hour, DefaultLifetime, ""},
		"idle of its own, open":   {ceiling(func(c *Ceiling) { c.Idle = minute }), 0, 0, minute, DefaultLifetime, ""},
		"lifetime of its own":     {ceiling(func(c *Ceiling) { c.Lifetime = hour }), 0, 2 * hour, 0, 0, "lifetime"},
		"a lifetime of no bounds": {ceiling(func(c *Ceiling) { c.Lifetime = MaxLasting }), 0, 0, hour, 0, ""},
	} {
		idle, lifetime, err := tt.ceiling.Lasts(tt.idle, tt.lifetime)
		if tt.refused != "" {
			checkCeilingError(t, err, "ceiling."+tt.refused, tt.refused)
		} else if err != nil || idle != tt.wantIdle || lifetime != tt.wantLifetime {
			t.Errorf("%s: %v, %v, %v", name, idle, lifetime, err)
		}
	}
	got := ceiling(nil).Explicit()
	want := Limits{Output: DefaultOutput, Processes: DefaultProcesses, Tmp: DefaultTmp, Disk: DefaultDisk}
	if diff := cmp.Diff(want, got.Limits); diff != "" || got.Idle != DefaultIdle || got.Lifetime != DefaultLifetime || got.Validate() != nil {
		t.Errorf("written out: %v, %v, %v\n%s", got.Idle, got.Lifetime, got.Validate(), diff)
	}
	landlock := ceiling(func(c *Ceiling) { c.Levels = []string{LevelFull, LevelLandlock} }).Explicit()
	if err := landlock.Validate(); err != nil || landlock.Limits.Tmp != 0 {
		t.Errorf("with landlock: %v, %v", landlock.Limits.Tmp, err)
	}
	if err := ceiling(func(c *Ceiling) { c.Lifetime = MaxLasting + 1 }).Validate(); err == nil {
		t.Error("a lifetime beyond reason is taken")
	}
}

func TestCeilingTellsAll(t *testing.T) {
	_, err := ceiling(nil).Apply(Spec{Network: Network{Mode: "host"}, Mounts: []Mount{{Source: "/etc"}, {Source: "x"}}})
	want := `cannot use network "host": the ceiling does not allow it
cannot use workspace.source: it is empty
cannot use mounts[0].source "/etc": the ceiling does not allow it
cannot use mounts[1].source "x": it is not an absolute path`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestCeilingPassesVariables(t *testing.T) {
	c := ceiling(func(c *Ceiling) { c.Env = []string{"LANG", "LC_*"} })
	for name, ok := range map[string]bool{"LANG": true, "LANGUAGE": false, "LC_ALL": true, "LC_": true, "LC": false, "": false, "lang": false, "TOKEN": false} {
		err := c.PassEnv(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if found := (*CeilingError)(nil); err != nil && (!errors.As(err, &found) || found.Rule != "ceiling.env") {
			t.Errorf("%q: %+v", name, found)
		}
	}
	if err := (*Ceiling)(nil).PassEnv("TOKEN"); err != nil {
		t.Error(err)
	}
	if err := ceiling(func(c *Ceiling) { c.Env = []string{"*"} }).PassEnv("TOKEN"); err != nil {
		t.Error(err)
	}
	if err := ceiling(nil).PassEnv("LANG"); err == nil {
		t.Error("a ceiling that names no variable passes one")
	}
}

func TestCeilingValidate(t *testing.T) {
	if err := ceiling(nil).Validate(); err != nil {
		t.Error(err)
	}
	long := make([]string, 1025)
	tests := []struct {
		change func(*Ceiling)
		want   string
	}{
		{func(c *Ceiling) { *c = Ceiling{} }, "cannot use workspace: no directory may be a workspace, and every spec has one"},
		{func(c *Ceiling) { c.Backends = []string{"vm"} }, `cannot use backends[0] "vm": unknown value`},
		{func(c *Ceiling) { c.Backends = []string{} }, "cannot use backends: it allows nothing, and every spec needs one"},
		{func(c *Ceiling) { c.Levels = []string{"full", "none"} }, `cannot use levels[1] "none": unknown value`},
		{func(c *Ceiling) { c.Levels = []string{} }, "cannot use levels: it allows nothing, and every spec needs one"},
		{func(c *Ceiling) { c.Seccomp = []string{"off"} }, `cannot use seccomp[0] "off": unknown value`},
		{func(c *Ceiling) { c.Network = []string{""} }, `cannot use network[0]: unknown value`},
		{func(c *Ceiling) { c.RootFS = []string{} }, "cannot use rootfs: it allows nothing, and every spec needs one"},
		{func(c *Ceiling) { c.RootFS = []string{"images"} }, `cannot use rootfs[0] "images": it is not an absolute path`},
		{func(c *Ceiling) { c.RootFS = long }, "cannot use rootfs: it has more than 1024 entries"},
		{func(c *Ceiling) { c.Mounts = []Place{{Source: "/a/../b"}} }, `cannot use mounts[0].source "/a/../b": it is not a clean path`},
		{func(c *Ceiling) { c.Mounts = []Place{{Source: "/a/"}} }, `cannot use mounts[0].source "/a/": it is not a clean path`},
		{func(c *Ceiling) { c.Mounts = []Place{{Source: "/proc/1"}} }, `cannot use mounts[0].source "/proc/1": /proc belongs to the kernel, and no spec can have it`},
		{func(c *Ceiling) { c.Mounts = []Place{{}} }, `cannot use mounts[0].source: it is empty`},
		{func(c *Ceiling) { c.Mounts = []Place{{"/a", "wr"}} }, `cannot use mounts[0].mode "wr": it must be "ro" or "rw"`},
		{func(c *Ceiling) { c.Mounts = []Place{{"/a", "ro"}, {"/a", "rw"}} }, `cannot use mounts[1].source "/a": it is there twice`},
		{func(c *Ceiling) { c.Mounts = make([]Place, 1025) }, "cannot use mounts: it has more than 1024 entries"},
		{func(c *Ceiling) { c.Workspace = []Place{{Source: "~/a"}} }, `cannot use workspace[0].source "~/a": it is not an absolute path`},
		{func(c *Ceiling) { c.Unprotected = []string{"Makefile"} }, `cannot use unprotected[0] "Makefile": it is not a protected path`},
		{func(c *Ceiling) { c.Unprotected = long }, "cannot use unprotected: it has more than 1024 entries"},
		{func(c *Ceiling) { c.Env = []string{"A=b"} }, `cannot use env[0] "A=b": a name is letters, digits and underscores, and may end in *`},
		{func(c *Ceiling) { c.Env = []string{"A*B"} }, `cannot use env[0] "A*B": a name is letters, digits and underscores, and may end in *`},
		{func(c *Ceiling) { c.Env = []string{""} }, `cannot use env[0]: a name is letters, digits and underscores, and may end in *`},
		{func(c *Ceiling) { c.Env = long }, "cannot use env: it has more than 1024 entries"},
		{func(c *Ceiling) { c.AllowDegraded = []string{"all"} }, `cannot use allow_degraded[0] "all": it is nothing that can be degraded`},
		{func(c *Ceiling) { c.AllowDegraded = []string{"namespaces"} }, `cannot use allow_degraded "namespaces": it gives the landlock level, which levels does not allow`},
		{func(c *Ceiling) { c.Limits.Timeout = 1 }, `cannot use limits.timeout "1ns": it is less than 1ms`},
		{func(c *Ceiling) { c.Limits.Processes = 3 }, `cannot use limits.processes "3": it is less than 4`},
		{func(c *Ceiling) { c.Limits.Memory = -1 }, `cannot use limits.memory "-1B": it must not be negative`},
		{func(c *Ceiling) { c.Limits.Swap = MiB }, `cannot use limits.swap "1MiB": it is beside limits.memory, which is not given`},
		{func(c *Ceiling) { c.Limits.Memory, c.Limits.MemoryHigh = 8*MiB, 9*MiB }, `cannot use limits.memory_high "9MiB": it is more than limits.memory, 8MiB`},
		{func(c *Ceiling) { c.Levels, c.Limits.Tmp = []string{"full", "landlock"}, MiB }, `cannot use limits.tmp "1MiB": the landlock level, which levels allows, cannot keep it`},
	}
	for _, tt := range tests {
		c := ceiling(tt.change)
		if err := c.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if got, err := c.Apply(spec(nil)); err == nil {
			t.Errorf("a ceiling that is not valid (%s) lets %+v through", tt.want, got)
		}
	}
}
