package policy

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// dice picks from vocabularies as its bytes say.
type dice []byte

func (d *dice) roll(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := int((*d)[0])
	*d = (*d)[1:]
	return b % n
}

func pick[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

func picks[T any](d *dice, of ...T) []T {
	var some []T
	for range d.roll(3) {
		some = append(some, pick(d, of...))
	}
	return some
}

var fuzzPaths = []string{"/a", "/a/b", "/a/b/../..", "/a/../c", "/ab", "/", "a", "~", "", "/c/", "/c/./d", "//a", "/a/b/../b", "/proc", "host"}

func fuzzLimits(d *dice) Limits {
	return Limits{
		Timeout: pick[Duration](d, 0, 1, minute, minute+1, 2*minute, -1), CPUTime: pick[Duration](d, 0, minute-1, minute, minute+1, 1<<63-1, -1),
		Output: pick[Size](d, 0, 1, MiB, 2*MiB, -1), FileSize: pick[Size](d, 0, 1, MiB, 1<<63-1),
		OpenFiles: pick[uint64](d, 0, 16, 64, 1<<63), Processes: pick[uint64](d, 0, 32, 5000, 1<<64-1),
		Tmp: pick[Size](d, 0, MiB, 2*GiB, -1), Memory: pick[Size](d, 0, 8*MiB, GiB, -1), MemoryHigh: pick[Size](d, 0, 8*MiB, GiB),
		Swap: pick[Size](d, 0, MiB, GiB, -1), CPUs: pick[CPUs](d, 0, 10, 1500, 1<<40), Disk: pick[Size](d, 0, MiB, 2*GiB, -1),
	}
}

// fuzzKeys are fingerprints, the last without a digest.
var fuzzKeys = []string{"SHA256:" + strings.Repeat("A", 43), "SHA256:" + strings.Repeat("B", 42) + "A", "SHA256:"}

func fuzzSSHAgent(d *dice) *SSHAgent { return &SSHAgent{picks(d, fuzzKeys...), d.roll(2) == 1} }

func fuzzCeiling(d *dice) *Ceiling {
	place := func() Place { return Place{pick(d, fuzzPaths...), pick(d, "", "ro", "rw")} }
	c := &Ceiling{
		Levels: picks(d, "full", "landlock"), Seccomp: picks(d, "default", "strict", "debug"), Network: picks(d, "none", "host"),
		RootFS: picks(d, fuzzPaths...), AllowDegraded: picks(d, "memory", "namespaces"), Unprotected: picks(d, ".envrc", "*"),
		Workspace: []Place{place()}, Limits: fuzzLimits(d),
	}
	for range d.roll(3) {
		c.Mounts = append(c.Mounts, place())
	}
	if d.roll(2) == 1 {
		c.Network, c.SSHAgent = append(c.Network, "allow"), fuzzSSHAgent(d)
	}
	return c
}

func fuzzSpec(d *dice) Spec {
	s := Spec{
		Backend: pick(d, "", "linux", "host"), Level: pick(d, "", "full", "landlock"), Seccomp: pick(d, "", "default", "strict", "debug"),
		Network: Network{Mode: pick(d, "", "none", "host")}, RootFS: pick(d, append([]string{""}, fuzzPaths...)...), AllowDegraded: picks(d, "memory", "namespaces", "cpus"),
		Workspace: Workspace{Source: pick(d, fuzzPaths...), Mode: pick(d, "", "bind", "copy", "overlay"), Access: pick(d, "", "rw", "ro"), Unprotected: picks(d, ".envrc", ".vscode", "*")},
		Limits:    fuzzLimits(d),
	}
	for range d.roll(3) {
		s.Mounts = append(s.Mounts, Mount{Source: pick(d, fuzzPaths...), Mode: pick(d, "", "ro", "rw")})
	}
	if d.roll(3) == 1 {
		s.SSHAgent, s.Network.Mode = fuzzSSHAgent(d), pick(d, "", "allow", "none")
	}
	return s
}

// excess says what of a resolved spec is more than the ceiling allows, in
// other words than the code that is tested.
func excess(c *Ceiling, s Spec) []string {
	var all []string
	check := func(what string, ok bool) {
		if !ok {
			all = append(all, what)
		}
	}
	inside := func(source, mode string, places []Place) bool {
		return slices.ContainsFunc(places, func(p Place) bool {
			rel, err := filepath.Rel(p.Source, source)
			return err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && (mode == "ro" || p.Mode == "rw")
		})
	}
	listed := func(word string, list []string, byDefault ...string) bool {
		if len(list) == 0 {
			list = byDefault
		}
		return slices.Contains(list, word)
	}
	check("backend", s.Backend == "linux")
	check("level", listed(s.Level, c.Levels, "full"))
	check("level by degradation", !slices.Contains(s.AllowDegraded, "namespaces") || slices.Contains(c.Levels, "landlock"))
	check("seccomp", listed(s.Seccomp, c.Seccomp, "default", "strict"))
	check("network", listed(s.Network.Mode, c.Network, "none"))
	if a, most := s.SSHAgent, c.SSHAgent; a != nil {
		check("network of the SSH agent", s.Network.Mode == "allow")
		check("SSH agent", most != nil && (most.Sign || !a.Sign))
		check("keys", most != nil && (len(most.Keys) == 0 || len(a.Keys) > 0))
		for _, key := range a.Keys {
			check("key "+key, len(key) == 50 && most != nil && (len(most.Keys) == 0 || slices.Contains(most.Keys, key)))
		}
	}
	var images []Place
	for _, dir := range c.RootFS {
		if dir != "host" {
			images = append(images, Place{dir, "ro"})
		}
	}
	check("rootfs", s.RootFS == "host" && listed("host", c.RootFS, "host") || s.RootFS != "host" && inside(s.RootFS, "ro", images))
	mode := s.Workspace.Access
	if s.Workspace.OnlyReads() {
		mode = "ro"
	}
	check("workspace", inside(s.Workspace.Source, mode, c.Workspace))
	for _, m := range s.Mounts {
		check("mount "+m.Source, inside(m.Source, m.Mode, c.Mounts))
	}
	for _, name := range s.AllowDegraded {
		check("degraded "+name, slices.Contains(c.AllowDegraded, name))
	}
	for _, p := range s.Workspace.Unprotected {
		check("unprotected "+p, slices.Contains(c.Unprotected, p) || slices.Contains(c.Unprotected, "*"))
	}
	return append(all, excessLimits(c.Limits, s)...)
}

func excessLimits(c Limits, s Spec) []string {
	var all []string
	l := s.Limits
	most := func(what string, value, most int64) {
		if most != 0 && (value == 0 || value > most) {
			all = append(all, what)
		}
	}
	second := time.Second
	most("timeout", int64(l.Timeout), int64(c.Timeout))
	most("cpu_time", int64(l.CPUTime), int64((time.Duration(c.CPUTime) + second - 1).Truncate(second)))
	most("output", int64(l.Output), int64(c.Output))
	most("file_size", int64(l.FileSize), int64(c.FileSize))
	most("open_files", int64(l.OpenFiles), int64(c.OpenFiles))
	most("processes", int64(l.Processes), int64(c.Processes))
	most("tmp", int64(l.Tmp), int64(c.Tmp))
	most("cpus", int64(l.CPUs), int64(c.CPUs))
	most("memory", int64(l.Memory), int64(c.Memory))
	if s.Workspace.Mode == "copy" {
		most("disk", int64(l.Disk), int64(c.Disk))
	}
	if l.MemoryHigh != 0 {
		most("memory_high", int64(l.MemoryHigh), int64(cmp.Or(c.MemoryHigh, c.Memory)))
	}
	if c.Memory != 0 && l.Swap > c.Swap {
		all = append(all, "swap")
	}
	return all
}

// FuzzCeiling: what Apply lets through, and Resolve then makes of it, is within
// the ceiling.
func FuzzCeiling(f *testing.F) {
	for i := range 256 {
		seed := make([]byte, 96)
		for j := range seed {
			seed[j] = byte(i * (j + 7) * 31 >> (j % 5))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := dice(data)
		c, s := fuzzCeiling(&d), fuzzSpec(&d)
		checkWithin(t, c, s)
	})
}

func checkWithin(t *testing.T, c *Ceiling, s Spec) (passed bool) {
	t.Helper()
	applied, err := c.Apply(s)
	if err != nil {
		return false
	}
	resolved, err := applied.Resolve(Base{Dir: "/elsewhere", Home: "/home/me"})
	if err != nil {
		return false
	}
	if all := excess(c, resolved); len(all) > 0 {
		t.Fatalf("%v exceed\n%+v\nwritten %+v\nresolved %+v", all, c, s, resolved)
	}
	return true
}

// TestCeilingHolds tries what a random spec is seldom like: one that passes,
// with each of its fields changed in turn.
func TestCeilingHolds(t *testing.T) {
	passed := 0
	for i := range 20_000 {
		data := make(dice, 96)
		x := uint32(i)*2654435761 + 1
		for j := range data {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			if x%3 == 0 { // mostly the first word of each vocabulary, which passes
				data[j] = byte(x >> 8)
			}
		}
		c := fuzzCeiling(&data)
		c.Workspace[0] = Place{"/a", []string{"ro", "rw"}[i%2]}
		c.Mounts = append(c.Mounts, Place{"/a/b", "ro"})
		if checkWithin(t, c, fuzzSpec(&data)) {
			passed++
		}
	}
	if passed < 20 {
		t.Errorf("only %d specs passed: nothing is shown by that", passed)
	}
	t.Logf("%d specs passed", passed)
}
