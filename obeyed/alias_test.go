package obeyed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A directory that tools fill counts as one where people work under the name of a link to it.
func TestCompareAliases(t *testing.T) {
	for name, c := range map[string]struct {
		old   map[string]string // links before
		links map[string]string // links that are made
		file  string
		want  string
	}{
		"a link":                      {nil, map[string]string{"web": "node_modules/web"}, "node_modules/web/.vscode/tasks.json", "node_modules/web/.vscode"},
		"without it":                  {nil, nil, "node_modules/web/.vscode/tasks.json", ""},
		"an absolute link":            {nil, map[string]string{"web": "WS/node_modules/web"}, "node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
		"two links":                   {nil, map[string]string{"web": "x", "x": "node_modules/web"}, "node_modules/web/.npmrc", "node_modules/web/.npmrc"},
		"a link to a directory above": {nil, map[string]string{"mods": "node_modules"}, "node_modules/web/.claude/settings.json", "node_modules/web/.claude"},
		"over a link":                 {nil, map[string]string{"mods": "node_modules", "web": "mods/web"}, "node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
		"around":                      {nil, map[string]string{"web": "mods/../node_modules/web", "mods": "src"}, "node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
		"a link in a link":            {nil, map[string]string{"node_modules/web/in": "../../vendor/in", "web": "node_modules/web"}, "vendor/in/.mcp.json", "vendor/in/.mcp.json"},
		"a link of pnpm's":            {nil, map[string]string{"node_modules/a": ".pnpm/a"}, "node_modules/.pnpm/a/.vscode/tasks.json", ""},
		"filled again":                {nil, map[string]string{"web": "node_modules/web"}, "node_modules/web/node_modules/y/.mcp.json", ""},
		"a link that was there":       {map[string]string{"web": "node_modules/web"}, nil, "node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
		"a loop":                      {nil, map[string]string{"node_modules/web/up": "../..", "web": "node_modules/web"}, "node_modules/web/.mcp.json", "node_modules/web/.mcp.json"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			link := func(links map[string]string) {
				for at, to := range links {
					if err := os.Symlink(strings.Replace(to, "WS", ws, 1), filepath.Join(ws, at)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, dir := range []string{"node_modules/web", "vendor/in", "src", filepath.Dir(c.file)} {
				if err := os.MkdirAll(filepath.Join(ws, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			link(c.old)
			for _, known := range []*Names{nil, ReadNames(t.Context(), []string{ws})} {
				before := Begin(t.Context(), Watch{Workspace: ws, Roots: []string{ws}}, known)()
				link(c.links)
				if err := os.WriteFile(filepath.Join(ws, c.file), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
				found := before.Compare(t.Context())
				var got []string
				for _, f := range found.List {
					got = append(got, f.Path)
				}
				if is := slices.Contains(got, filepath.Join(ws, c.want)); is != (c.want != "") || len(found.Unseen) > 0 {
					t.Errorf("changed are %q, unseen %q; want %q", got, found.Unseen, c.want)
				}
				for at := range c.links {
					_ = os.Remove(filepath.Join(ws, at))
				}
				_ = os.Remove(filepath.Join(ws, c.file))
			}
		})
	}
}
