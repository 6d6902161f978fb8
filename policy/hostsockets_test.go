package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestHostSockets(t *testing.T) {
	var many []string
	for i := range maxHostSockets + 1 {
		many = append(many, fmt.Sprintf("/run/%d", i))
	}
	for _, tt := range []struct {
		spec Spec
		says string // the error; "" where it is valid
		want []string
	}{
		{Spec{HostSockets: []string{"/run/db.sock", "rel/x", "~/y"}}, "", []string{"/run/db.sock", "/w/rel/x", "/home/u/y"}},
		{Spec{HostSockets: []string{"/run/a", "/run//a"}}, "it is there twice", nil},
		{Spec{HostSockets: many}, "more than 16", nil},
		{Spec{HostSockets: []string{"/usr/x.sock"}}, "/usr is read-only inside", nil},
		{Spec{HostSockets: []string{"/proc/x"}}, "/proc of its own", nil},
		{Spec{HostSockets: []string{"/run/a"}, Mounts: []Mount{{Source: "/b", Target: "/run/a"}}}, "a mount has this path", nil},
		{Spec{HostSockets: []string{"/run/a"}, Level: LevelLandlock}, "the landlock level has no Unix sockets", nil},
	} {
		got, err := tt.spec.Resolve(Base{Dir: "/w", Home: "/home/u"})
		if tt.says == "" && (err != nil || !slices.Equal(got.HostSockets, tt.want)) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%q: %q, %v", tt.spec.HostSockets, got.HostSockets, err)
		}
	}
}

func TestCeilingOfHostSockets(t *testing.T) {
	ceiling := &Ceiling{Workspace: []Place{{Source: "/w", Mode: "rw"}}, HostSockets: []string{"/run/a"}}
	for at, says := range map[string]string{"/run/a": "", "/run/b": "the ceiling does not allow it", "a": "it is not an absolute path"} {
		_, err := ceiling.Apply(Spec{Workspace: Workspace{Source: "/w"}, HostSockets: []string{at}})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", at, err)
		}
	}
	ceiling.HostSockets = []string{"a"}
	if err := ceiling.Validate(); err == nil || !strings.Contains(err.Error(), "it is not an absolute path") {
		t.Errorf("a relative path in a ceiling: %v", err)
	}
	own, err := Spec{Workspace: Workspace{Source: "/w"}, HostSockets: []string{"/run/a"}}.Ceiling()
	if err != nil || !slices.Equal(own.HostSockets, []string{"/run/a"}) {
		t.Errorf("the ceiling of a spec: %v, %v", own, err)
	}
}
