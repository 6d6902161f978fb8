//go:build linux

package linux

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

func TestHomeLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		home    string
		targets string
		want    string
	}{
		"below the home":           {"/home/u", "/home/u/.cargo /home/u/go/pkg/mod", ".cargo→/home/u/.cargo go/pkg/mod→/home/u/go/pkg/mod"},
		"elsewhere":                {"/home/u", "/srv/x /home/u2/x /home", ""},
		"the home itself":          {"/home/u", "/home/u", ""},
		"no home":                  {"", "/home/u/x", ""},
		"the root as a home":       {"/", "/srv/x", ""},
		"one in another":           {"/home/u", "/home/u/.cache /home/u/.cache/b", ".cache→/home/u/.cache"},
		"mounted there already":    {"/home/u", "/home/u/x /home/agent/x", ""},
		"a mount below the link":   {"/home/u", "/home/u/x /home/agent/x/y", ""},
		"a mount above the link":   {"/home/u", "/home/u/x/y /home/agent/x", ""},
		"the same home inside":     {"/home/agent", "/home/agent/x", ""},
		"names that begin alike":   {"/home/u", "/home/u/x /home/u/xy", "x→/home/u/x xy→/home/u/xy"},
		"without links":            {"/home/u", "/real/home/x /home/u/y", "x→/real/home/x y→/home/u/y"},
		"a home below a workspace": {"/workspace/h", "/workspace/h/x", "x→/workspace/h/x"},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := []hostpath.Mount{{Target: workspaceDir}}
			for target := range strings.FieldsSeq(tt.targets) {
				mounts = append(mounts, hostpath.Mount{Target: target})
			}
			var got []string
			for _, l := range homeLinks(tt.home, "/real/home", mounts) {
				got = append(got, fmt.Sprintf("%s→%s", l.rel, l.text))
			}
			if !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestWorkspaceLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		named, real string
		targets     string // of other mounts
		commands    bool
		want        string
	}{
		"below a home":                {named: "/home/u/app", real: "/home/u/app", want: "/home/u/app"},
		"in an empty directory":       {named: "/srv/app", real: "/srv/app", want: "/srv/app"},
		"by a link":                   {named: "/home/u/app", real: "/data/app", want: "/data/app /home/u/app"},
		"a link into itself":          {named: "/data/app/self/x", real: "/data/app", want: "/data/app"},
		"below a system directory":    {named: "/usr/src/app", real: "/usr/src/app"},
		"below /tmp":                  {named: "/tmp/app", real: "/tmp/app"},
		"below /var/tmp, a link":      {named: "/var/tmp/app", real: "/var/tmp/app"},
		"above a system directory":    {named: "/usr", real: "/"},
		"the same path":               {named: "/workspace", real: "/workspace"},
		"the home inside":             {named: "/home/agent", real: "/home/agent"},
		"below the home inside":       {named: "/home/agent/app", real: "/home/agent/app"},
		"above the home inside":       {named: "/home", real: "/home"},
		"a mount above":               {named: "/home/u/app", real: "/home/u/app", targets: "/home/u"},
		"a mount below":               {named: "/home/u/app", real: "/home/u/app", targets: "/home/u/app/data"},
		"a mount at the same place":   {named: "/home/u/app", real: "/home/u/app", targets: "/home/u/app"},
		"a mount beside":              {named: "/home/u/app", real: "/home/u/app", targets: "/home/u/app2", want: "/home/u/app"},
		"rules for commands":          {named: "/home/u/app", real: "/home/u/app", commands: true},
		"a directory of the kernel's": {named: "/proc/x", real: "/proc/x"},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := []hostpath.Mount{{Source: tt.real, Target: workspaceDir}}
			for target := range strings.FieldsSeq(tt.targets) {
				mounts = append(mounts, hostpath.Mount{Source: "/x", Target: target})
			}
			b := &builder{plan: &confine.Plan{}, mounts: mounts, spec: policy.Spec{RootFS: policy.RootHost, Workspace: policy.Workspace{Source: tt.named}}}
			if tt.commands {
				b.spec.Commands = &policy.Commands{}
			}
			b.process()
			if err := b.root(); err != nil {
				t.Fatal(err)
			}
			b.private()
			b.userPaths(identity{})
			b.workspaceLinks()
			if want := strings.Fields(tt.want); !slices.Equal(b.links, want) {
				t.Errorf("%q, want %q", b.links, want)
			}
		})
	}
}
