package paddock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/policy"
)

// goWorkspace returns a directory that go's files say uses go.
func goWorkspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/app\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// auto are the options of the doors.
func auto(principal string) Options {
	return Options{Caches: CacheOptions{Auto: true, Principal: principal}}
}

// shell runs shell text in a sandbox of its own, and returns its output and the isolation.
func shell(t *testing.T, spec Spec, opts Options, text string) (string, Isolation) {
	t.Helper()
	s, err := Open(t.Context(), spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Command(t.Context(), "sh", "-c", text).CombinedOutput()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return string(out), s.Isolation()
}

// storeOf gives a test caches of its own, and returns where they are.
func storeOf(t *testing.T) string {
	t.Helper()
	requireWalls(t)
	dir := filepath.Join(t.TempDir(), "caches")
	t.Setenv(CacheDirEnv, dir)
	return dir
}

// TestCachePoisoned: what a hostile run writes into a cache is seen by later runs of the same
// principal over the same workspace, and by nothing else.
func TestCachePoisoned(t *testing.T) {
	store, ws := storeOf(t), goWorkspace(t)
	spec := Spec{Workspace: Workspace{Source: ws}}
	_, iso := shell(t, spec, auto("ann"), `mkdir -p "$GOCACHE" && echo evil > "$GOCACHE/evil" && chmod 777 "$GOCACHE/.." && ln -s / "$GOCACHE/root"`)
	if !slices.Equal(iso.Caches, []string{"go"}) {
		t.Errorf("the caches are %q", iso.Caches)
	}
	const look = `cat "$GOCACHE/evil" 2>/dev/null || find / -name evil 2>/dev/null; echo "[$GOCACHE]"`
	with := func(change func(*Spec)) Spec {
		s := spec
		change(&s)
		return s
	}
	moved := goWorkspace(t)
	tests := []struct {
		name string
		spec Spec
		opts Options
		seen bool
	}{
		{"the same", spec, auto("ann"), true}, // or the others prove nothing
		{"another principal", spec, auto("bob"), false},
		{"no principal", spec, auto(""), false},
		{"another workspace", with(func(s *Spec) { s.Workspace.Source = moved }), auto("ann"), false},
		{"none", with(func(s *Spec) { s.Caches = []string{"none"} }), auto("ann"), false},
		{"another tool", with(func(s *Spec) { s.Caches = []string{"npm"} }), auto("ann"), false},
		{"rules for commands", with(func(s *Spec) {
			s.Commands = &policy.Commands{Allow: []string{"sh", "cat", "find", "echo"}}
		}), auto("ann"), false},
		{"the store is shown", with(func(s *Spec) { s.Mounts = []Mount{{Source: filepath.Dir(store), Mode: "rw"}} }), auto("ann"), false},
		{"the store is shown, read-only", with(func(s *Spec) { s.Mounts = []Mount{{Source: filepath.Dir(store)}} }), auto("bob"), false},
		{"the store is in the workspace", with(func(s *Spec) { s.Workspace.Source = filepath.Dir(store) }), auto("ann"), false},
		{"the library's zero value", spec, Options{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, iso := shell(t, tt.spec, tt.opts, look)
			if seen := strings.Contains(out, "evil"); seen != tt.seen {
				t.Errorf("it is seen: %t; with caches %q: %s", seen, iso.Caches, out)
			}
			if iso.Caches == nil && !strings.Contains(out, "[]") {
				t.Errorf("without a cache GOCACHE is %s", out)
			}
		})
	}
	removed, err := RemoveCaches(t.Context(), CacheChoice{Workspace: ws}, Options{})
	if err != nil || len(removed) == 0 {
		t.Fatalf("removed %+v (%v)", removed, err)
	}
	if out, _ := shell(t, spec, auto("ann"), look); strings.Contains(out, "evil") {
		t.Errorf("after its removal: %s", out)
	}
}

// TestCacheStays: a cache and a HOME can be written at each level, and stay. A private HOME
// does not.
func TestCacheStays(t *testing.T) {
	for _, level := range []string{policy.LevelFull, policy.LevelLandlock} {
		t.Run(level, func(t *testing.T) {
			if level == policy.LevelLandlock && os.Geteuid() == 0 {
				t.Skip("root's commands at the landlock level are those of another user")
			}
			storeOf(t)
			own := t.TempDir()
			for _, tt := range []struct{ home, want string }{{"", "1\n"}, {"keep", "1\n2\n"}, {own, "1\n2\n"}} {
				spec := Spec{Level: level, Workspace: Workspace{Source: goWorkspace(t)}, Home: tt.home}
				shell(t, spec, auto("ann"), `echo 1 > "$GOMODCACHE.x"; echo 1 > ~/x`)
				out, iso := shell(t, spec, auto("ann"), `echo 2 >> "$GOMODCACHE.x"; echo 2 >> ~/x; cat "$GOMODCACHE.x"`)
				if out != "1\n2\n" || !iso.Verified {
					t.Errorf("home %q: the cache has %q", tt.home, out)
				}
				out, iso = shell(t, spec, auto("ann"), `cat ~/x || echo gone`)
				if stays := out == "1\n2\n"; stays != (tt.home != "") || (iso.Home != "") != stays {
					t.Errorf("home %q is %q and has %q", tt.home, iso.Home, out)
				}
			}
			if _, err := os.Stat(filepath.Join(own, "x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHomeApart: a HOME that stays belongs to one workspace and one principal too.
func TestHomeApart(t *testing.T) {
	storeOf(t)
	spec := Spec{Workspace: Workspace{Source: t.TempDir()}, Home: "keep"}
	shell(t, spec, auto("ann"), `echo 'touch /tmp/obeyed' > ~/.profile`)
	other := Spec{Workspace: Workspace{Source: t.TempDir()}, Home: "keep"}
	for name, tt := range map[string]struct {
		spec Spec
		opts Options
		want bool
	}{"the same": {spec, auto("ann"), true}, "another principal": {spec, auto("bob"), false}, "another workspace": {other, auto("ann"), false}} {
		if out, _ := shell(t, tt.spec, tt.opts, `ls -A ~`); strings.Contains(out, ".profile") != tt.want {
			t.Errorf("%s: HOME has %q", name, out)
		}
	}
	if removed, err := RemoveCaches(t.Context(), CacheChoice{}, Options{}); err != nil || len(removed) > 0 {
		t.Errorf("a HOME was removed as a cache: %+v (%v)", removed, err)
	}
	if removed, err := RemoveCaches(t.Context(), CacheChoice{Tool: "home"}, Options{}); err != nil || len(removed) != 3 {
		t.Errorf("removed %+v (%v)", removed, err)
	}
}

// TestCacheErrors: what was named is used or refused; "auto" never keeps a sandbox from
// starting, and says what is wrong.
func TestCacheErrors(t *testing.T) {
	ws, shown, file := goWorkspace(t), t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	fresh, stranger := goWorkspace(t), "/usr"
	err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o755), os.Chmod(ws, 0o700), os.Chmod(filepath.Dir(ws), 0o700))
	if os.Geteuid() == 0 {
		stranger = t.TempDir()
		err = errors.Join(err, os.Chown(stranger, 65532, 65532))
	}
	if err != nil {
		t.Fatal(err)
	}
	storeOf(t)
	shell(t, Spec{Workspace: Workspace{Source: ws}}, Options{}, "true") // which can write there
	tests := []struct {
		name, store string
		max         string
		spec        Spec
		lost        bool // auto says so
		want, hint  string
	}{
		{"the store is a file", file, "", Spec{}, true, "it is not a directory", CacheDirEnv},
		{"the store is open to others", open, "", Spec{}, true, "it is open to others (mode 0755)", "chmod 700"},
		{"the store cannot be made", "/proc/caches", "", Spec{}, true, "cannot use the caches: mkdir /proc/caches: no such file or directory", CacheDirEnv},
		{"the store is below a file", filepath.Join(file, "caches"), "", Spec{}, true, "not a directory", ""},
		{"the store is another user's", stranger, "", Spec{}, true, "it belongs to another user", CacheDirEnv},
		{"the store is the workspace", ws, "", Spec{}, true, "it has files that are not Paddock's", CacheDirEnv},
		{"the store has the workspace", filepath.Dir(ws), "", Spec{}, true, "it has files that are not Paddock's", CacheDirEnv},
		{"the store is in a copy", filepath.Join(fresh, "caches"), "", Spec{Workspace: Workspace{Source: fresh, Mode: "copy"}}, true, "it lies in the workspace, which is copied", CacheDirEnv},
		{"a sandbox could write there", filepath.Join(ws, "new"), "", Spec{}, true, "commands of a sandbox could have put another in its place", "move it outside"},
		{"the bound is no size", "", "much", Spec{}, true, `cannot use PADDOCK_CACHE_MAX "much": it is not a size above 0`, "20GiB"},
		{"a mount is in the way", filepath.Join(shown, "caches"), "", Spec{Mounts: []Mount{{Source: shown}}}, true, " is another mount inside", CacheDirEnv},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			storeOf(t)
			if tt.store != "" {
				t.Setenv(CacheDirEnv, tt.store)
			}
			t.Setenv(CacheMaxEnv, tt.max)
			if tt.spec.Workspace.Source == "" {
				tt.spec.Workspace.Source = ws
			}
			out, iso := shell(t, tt.spec, auto("ann"), `echo "[$GOCACHE]"`)
			if out != "[]\n" || len(iso.Caches) > 0 {
				t.Errorf("auto gives %s", out)
			}
			if told := strings.Contains(strings.Join(iso.Lost, "\n"), tt.want); told != tt.lost {
				t.Errorf("auto loses %q", iso.Lost)
			}
			if tt.name != "a mount is in the way" { // a HOME has another place inside
				home := tt.spec
				home.Home = "keep"
				if _, err := Open(t.Context(), home, auto("ann")); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("the error of a HOME is %v", err)
				}
			}
			tt.spec.Caches = []string{"go"}
			_, err := Open(t.Context(), tt.spec, auto("ann"))
			hint := ""
			if e := (*Error)(nil); errors.As(err, &e) {
				hint = e.Hint
			}
			if e := (*policy.FieldError)(nil); errors.As(err, &e) {
				hint = e.Hint
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(hint, tt.hint) {
				t.Errorf("the error is %v, with the hint %q", err, hint)
			}
		})
	}
}

// TestCacheFullDisk: so is a disk without room.
func TestCacheFullDisk(t *testing.T) {
	storeOf(t)
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("needs root")
	}
	full := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "full", full).CombinedOutput(); err != nil {
		t.Skipf("no mount can be made here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", full).Run() })
	if err := os.WriteFile(filepath.Join(full, "filler"), make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	t.Setenv(CacheDirEnv, filepath.Join(full, "caches"))
	spec := Spec{Workspace: Workspace{Source: goWorkspace(t)}}
	out, iso := shell(t, spec, auto("ann"), `echo "[$GOCACHE]"`)
	if out != "[]\n" || !strings.Contains(strings.Join(iso.Lost, "\n"), "no space left") {
		t.Errorf("auto gives %s, and loses %q", out, iso.Lost)
	}
	spec.Caches = []string{"go"}
	_, err := Open(t.Context(), spec, auto("ann"))
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, "no space left") || !strings.Contains(e.Hint, "paddock cache rm") {
		t.Errorf("the error is %v", err)
	}
	if err := os.Remove(filepath.Join(full, "filler")); err != nil {
		t.Fatal(err)
	}
	// Room for the cache, but not for what goes into it: only the command fails.
	if out, _ := shell(t, spec, auto("ann"), `head -c 100000 /dev/zero > "$GOCACHE.x" || echo failed`); !strings.Contains(out, "failed") {
		t.Errorf("a full cache: %q", out)
	}
}

