//go:build linux

package linux

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

func confinedPlan() *confine.Plan {
	return &confine.Plan{
		Namespaces: []confine.Namespace{confine.NSMount},
		UIDs:       []confine.IDMap{{Inside: 1000, Host: 7, Count: 1}},
		GIDs:       []confine.IDMap{{Inside: 1000, Host: 8, Count: 1}},
		Holds:      policy.Isolation{Identity: idmap, UIDHost: 7},
		Setup: []confine.Step{
			{Do: confine.OpTmpfs, Target: "/", Flags: scrape},
			{Do: confine.OpBind, Target: "/usr", Flags: roDir},
			{Do: confine.OpProc, Target: "/proc", Flags: scrape},
			{Do: confine.OpMkdir, Target: "/mnt"},
			{Do: confine.OpCaps, Caps: keptCaps},
		},
	}
}

const goodStatus = `Name:	a: b
Uid:	7	7	7	7
Gid:	8	8	8	8
Groups:	
CapInh:	0000000000000000
CapPrm:	0000000000280000
CapEff:	0000000000280000
CapBnd:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	2
`

func TestCheckThread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status")
	testkit.Write(t, file, goodStatus, 0o644)
	good, err := state.ReadStatus(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkThread(good, confinedPlan()); err != nil {
		t.Fatalf("a good thread: %v", err)
	}
	for _, tt := range []struct{ key, value, says string }{
		{"Uid", "7\t7\t0\t7", "uid 0"},
		{"Uid", "0\t0\t0\t0", "uid 0"},
		{"NoNewPrivs", "0", "no_new_privs"},
		{"NoNewPrivs", "", "no_new_privs"},
		{"Seccomp", "0", "seccomp"},
		{"Seccomp", "1", "seccomp"},
		{"CapInh", "0000000000000001", "inherited"},
		{"CapAmb", "0000000000200000", "inherited"},
		{"CapAmb", "", "inherited"},
		{"Groups", "27 100", "27 100"},
		{"CapPrm", "00000000002c0000", "capabilities"},
		{"CapPrm", "000001ffffffffff", "capabilities"},
		{"CapPrm", "what", "capabilities"},
	} {
		bad := maps.Clone(good)
		bad[tt.key] = tt.value
		if err := checkThread(bad, confinedPlan()); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %q: %v", tt.key, tt.value, err)
		}
	}
	// Groups of an ordinary user cannot be dropped, and are told elsewhere.
	p := confinedPlan()
	p.Holds.Identity = mapped
	good["Groups"] = "27"
	if err := checkThread(good, p); err != nil {
		t.Error(err)
	}
}

// The test's own process is no agent, whatever is looked at.
func TestVerifyRefuses(t *testing.T) {
	p := confinedPlan()
	for name, check := range map[string]func(int, *confine.Plan) error{
		"namespaces": verifyNamespaces, "ids": verifyMaps, "threads": verifyThreads, "mounts": func(pid int, p *confine.Plan) error { _, err := verifyMounts(pid, p); return err },
	} {
		if err := check(os.Getpid(), p); err == nil {
			t.Errorf("%s: the host's own process passes", name)
		}
		if err := check(1<<30, p); err == nil {
			t.Errorf("%s: a process that is none passes", name)
		}
	}
	if err := verifyClone(os.Getpid(), p); err == nil || startError(t, err).Stage != "verify" {
		t.Errorf("%v", err)
	}
}

func TestPlanned(t *testing.T) {
	want := mountPoints(confinedPlan())
	if len(want) != 3 {
		t.Errorf("mount points %v", want)
	}
	for at, ok := range map[string]bool{
		"/": true, "/usr": true, "/usr/lib/x": true, "/proc": true, // what is below a bound path was bound with it
		"/mnt": false, "/proc/sys": false, "/usrx": false, "/workspace": false,
	} {
		if _, got := planned(want, at); got != ok {
			t.Errorf("%s: %v", at, got)
		}
	}
}

// A mount that is missing, weaker or not in the plan is told.
func TestCheckMounts(t *testing.T) {
	p := confinedPlan()
	p.Setup = append(p.Setup, confine.Step{Do: confine.OpPivot}, confine.Step{Do: confine.OpReadOnly, Target: "/"})
	const root, usr, fresh = "9 8 0:1 / / ro,nosuid,nodev - tmpfs x rw\n", "10 9 8:1 /usr /usr ro,nosuid,nodev,relatime - ext4 x rw\n",
		"11 9 0:2 / /proc rw,nosuid,nodev - proc x rw\n"
	for _, tt := range []struct{ mountinfo, says string }{
		{root + usr + fresh, ""},
		{root + usr + "12 10 8:2 / /usr/local ro,nosuid,nodev - ext4 x rw\n" + fresh, ""},
		{strings.Replace(root, "ro,", "rw,", 1) + usr + fresh, "/ is not ro"},
		{root + strings.Replace(usr, "ro,", "rw,", 1) + fresh, "/usr is not ro"},
		{root + usr + strings.Replace(fresh, "nosuid,", "", 1), "/proc is not nosuid"},
		{root + usr, "/proc is not mounted"},
		{root + usr + fresh + "12 9 0:3 / /sys ro,nosuid,nodev - sysfs x rw\n", "/sys is mounted"},
		{root + usr + fresh + "12 10 8:2 / /usr/local rw,nosuid,nodev - ext4 x rw\n", "/usr/local is not ro"},
		{root + usr + fresh + "half a line\n", "unreadable"},
	} {
		_, err := checkMounts(tt.mountinfo, mountPoints(p))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %q:\n%s", err, tt.says, tt.mountinfo)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"/plain": "/plain", `/a\040b`: "/a b", `/t\011`: "/t\t", `/n\012x`: "/n\nx", `/b\134`: `/b\`, `/b\134040`: `/b\040`,
		`/short\04`: `/short\04`, `/no\999`: `/no\999`, `\`: `\`, `/\303\274`: "/ü",
	} {
		if got := hostpath.Unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestZero(t *testing.T) {
	for in, want := range map[string]bool{"": false, "0": true, "0000000000000000": true, "0000000000200000": false} {
		if zero(in) != want {
			t.Errorf("zero(%q) = %v", in, !want)
		}
	}
}

func TestReadStatusOfNothing(t *testing.T) {
	if _, err := state.ReadStatus("/proc/none/status"); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
