package cache

import (
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Tool is a tool that can keep a cache.
type Tool struct {
	Name string
	// Marks are the files in the top directory of a workspace which show that it uses
	// the tool.
	Marks []string
	// Programs are paths of which one must exist on the host for "auto". Empty: the tool
	// may come from anywhere.
	Programs []string
	// Env are the variables that name the cache, each with a directory in it, and Set
	// are others that it needs.
	Env, Set map[string]string
}

// The names of tools, as policy.CacheTools lists them. Home is not a tool's cache but the
// directory at HOME.
const (
	Go    = "go"
	Cargo = "cargo"
	NPM   = "npm"
	Pip   = "pip"
	Home  = "home"
)

// Tools returns the table of tools.
func Tools() []Tool {
	python := []string{"pyproject.toml", "requirements.txt", "requirements-dev.txt", "setup.py", "setup.cfg", "uv.lock"}
	return []Tool{
		{Name: Cargo, Marks: []string{"Cargo.toml"}, Env: map[string]string{"CARGO_HOME": ""}},
		{Name: "ccache", Marks: []string{"Makefile", "GNUmakefile", "makefile", "CMakeLists.txt", "configure", "configure.ac", "meson.build"},
			Programs: []string{"/usr/bin/ccache", "/usr/local/bin/ccache", "/bin/ccache"}, Env: map[string]string{"CCACHE_DIR": ""}},
		{Name: Go, Marks: []string{"go.mod", "go.work"}, Env: map[string]string{"GOCACHE": "build", "GOMODCACHE": "mod"}},
		{Name: NPM, Marks: []string{"package.json"}, Env: map[string]string{"npm_config_cache": ""}},
		{Name: Pip, Marks: python, Env: map[string]string{"PIP_CACHE_DIR": ""}},
		{Name: "uv", Marks: python, Env: map[string]string{"UV_CACHE_DIR": ""},
			Set: map[string]string{"UV_LINK_MODE": "copy"}}, // files cannot have names in two mounts
	}
}

// find returns the tool of this name.
func find(name string) (Tool, bool) {
	all := Tools()
	i := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return all[i], true
}

// Chosen returns the tools of the words of a spec: for "auto" those whose marks lie in the
// workspace's top directory. No link is followed there.
func Chosen(words []string, workspace string) []string {
	switch {
	case len(words) == 0 || slices.Contains(words, policy.CachesNone):
		return nil
	case !slices.Contains(words, policy.CachesAuto):
		return words
	}
	top, err := dirfd.Open(unix.AT_FDCWD, workspace, dirfd.DirFlags)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(top) }()
	has := func(dir int, name string, links int) bool {
		var st unix.Stat_t
		return unix.Fstatat(dir, name, &st, links) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	}
	var names []string
	for _, t := range Tools() {
		marked := slices.ContainsFunc(t.Marks, func(mark string) bool { return has(top, mark, unix.AT_SYMLINK_NOFOLLOW) })
		there := len(t.Programs) == 0 || slices.ContainsFunc(t.Programs, func(p string) bool { return has(unix.AT_FDCWD, p, 0) })
		if marked && there {
			names = append(names, t.Name)
		}
	}
	return names
}

// Env returns the variables that make a tool use the cache in a directory.
func Env(tool, dir string) map[string]string {
	t, _ := find(tool)
	env := maps.Clone(t.Set)
	if env == nil {
		env = map[string]string{}
	}
	for name, below := range t.Env {
		env[name] = filepath.Join(dir, below)
	}
	return env
}
