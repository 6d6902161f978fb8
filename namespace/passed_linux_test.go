package namespace

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/cgroup"
)

func rootOnly(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may enter every namespace")
	}
}

// inode is the namespace of a file.
func inode(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return strconv.FormatUint(st.Ino, 10)
}

func TestClocks(t *testing.T) {
	u := userns(t)
	uptime := func(text string) int {
		whole, _, _ := strings.Cut(text, ".")
		n, err := strconv.Atoi(strings.TrimSpace(whole))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range [][]string{nil, {"fork"}} {
		// In subshells, which are forked: older kernels refuse vfork to whom only the children are in the namespace.
		r := run(t.Context(), unshare(t, slices.Concat(fork, []string{u, "time", "monotonic=1000000", "boottime=2000000"})...), "sh", "-c", "(cat /proc/uptime); cat /proc/self/timens_offsets | tr -s ' '")
		if r.err != nil || r.stdout == "" {
			t.Fatalf("%v: %+v %v %q %q", fork, r.Result, r.err, r.stdout, r.stderr)
		}
		now, offsets, _ := strings.Cut(r.stdout, "\n")
		if uptime(now) < uptime(string(text))+2000000 || offsets != "monotonic 1000000 0\nboottime 2000000 0\n" {
			t.Errorf("%v: %+v %v %q", fork, r.Result, r.err, r.stdout)
		}
	}
	r := run(t.Context(), unshare(t, u, "time", "monotonic=-9000000000"), "true")
	if !errors.Is(r.err, unix.ERANGE) || !strings.HasPrefix(r.err.Error(), "cannot set the offset of the monotonic clock: ") || hintIn(r.err) == "" {
		t.Errorf("%v", r.err)
	}
}

func TestMaps(t *testing.T) {
	userns(t)
	const caps = "id -u; id -g; grep -E '^Cap(Eff|Amb)' /proc/self/status"
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"map-user=1234", "map-group=4321"}, "1234\n4321\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n"},
		{[]string{"map-user=root", "map-group=4321"}, "0\n4321\nCapEff:\tALL\nCapAmb:\t0000000000000000\n"},
		{[]string{"map-user=1234", "map-group=4321", "keep-caps"}, "1234\n4321\nCapEff:\tALL\nCapAmb:\tALL\n"},
	} {
		all, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
		if err != nil {
			t.Fatal(err)
		}
		last, err := strconv.Atoi(strings.TrimSpace(string(all)))
		if err != nil {
			t.Fatal(err)
		}
		mask := strconv.FormatUint(1<<(last+1)-1, 16)
		want := strings.ReplaceAll(tt.want, "ALL", strings.Repeat("0", 16-len(mask))+mask)
		if r := run(t.Context(), unshare(t, tt.flags...), "sh", "-c", caps); r.err != nil || r.stdout != want {
			t.Errorf("%v: %v %q, want %q", tt.flags, r.err, r.stdout, want)
		}
	}
}

// Capabilities are kept through a change of the user, too.
func TestKeepCaps(t *testing.T) {
	rootOnly(t)
	userns(t)
	r := run(t.Context(), unshare(t, "map-users=0:0:1", "map-users=1:100000:1", "map-groups=0:0:1", "setuid=1", "keep-caps"), "sh", "-c", "id -u; grep ^CapEff /proc/self/status")
	if user, caps, _ := strings.Cut(r.stdout, "\n"); r.err != nil || user != "1" || strings.Contains(caps, "00000000000") && strings.HasSuffix(caps, "0000\n") {
		t.Errorf("%v %q", r.err, r.stdout)
	}
}

