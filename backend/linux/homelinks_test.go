//go:build linux

package linux

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
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