// TestCacheUnmapped: where root cannot lend its caches to the workspace's owner, a sandbox
// starts without them, and those that were asked for are refused.
func TestCacheUnmapped(t *testing.T) {
	storeOf(t)
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for the owner
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "ws")
	for _, name := range []string{"lower", "upper", "work", "ws"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const owner = 12345
	mod := filepath.Join(dir, "lower", "go.mod")
	if err := errors.Join(os.WriteFile(mod, nil, 0o644), os.Chown(filepath.Dir(mod), owner, owner), os.Chown(mod, owner, owner)); err != nil {
		t.Fatal(err)
	}
	layers := "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := os.Chown(filepath.Join(dir, "upper"), owner, owner); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "overlay", "-o", layers, "overlay", ws).CombinedOutput(); err != nil {
		t.Skipf("no mount can be made here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", ws).Run() })
	store := os.Getenv(CacheDirEnv)
	t.Setenv(CacheDirEnv, filepath.Join(ws, "caches")) // before a sandbox could write there
	_, err := Open(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir()}, Caches: []string{"go"}}, auto("ann"))
	if err == nil || !strings.Contains(err.Error(), "id-mapped") {
		t.Errorf("caches on such a file system: the error is %v", err)
	}
	t.Setenv(CacheDirEnv, store)
	spec := Spec{Workspace: Workspace{Source: ws}}
	if out, iso := shell(t, spec, auto("ann"), `echo "[$GOCACHE]"; touch made`); out != "[]\n" || iso.UIDHost != owner {
		t.Errorf("auto gives %s, as uid %d", out, iso.UIDHost)
	}
	spec.Caches = []string{"go"}
	_, err = Open(t.Context(), spec, auto("ann"))
	if e := (*backend.StartError)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, "leave `caches` and `home` out") {
		t.Errorf("the error is %v", err)
	}
}

