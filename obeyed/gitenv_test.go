package obeyed

import (
	"slices"
	"strings"
	"testing"
)

// What the caller's git obeys because of the caller's environment counts as
// what files say.
func TestProtectEnvironment(t *testing.T) {
	files := append(repo("ws/.git"), "ws/h/", "ws/x", "ws/new/", "inc=[core]\nhooksPath = h\n")
	files = append(files, repo("store", "hooksPath = h\n")...)
	git := []string{"ws/.git/config", "ws/.git/hooks"}
	for name, tt := range map[string]struct {
		env            map[string]string
		guards, unread []string
	}{
		"nothing": {nil, git, nil},
		"GIT_CONFIG_COUNT": {map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "x", "GIT_CONFIG_KEY_1": "CORE.HooksPath", "GIT_CONFIG_VALUE_1": "h"},
			append(git, "ws/h"), nil},
		"an include":      {map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "includeIf.gitdir:/X/.path", "GIT_CONFIG_VALUE_0": "$ROOT/inc"}, append(git, "ws/h"), nil},
		"one that is cut": {map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "h"}, git, []string{"the variable GIT_CONFIG_COUNT"}},
		"too many":        {map[string]string{"GIT_CONFIG_COUNT": "1000000"}, git, []string{"the variable GIT_CONFIG_COUNT"}},
		"parameters":      {map[string]string{"GIT_CONFIG_PARAMETERS": `'user.name'='it'\''s' 'a.b'=  'core.hookspath'='h'`}, append(git, "ws/h"), nil},
		"older ones":      {map[string]string{"GIT_CONFIG_PARAMETERS": ` 'core.bare' 'core.fsmonitor=sh x'`}, append(git, "ws/x"), nil},
		"damaged ones":    {map[string]string{"GIT_CONFIG_PARAMETERS": `'core.hookspath'='h`}, git, []string{"the variable GIT_CONFIG_PARAMETERS"}},
		"half quoted":     {map[string]string{"GIT_CONFIG_PARAMETERS": `core.hookspath=h`}, git, []string{"the variable GIT_CONFIG_PARAMETERS"}},
		"a global file":   {map[string]string{"GIT_CONFIG_GLOBAL": "$ROOT/inc"}, append(git, "ws/h"), nil},
		"a relative one":  {map[string]string{"GIT_CONFIG_GLOBAL": "inc"}, git, []string{"inc"}},
		"a system's file": {map[string]string{"GIT_CONFIG_SYSTEM": "$ROOT/inc", "GIT_CONFIG_NOSYSTEM": "0"}, append(git, "ws/h"), nil},
		"another home":    {map[string]string{"XDG_CONFIG_HOME": "$ROOT/xdg"}, append(git, "ws/x"), nil},
		"GIT_DIR":         {map[string]string{"GIT_DIR": "$ROOT/store"}, append(git, "ws/h"), nil},
		"a work tree":     {map[string]string{"GIT_DIR": "$ROOT/store", "GIT_WORK_TREE": "$ROOT/ws/new"}, append(git, "ws/h"), nil},
		"no directory":    {map[string]string{"GIT_DIR": "$ROOT/none"}, git, nil},
		"a file":          {map[string]string{"GIT_COMMON_DIR": "$ROOT/inc"}, git, []string{"inc"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, append(files, "xdg/git/config=[core]\nfsmonitor = $ROOT/ws/x\n")...)
			for name, value := range tt.env {
				t.Setenv(name, strings.ReplaceAll(value, "$ROOT", root))
			}
			p, err := protectIn(t, root, nil, "ws")
			guards, _, unread := relative(root, p)
			if want := slices.Sorted(slices.Values(tt.guards)); err != nil || !slices.Equal(guards, want) || !slices.Equal(unread, tt.unread) {
				t.Errorf("guards %q, want %q; unread %q, want %q; %v", guards, want, unread, tt.unread, err)
			}
		})
	}
}
