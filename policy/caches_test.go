package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestCachesAndHome(t *testing.T) {
	tests := []struct {
		spec   Spec
		caches []string
		home   string
		want   string // the error
	}{
		{Spec{}, nil, "", ""},
		{Spec{Caches: []string{"npm", "go", "npm"}, Home: "keep"}, []string{"go", "npm"}, "keep", ""},
		{Spec{Caches: []string{"auto"}, Home: "h"}, []string{"auto"}, "/srv/project/h", ""},
		{Spec{Caches: []string{"none"}, Home: "~/h"}, []string{"none"}, "/home/u/h", ""},
		{Spec{Caches: []string{"zig"}}, nil, "", `cannot use caches[0] "zig": unknown tool`},
		{Spec{Caches: []string{"go", "auto"}}, nil, "", `cannot use caches[1] "auto": it stands alone`},
		{Spec{Caches: []string{"none", "go"}}, nil, "", `cannot use caches[0] "none": it stands alone`},
		{Spec{Caches: []string{""}}, nil, "", `cannot use caches[0]: unknown tool`},
		{Spec{Caches: []string{"go"}, RootFS: "/img"}, nil, "", `cannot use caches "go": the tools of another root file system are not the host's`},
		{Spec{Caches: []string{"go"}, Commands: &Commands{}}, nil, "", `cannot use caches "go": with commands nothing that commands have left is used again`},
		{Spec{Caches: []string{"none"}, Commands: &Commands{}}, []string{"none"}, "", ""},
		{Spec{Home: "/"}, nil, "", `cannot use home "/": the whole host cannot be mounted read-write`},
		{Spec{Home: "/proc/self"}, nil, "", `cannot use home "/proc/self": /proc belongs to the kernel`},
		{Spec{Home: "a\nb"}, nil, "", `it contains a line break`},
		{Spec{Backend: "docker", Caches: []string{"go"}}, nil, "", `cannot use caches: backend docker keeps no caches`},
		{Spec{Backend: "docker", Home: "keep"}, nil, "", `cannot use home "keep": backend docker cannot keep HOME`},
		{Spec{Backend: "docker", Caches: []string{"none"}}, []string{"none"}, "", ""},
	}
	for _, tt := range tests {
		got, err := tt.spec.Resolve(testBase)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: the error is %v, not %q", tt.spec, err, tt.want)
		case !slices.Equal(got.Caches, tt.caches) || got.Home != tt.home:
			t.Errorf("%+v: caches %q and home %q", tt.spec, got.Caches, got.Home)
		}
	}
}

// TestCeilingOfHome: a home is a mount that commands can change; caches are Paddock's own.
func TestCeilingOfHome(t *testing.T) {
	c := &Ceiling{Workspace: []Place{{"/srv/a", "rw"}}, Mounts: []Place{{"/homes", "rw"}, {"/data", "ro"}}}
	tests := []struct{ home, want string }{
		{"", ""},
		{"keep", ""},
		{"/homes/x", ""},
		{"/data/x", "cannot use home \"/data/x\": the ceiling allows to read it, not to change it"},
		{"/home/op", "cannot use home \"/home/op\": the ceiling does not allow it"},
		{"x", "it is not an absolute path"},
	}
	for _, tt := range tests {
		_, err := c.Apply(Spec{Workspace: Workspace{Source: "/srv/a"}, Home: tt.home, Caches: []string{"go"}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: the error is %v, not %q", tt.home, err, tt.want)
		}
	}
	of, err := Spec{Workspace: Workspace{Source: "/srv/a"}, Home: "/homes/x"}.Ceiling()
	if err != nil || !of.Holds(Mount{Source: "/homes/x", Mode: "rw"}) {
		t.Errorf("the ceiling of a spec with a home is %+v (%v)", of, err)
	}
}
