package cgroup

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestParseMounts(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Mount
	}{
		{"unified", "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", []Mount{{"/sys/fs/cgroup", "/", false}}},
		{
			"hybrid", "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
				"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
			[]Mount{{"/sys/fs/cgroup/unified", "/", false}},
		},
		{"elsewhere, with spaces", `41 31 0:38 / /mnt/a\040b\011c\134d\012e rw - cgroup2 none rw`, []Mount{{"/mnt/a b\tc\\d\ne", "/", false}}},
		{"a part", "41 31 0:38 /a/b /x rw master:1 propagate_from:2 - cgroup2 c rw", []Mount{{"/x", "/a/b", false}}},
		{"above the namespace", "41 31 0:38 /../.. /x rw - cgroup2 c rw", []Mount{{"/x", "/../..", false}}},
		{"read-only here", "41 31 0:38 / /x ro,nosuid - cgroup2 c rw", []Mount{{"/x", "/", true}}},
		{"read-only everywhere", "41 31 0:38 / /x rw,nosuid - cgroup2 c ro,nsdelegate", []Mount{{"/x", "/", true}}},
		{"a source that is a dash", "41 31 0:38 / /x rw - cgroup2 - rw", []Mount{{"/x", "/", false}}},
		{"a place that is a dash", "41 31 0:38 / /- rw - cgroup2 - rw", []Mount{{"/-", "/", false}}},
		{"another file system of that source", "41 31 0:38 / /x rw - tmpfs cgroup2 rw", nil},
		{"too short", "41 31 0:38 / /x rw - cgroup2 c", nil},
		{"no dash", "41 31 0:38 / /x rw cgroup2 c rw", nil},
		{"no path", "41 31 0:38 x y rw - cgroup2 c rw", nil},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseMounts(tt.text); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseOwn(t *testing.T) {
	tests := []struct {
		text, want string
		ok         bool
	}{
		{"0::/\n", "/", true},
		{"0::/user.slice/a b:c.scope\n", "/user.slice/a b:c.scope", true},
		{"9:name=systemd:/x\n4:memory:/y\n0::/z\n", "/z", true},
		{"0::/../other\n", "/../other", true},
		{"0::/x (deleted)\n", "/x", true},
		{"10::/z\n", "", false},
		{"0::x\n", "", false},
		{"4:memory:/y\n", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got, ok := parseOwn(tt.text); got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %q, %v, want %q, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}

func TestMountDir(t *testing.T) {
	tests := []struct {
		root, group, want string // "" if the mount does not show it
	}{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/a", "/a/b", "/m/b"},
		{"/a", "/a", "/m"},
		{"/a", "/ab", ""},
		{"/a", "/", ""},
		{"/", "/..", ""},
		{"/", "/../x", ""},
		{"/..", "/../x", "/m/x"},
		{"/..", "/..", "/m"},
		{"/..", "/../..", ""},
		{"/..", "/", ""}, // whose name is not known
		{"/../x", "/../x/y", "/m/y"},
	}
	for _, tt := range tests {
		got, err := Mount{Path: "/m", Root: tt.root}.Dir(tt.group)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s of %s: got %q, %v, want %q", tt.group, tt.root, got, err, tt.want)
		}
	}
}

func TestSortMounts(t *testing.T) {
	mounts := []Mount{{"/part", "/a", false}, {"/ro", "/", true}, {"/above", "/..", true}, {"/lower", "/", false}, {"/upper", "/", false}, {"/other", "/b", false}}
	var got []string
	for _, m := range sortMounts(mounts, "/a/b") {
		got = append(got, m.Path)
	}
	if want := "/upper /lower /part /ro"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	f.Add(string(mounts), string(own))
	f.Add(`41 31 0:38 /\040 /\134x\777\ rw - cgroup2 c rw`, "0::/../x (deleted)")
	f.Add("41 31 0:38 /.. /x rw - cgroup2 c rw", "0::/../../x")
	f.Fuzz(func(t *testing.T, mounts, own string) {
		group, ok := parseOwn(own)
		if ok && !strings.HasPrefix(group, "/") {
			t.Errorf("own group %q", group)
		}
		for _, m := range parseMounts(mounts) {
			if !strings.HasPrefix(m.Path, "/") || !strings.HasPrefix(m.Root, "/") {
				t.Errorf("mount %+v", m)
			}
			// A group is never outside of the mount that shows it.
			if rel, ok := m.below(group); ok && m.Root != group && (rel == ".." || strings.HasPrefix(rel, "../") || strings.Contains(rel, "/../")) {
				t.Errorf("%q is below %q by %q", group, m.Root, rel)
			}
		}
		parseIO(mounts)
		parseStall(mounts)
		keyed(mounts)
		controllerState(mounts, "io")
	})
}