func TestSubordinate(t *testing.T) {
	for _, tt := range []struct {
		text         string
		start, count uint32
	}{
		{"", 0, 0},
		{"other:1:2\n", 0, 0},
		{"other:1:2\nme:100000:65536\nme:9:9\n", 100000, 65536},
		{"1000:7:8", 7, 8},
		{"me:x:1\nme:1:0\nme:1:2:3\nme\n", 0, 0},
	} {
		if start, count, ok := subordinate(tt.text, "me", "1000"); start != tt.start || count != tt.count || ok != (tt.count > 0) {
			t.Errorf("%q: %d, %d", tt.text, start, count)
		}
	}
	for _, tt := range []struct{ maps, want []Map }{
		{nil, []Map{{0, 100, 10}}},
		{[]Map{{0, 7, 1}}, []Map{{0, 7, 1}, {1, 100, 10}}},
		{[]Map{{4, 7, 1}}, []Map{{0, 100, 4}, {4, 7, 1}, {5, 104, 6}}},
		{[]Map{{50, 7, 1}, {0, 8, 2}}, []Map{{0, 8, 2}, {2, 100, 10}, {50, 7, 1}}},
	} {
		if got := fill(tt.maps, 100, 10); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v", tt.maps, got)
		}
	}
}

// TestMapAuto has files of its own for the host's, in a mount namespace.
func TestMapAuto(t *testing.T) {
	rootOnly(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, subuid string
		want         string
	}{
		{"mapped", "other:5:6\nroot:100000:65536\n", " 0 0 1\n 1 100000 65536\n 0 0 1\n 1 100000 65536\nstatus 0 proved true\n"},
		{"no range", "other:5:6\n", "cannot map the subordinate users of root: /etc/subuid has none\ngive them some: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 root\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			etc := t.TempDir()
			for name, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\n", "group": "root:x:0:\n", "subuid": tt.subuid, "subgid": tt.subuid} {
				if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := json.Marshal(attempt{Flags: []string{"-r", "map-auto"}, Argv: []string{"sh", "-c", "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '"}})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			r, err := Run(t.Context(), unshare(t, "mount"), &Command{Argv: []string{"sh", "-c", `mount --bind "$1" /etc && exec "$2"`, "sh", etc, program},
				Env: append(slices.Clone(environment), asNobody+"="+string(text)), Stdout: &out})
			if err != nil || r.Code != 0 || out.String() != tt.want {
				t.Errorf("%+v, %v, %q", r, err, out.String())
			}
		})
	}
}

// A namespace that is kept in a file stays when nothing runs in it, and can be entered.
func TestNamespaceFiles(t *testing.T) {
	rootOnly(t)
	dir := t.TempDir()
	if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_PRIVATE, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, k := range kinds {
		t.Run(k.long, func(t *testing.T) {
			file := filepath.Join(dir, k.long)
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			flags := []string{k.long + "=" + file, "fork"}
			if k.long == "user" {
				flags = append(flags, "map-root-user")
			}
			r := run(t.Context(), unshare(t, flags...), "readlink", "/proc/self/ns/"+k.file)
			if r.err != nil || !strings.Contains(r.stdout, "["+inode(t, file)+"]") {
				t.Fatalf("%v %q", r.err, r.stdout)
			}
			if k.long == "pid" { // its first process has ended, so nothing can be in it any more
				return
			}
			e := run(t.Context(), enter(t, os.Getpid(), k.long+"="+file), "readlink", "/proc/self/ns/"+k.file)
			if e.err != nil || e.stdout != r.stdout {
				t.Errorf("%v %q, not %q", e.err, e.stdout, r.stdout)
			}
		})
	}
	for _, tt := range []struct {
		setup Setup
		text  string
		hint  string
	}{
		{unshare(t, "net="+dir+"/none"), "cannot keep the new net namespace at " + dir + "/none: no such file or directory", "make an empty file there first"},
		{unshare(t, "pid="+dir+"/none", "fork"), "cannot keep the new pid namespace at " + dir + "/none: no such file or directory", "make an empty file there first"},
		{unshare(t, "net="+dir), "cannot keep the new net namespace at " + dir + ": not a directory", "make an empty file there first"},
		{enter(t, os.Getpid(), "net="+dir+"/none"), "cannot open the net namespace at " + dir + "/none: no such file or directory", ""},
		{enter(t, os.Getpid(), "net="+dir+"/uts"), "cannot open the net namespace at " + dir + "/uts: not a namespace file of this kind", "it must be a file like /proc/PID/ns/net, or one on which that is mounted"},
		{enter(t, os.Getpid(), "net=/etc/passwd"), "cannot open the net namespace at /etc/passwd: not a namespace file of this kind", "it must be a file like /proc/PID/ns/net, or one on which that is mounted"},
	} {
		if r := run(t.Context(), tt.setup, "true"); r.err == nil || r.err.Error() != tt.text || hintIn(r.err) != tt.hint {
			t.Errorf("%v %q, want %s", r.err, hintIn(r.err), tt.text)
		}
	}
}

