package namespace

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSpell(t *testing.T) {
	got := Spell([]string{"m", "mount", "-m", "--mount", "é", "-"})
	if want := []string{"-m", "--mount", "-m", "--mount", "-é", "-"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestUnshareFlags(t *testing.T) {
	id := func(n uint32) *uint32 { return &n }
	seconds := func(n int64) *int64 { return &n }
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	tests := []struct {
		flags string // divided by spaces
		want  *Unshare
		wrong string
	}{
		{"", &Unshare{}, ""},
		{"m uts -i --net", &Unshare{Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET}, ""},
		{"-muinpUCT", &Unshare{Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME}, ""},
		{"f r", &Unshare{Fork: true, Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{0, uid, 1}}, GIDs: []Map{{0, gid, 1}}}, ""},
		{"-c", &Unshare{Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{uid, uid, 1}}, GIDs: []Map{{gid, gid, 1}}}, ""},
		{"map-users=0:1000:1 --map-users=1:100000:65535", &Unshare{Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{0, 1000, 1}, {1, 100000, 65535}}}, ""},
		{"mount-proc", &Unshare{Namespaces: unix.CLONE_NEWNS, MountProc: "/proc"}, ""},
		{"--mount-proc=/mnt", &Unshare{Namespaces: unix.CLONE_NEWNS, MountProc: "/mnt"}, ""},
		{"kill-child", &Unshare{Fork: true, KillSignal: 9}, ""},
		{"kill-child=sigterm", &Unshare{Fork: true, KillSignal: 15}, ""},
		{"kill-child=2", &Unshare{Fork: true, KillSignal: 2}, ""},
		{"propagation=slave", &Unshare{Propagation: "slave"}, ""},
		{"-R/srv -w/tmp -S1 -G2", &Unshare{Root: "/srv", Dir: "/tmp", SetUID: id(1), SetGID: id(2)}, ""},
		{"-mR/srv", &Unshare{Namespaces: unix.CLONE_NEWNS, Root: "/srv"}, ""},
		{"U setgroups=deny", &Unshare{Namespaces: unix.CLONE_NEWUSER, Setgroups: "deny"}, ""},

		{"--", nil, "it is not on the list"},
		{"-", nil, "it is not on the list"},
		{"---mount", nil, "it is not on the list"},
		{"-t", nil, "it is not on the list"},
		{"-t1", nil, "it is not on the list"},
		{"t", nil, "it is not on the list"},
		{"target=1", nil, "it is not on the list"},
		{"-mt", nil, "it is not on the list"},
		{"-m-", nil, "it is not on the list"},
		{"--moun", nil, "it is not on the list"},
		{"--Mount", nil, "it is not on the list"},
		{"mount=/run/ns -n --net=/run/net", &Unshare{Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Files: []File{{unix.CLONE_NEWNS, "/run/ns"}, {unix.CLONE_NEWNET, "/run/net"}}}, ""},
		{"map-user=7 map-group=8", &Unshare{Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{7, uid, 1}}, GIDs: []Map{{8, gid, 1}}}, ""},
		{"map-user=root", &Unshare{Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{0, uid, 1}}}, ""},
		{"-r map-auto keep-caps", &Unshare{Namespaces: unix.CLONE_NEWUSER, UIDs: []Map{{0, uid, 1}}, GIDs: []Map{{0, gid, 1}}, MapAuto: true, KeepCaps: true}, ""},
		{"T monotonic=5 boottime=-7", &Unshare{Namespaces: unix.CLONE_NEWTIME, Monotonic: seconds(5), Boottime: seconds(-7)}, ""},

		{"mount=run/ns", nil, "its value must be an absolute path"},
		{"pid=/run/pid", nil, "a pid namespace is kept in a file only with its first process (--fork)"},
		{"--fork=x", nil, "it takes no value"},
		{"map-user=no-such-user", nil, "the host has no user of that name"},
		{"map-group=no-such-group", nil, "the host has no group of that name"},
		{"map-user=-1", nil, noID},
		{"r map-user=1", nil, "there is another map already"},
		{"T monotonic=1.5", nil, "its value must be a whole number of seconds"},
		{"T boottime=soon", nil, "its value must be a whole number of seconds"},
		{"monotonic=5", nil, "it needs a new time namespace (--time)"},
		{"boottime=5", nil, "it needs a new time namespace (--time)"},
		{"--fork=", nil, "it takes no value"},
		{"--=x", nil, "it is not on the list"},
		{"/bin/sh", nil, "it is not on the list"},
		{"0", nil, "it is not on the list"},
		{"root /srv", nil, "its value is missing: write --root=VALUE as one element"},
		{"-R", nil, "its value is missing: write --root=VALUE as one element"},
		{"root=", nil, "its value is empty"},
		{"root=srv", nil, "its value must be an absolute path"},
		{"--root=../..", nil, "its value must be an absolute path"},
		{"root=/a\x00b", nil, "its value must not hold a NUL byte"},
		{"setuid=-1", nil, noID},
		{"setuid=4294967295", nil, noID},
		{"setuid=root", nil, noID},
		{"S=0", nil, "it is not on the list"}, // a word, and there is no --S
		{"map-users=0,0,1", nil, noMap},
		{"map-users=0:0:0", nil, "the COUNT of a map must not be 0"},
		{"map-users=auto", nil, noMap},
		{"r c", nil, "there is another map already"},
		{"r r", nil, "there is another map already"},
		{"kill-child=NONE", nil, "unknown signal"},
		{"kill-child=65", nil, "unknown signal"},
		{"propagation=both", nil, "its value must be one of private, shared, slave, unchanged"},
		{"setgroups=maybe", nil, "its value must be one of allow, deny"},
		{"setgroups=deny", nil, "it needs a new user namespace (--user)"},
	}
	for _, tt := range tests {
		got, err := ParseUnshare(strings.Fields(tt.flags))
		if tt.wrong == "" {
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q is %+v, %v", tt.flags, got, err)
			}
			continue
		}
		var e *FlagError
		if !errors.As(err, &e) || e.Reason != tt.wrong || strings.HasPrefix(e.Hint, "the flags are: -m --mount[=VALUE], ") != (tt.wrong == notListed) || e.Flag == "" {
			t.Errorf("%q: %v", tt.flags, err)
		}
	}
}