// TestCacheTogether: ten sandboxes use one cache at once, which is not removed meanwhile.
func TestCacheTogether(t *testing.T) {
	storeOf(t)
	spec := Spec{Workspace: Workspace{Source: goWorkspace(t)}}
	var wait sync.WaitGroup
	boxes := make([]*Sandbox, 10)
	for i := range boxes {
		wait.Go(func() {
			s, err := Open(t.Context(), spec, auto("ann"))
			if err != nil {
				t.Error(err)
				return
			}
			boxes[i] = s
			if out, err := s.Command(t.Context(), "sh", "-c", `echo x >> "$GOCACHE.x"`).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	removed, err := RemoveCaches(t.Context(), CacheChoice{}, Options{})
	if e := (*Error)(nil); err != nil || len(removed) != 1 || !errors.As(removed[0].Err, &e) || !strings.Contains(e.Hint, "paddock list") {
		t.Errorf("removed %+v (%v)", removed, err)
	}
	for _, s := range boxes {
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if out, _ := shell(t, spec, auto("ann"), `wc -l < "$GOCACHE.x"`); strings.TrimSpace(out) != "10" {
		t.Errorf("%q of ten have written", out)
	}
	if removed, err := RemoveCaches(t.Context(), CacheChoice{}, Options{}); err != nil || len(removed) != 1 || removed[0].Err != nil {
		t.Errorf("removed %+v (%v)", removed, err)
	}
}

// TestCachePlan: a plan makes nothing, and says what a start would do once there is a cache.
func TestCachePlan(t *testing.T) {
	store := storeOf(t)
	spec := Spec{Workspace: Workspace{Source: goWorkspace(t)}, Home: "keep"}
	plan, _, err := Plan(t.Context(), spec, auto("ann"))
	if err != nil || !slices.Equal(plan.Holds.Caches, []string{"go"}) || plan.Env["GOCACHE"] == "" || plan.Holds.Home != "keep" {
		t.Fatalf("the plan has %+v (%v)", plan.Holds, err)
	}
	if _, err := os.Lstat(store); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plan has made the store (%v)", err)
	}
	out, _ := shell(t, spec, auto("ann"), `echo "$GOCACHE"`)
	if out != plan.Env["GOCACHE"]+"\n" {
		t.Errorf("GOCACHE is %q, planned was %q", out, plan.Env["GOCACHE"])
	}
	_, spec, err = Plan(t.Context(), spec, auto("ann"))
	if err != nil || spec.Home == "" || len(spec.Mounts) != 1 || spec.Mounts[0].Mode != "rw" {
		t.Errorf("then: %+v, home %q (%v)", spec.Mounts, spec.Home, err)
	}
}

// TestCacheOverLink: a link of the user's on the way to the store is followed until commands
// could have made it. It never keeps a sandbox from starting, and the store stays covered.
func TestCacheOverLink(t *testing.T) {
	storeOf(t)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CacheDirEnv, filepath.Join(dir, "link", "caches"))
	shell(t, Spec{Workspace: Workspace{Source: t.TempDir()}}, Options{}, "true") // from now on there is a list
	spec := Spec{Workspace: Workspace{Source: goWorkspace(t)}}
	if out, iso := shell(t, spec, auto("ann"), `touch "$GOCACHE.x"; echo "$GOCACHE"`); !strings.HasPrefix(out, filepath.Join(dir, "real", "caches")) {
		t.Fatalf("over a link of the user's: %s, lost %q", out, iso.Lost)
	}
	out, _ := shell(t, Spec{Workspace: Workspace{Source: dir}}, auto("ann"), `ls -A real/caches; rm link && ln -s /tmp link && mkdir -p /tmp/caches`)
	if out != "" {
		t.Errorf("the store has %s", out)
	}
	out, iso := shell(t, spec, auto("ann"), `echo "[$GOCACHE]"`)
	if out != "[]\n" || !strings.Contains(strings.Join(iso.Lost, "\n"), "is a symbolic link to /tmp, and commands of a sandbox could have made it") {
		t.Errorf("over a link of commands: %s, lost %q", out, iso.Lost)
	}
}

// TestCacheSourceWritten: downloads of the caller's that a sandbox could write, at whatever
// depth, or other users, are not shown to later sandboxes.
func TestCacheSourceWritten(t *testing.T) {
	storeOf(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GOMODCACHE", "")
	t.Setenv("GOPATH", "")
	from := filepath.Join(home, "go", "pkg", "mod", "cache", "download")
	part := filepath.Join(from, "example.com")
	if err := os.MkdirAll(part, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, opts := Spec{Workspace: Workspace{Source: goWorkspace(t)}}, auto("ann")
	opts.Caches.Host = true
	shown := func() bool {
		t.Helper()
		out, _ := shell(t, spec, opts, `echo "[$GOPROXY]"`)
		return strings.Contains(out, from)
	}
	if !shown() {
		t.Fatal("they are not shown at first")
	}
	if err := os.Chmod(from, 0o777); err != nil {
		t.Fatal(err)
	}
	if shown() {
		t.Error("they are shown although every user may write there")
	}
	if err := os.Chmod(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(home, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if shown() {
			t.Error("they are shown although the home is another user's")
		}
		if err := os.Chown(home, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !shown() {
		t.Fatal("they are not shown any more")
	}
	shell(t, Spec{Workspace: Workspace{Source: t.TempDir()}, Mounts: []Mount{{Source: part, Mode: "rw"}}}, Options{}, "true")
	if shown() {
		t.Error("they are shown although a sandbox could write a part of them")
	}
}

// TestCacheUsualCovered: the usual store stays covered if a variable names another one.
func TestCacheUsualCovered(t *testing.T) {
	storeOf(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
	usual, err := cache.Usual()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		old := cache.RootStore
		cache.RootStore = filepath.Join(home, ".cache", "paddock")
		t.Cleanup(func() { cache.RootStore = old })
		usual = cache.RootStore
	}
	if err := errors.Join(os.MkdirAll(usual, 0o700), os.WriteFile(filepath.Join(usual, "secret"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"ro", "rw"} {
		m := Mount{Source: home, Target: "/seen", Mode: mode}
		if out, _ := shell(t, Spec{Workspace: Workspace{Source: t.TempDir()}, Mounts: []Mount{m}}, Options{}, "ls -A /seen/.cache/paddock"); out != "" {
			t.Errorf("%s: commands see %s", mode, out)
		}
	}
}

// TestCacheChangedMeanwhile: commands that rename and replace the mount points in a cache never
// keep another sandbox over the same workspace from starting.
func TestCacheChangedMeanwhile(t *testing.T) {
	storeOf(t)
	home, ws := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CARGO_HOME", "")
	for _, dir := range []string{"index", "cache"} {
		if err := os.MkdirAll(filepath.Join(home, ".cargo", "registry", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(ws, "Cargo.toml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	spec, opts := Spec{Workspace: Workspace{Source: ws}}, auto("ann")
	hostile, err := Open(t.Context(), spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := hostile.Command(t.Context(), "sh", "-c", `cd "$CARGO_HOME" && echo ready && while :; do rm -rf registry; ln -s /tmp registry; rm -f registry; mkdir -p registry/index registry/cache; done 2>/dev/null`)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	opts.Caches.Host = true
	lost := 0
	for range 30 {
		s, err := Open(t.Context(), spec, opts)
		if err != nil {
			t.Fatal(err)
		}
		iso := s.Isolation()
		said := strings.Contains(strings.Join(iso.Lost, "\n"), "caches: ")
		if said {
			lost++
		}
		if said == slices.Contains(iso.Caches, "cargo") {
			t.Errorf("with caches %q, lost is %q", iso.Caches, iso.Lost)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 30 were started without caches", lost)
	if err := hostile.Close(); err != nil {
		t.Error(err)
	}
}

// TestCacheDamaged: caches whose records were damaged are listed, and removed with their workspace.
func TestCacheDamaged(t *testing.T) {
	store := storeOf(t)
	ws, other := goWorkspace(t), goWorkspace(t)
	for _, dir := range []string{ws, other} {
		shell(t, Spec{Workspace: Workspace{Source: dir}}, auto("ann"), `echo > "$GOCACHE.x"`)
	}
	records, err := filepath.Glob(filepath.Join(store, "*", "*", "go.json"))
	if err != nil || len(records) != 2 {
		t.Fatalf("the records are %q (%v)", records, err)
	}
	for _, record := range records {
		if err := os.Truncate(record, 0); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := Caches(t.Context(), CacheChoice{}, Options{}); err != nil || len(all) != 2 || !all[0].Measured || all[0].Workspace != "" {
		t.Errorf("the caches are %+v (%v)", all, err)
	}
	removed, err := RemoveCaches(t.Context(), CacheChoice{Workspace: ws}, Options{})
	if err != nil || len(removed) != 1 || removed[0].Err != nil || removed[0].Workspace != ws {
		t.Errorf("removed %+v (%v)", removed, err)
	}
	if removed, err = RemoveCaches(t.Context(), CacheChoice{}, Options{}); err != nil || len(removed) != 1 || removed[0].Err != nil {
		t.Errorf("then removed %+v (%v)", removed, err)
	}
}

// TestHomeLandlock: the error of a HOME that root cannot lend names it, not the caches.
func TestHomeLandlock(t *testing.T) {
	storeOf(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	_, err := Open(t.Context(), Spec{Workspace: Workspace{Source: t.TempDir()}, Home: policy.HomeKeep, Level: policy.LevelLandlock}, auto("ann"))
	if e := (*policy.FieldError)(nil); !errors.As(err, &e) || e.Field != "home" {
		t.Errorf("the error is %v", err)
	}
}