func TestEnterDirectories(t *testing.T) {
	pid := other(t, "-mf", "root=/usr")
	dir := t.TempDir()
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"wd=" + dir}, dir},
		{[]string{"mount", "wdns=/var"}, "/var"},
		{[]string{"root=/usr", "wdns=/bin"}, "/bin"},
		{[]string{"root", "wdns=/bin"}, "/bin"},
	} {
		argv := []string{"sh", "-c", "pwd -P"}
		if strings.HasPrefix(tt.flags[0], "root") {
			argv = []string{"/bin/true"} // /usr/bin/true has its libraries elsewhere
		}
		r := run(t.Context(), enter(t, pid, tt.flags...), argv...)
		if argv[0] == "/bin/true" {
			if r.err != nil && !errors.Is(r.err, ErrNotFound) { // of its dynamic linker
				t.Errorf("%v: %v", tt.flags, r.err)
			}
			continue
		}
		if r.err != nil || r.stdout != tt.want+"\n" {
			t.Errorf("%v: %v %q", tt.flags, r.err, r.stdout)
		}
	}
	for flag, want := range map[string]string{
		"wd=/no/such":   "cannot open the directory /no/such: no such file or directory",
		"root=/no/such": "cannot open the directory /no/such: no such file or directory",
		"wdns=/no/such": "cannot change the working directory to /no/such: no such file or directory",
	} {
		if r := run(t.Context(), enter(t, pid, "mount", flag), "true"); r.err == nil || r.err.Error() != want {
			t.Errorf("%s: %v", flag, r.err)
		}
	}
}

func TestEnterEnvironment(t *testing.T) {
	rootOnly(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "only-there"), []byte("#!/bin/sh\necho found $SAID\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t, "PATH="+dir+":/bin:/usr/bin", "SAID=a b\nc=\xff")
	if r := run(t.Context(), enter(t, pid, "env", "follow-context"), "only-there"); r.err != nil || r.stdout != "found a b c=\xff\n" {
		t.Errorf("%v %q", r.err, r.stdout)
	}
	if r := run(t.Context(), enter(t, pid), "only-there"); !errors.Is(r.err, ErrNotFound) {
		t.Errorf("%v", r.err)
	}
}

func TestEnterGroup(t *testing.T) {
	rootOnly(t)
	m, err := cgroup.Find()
	if err != nil {
		t.Skip("no control groups here: none can be made")
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := m.Dir(own)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "paddock-"+unique())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no control groups here: none can be made")
	}
	t.Cleanup(func() { // after the end of the sleeper
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	pid := sleeper(t)
	if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
	group, err := cgroup.Of(pid)
	if err != nil {
		t.Fatal(err)
	}
	for flag, in := range map[string]bool{"join-cgroup": true, "net": false} {
		r := run(t.Context(), enter(t, pid, flag), "sh", "-c", "sleep 99999 & grep ^0:: /proc/self/cgroup")
		if r.err != nil || (r.stdout == "0::"+group+"\n") != in || !r.DeathProved || r.SurvivorsKilled != 1 {
			t.Errorf("%s: %v %+v %q", flag, r.err, r.Result, r.stdout)
		}
	}
}

func TestEnterParent(t *testing.T) {
	pid := other(t, "-Urnf")
	user := func(pid string) string { return inode(t, "/proc/"+pid+"/ns/user") }
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"net"}, user("self")},
		{[]string{"net", "user-parent"}, user(strconv.Itoa(pid))},
		{[]string{"user"}, user(strconv.Itoa(pid))},
		{[]string{"user", "user-parent"}, user("self")},
	} {
		r := run(t.Context(), enter(t, pid, tt.flags...), "readlink", "/proc/self/ns/user")
		if r.err != nil || r.stdout != "user:["+tt.want+"]\n" {
			t.Errorf("%v: %v %q, want %s", tt.flags, r.err, r.stdout, tt.want)
		}
	}
}