func TestEnterFlags(t *testing.T) {
	id := func(n uint32) *uint32 { return &n }
	all := uint64(0)
	for _, k := range kinds {
		all |= k.flag
	}
	for _, tt := range []struct {
		flags string
		want  *Enter
		wrong string
	}{
		{"", &Enter{PID: 7}, ""},
		{"a", &Enter{PID: 7, Namespaces: all}, ""},
		{"--all", &Enter{PID: 7, Namespaces: all}, ""},
		{"-mn root wd", &Enter{PID: 7, Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Root: true, Dir: true}, ""},
		{"net=/proc/7/ns/net", &Enter{PID: 7, Namespaces: unix.CLONE_NEWNET}, ""},
		{"S F G", nil, "its value is missing: write --setuid=VALUE as one element"},
		{"-S1 -G2 F preserve-credentials", &Enter{PID: 7, SetUID: id(1), SetGID: id(2), NoFork: true, PreserveCredentials: true}, ""},
		{"m net=/run/net", &Enter{PID: 7, Namespaces: unix.CLONE_NEWNS, Files: []File{{unix.CLONE_NEWNET, "/run/net"}}}, ""},
		{"root=/srv wd=/tmp", &Enter{PID: 7, Root: true, Dir: true, RootPath: "/srv", DirPath: "/tmp"}, ""},
		{"-ecZ -W/tmp", &Enter{PID: 7, InsideDir: "/tmp", Env: true, JoinCgroup: true, FollowContext: true}, ""},
		{"U user-parent", &Enter{PID: 7, Namespaces: unix.CLONE_NEWUSER, UserParent: true}, ""},
		{"net=run/net", nil, "its value must be an absolute path"},
		{"wd=tmp", nil, "its value must be an absolute path"},
		{"wdns=tmp", nil, "its value must be an absolute path"},
		{"wd wdns=/tmp", nil, "there is another working directory already (--wd)"},
		{"user-parent", nil, "it needs a namespace whose parent it enters, such as --user or --net"},
		{"env=x", nil, "it takes no value"},
		{"--", nil, "it is not on the list"},
		{"-t", nil, "it is not on the list"},
		{"-t1", nil, "it is not on the list"},
		{"-at1", nil, "it is not on the list"},
		{"--target=1", nil, "it is not on the list"},
		{"target", nil, "it is not on the list"},
		{"-r/", nil, "it is not on the list"},
		{"fork", nil, "it is not on the list"},
	} {
		got, err := ParseEnter(7, strings.Fields(tt.flags))
		if tt.wrong == "" {
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q is %+v, %v", tt.flags, got, err)
			}
			continue
		}
		var e *FlagError
		if !errors.As(err, &e) || e.Reason != tt.wrong || strings.HasPrefix(e.Hint, "the flags are: -a --all, ") != (tt.wrong == notListed) {
			t.Errorf("%q: %v", tt.flags, err)
		}
	}
}
