package arch

import (
	"slices"
	"testing"
)

// Names in the rules: a path of this module without its prefix ("." is the
// root package alone), a path with a dot in its first element for anybody
// else's, "std" for the standard library.

// allowRule says which imports beyond the standard library a package may have.
type allowRule struct {
	pkg   string // this package and those below it
	allow []string
	why   string
}

var allowRules = []allowRule{
	{"wire", []string{"wire"}, "a client of the protocol inherits nothing"},
	{"policy/command", []string{"policy", "mvdan.cc/sh/v3"}, "it only judges commands"},
	{"policy/specfile", []string{"policy", "go.yaml.in/yaml/v3"}, "it only reads a spec"},
	{"policy/execution", []string{"policy"}, "it only holds settings"},
	{"policy/executor", []string{"policy"}, "it only reads settings"},
	{"confine", []string{"confine", "policy", "golang.org/x/sys"}, "it runs in the new process before the walls stand"},
	{"backend/docker", []string{"backend", "confine", "policy", "wire", "golang.org/x/sys"}, "it drives a command line, and links no engine's packages"},
	{"backend/hostpath", []string{"backend", "confine", "policy", "golang.org/x/sys"}, "it only looks at paths"},
	{"internal/ignore", nil, "the agent links it"},
	{"internal/search", []string{module + "/internal/ignore", module + "/internal/redact"}, "the agent links it"},
	{"internal/testkit/engines", nil, "it drives command lines"},
	{"backend/codex", []string{"backend", "confine", "policy", "wire"}, "it drives one command line"},
	{"privilege/redis", []string{"privilege", "github.com/redis/go-redis/v9"}, "it only keeps grants"},
	{"cgroup/systemd", []string{"cgroup", "github.com/godbus/dbus/v5"}, "it only asks for a scope"},
	{"keeper", []string{module + "/internal/clone", module + "/internal/descent", module + "/internal/relay", module + "/internal/stdiomux", "wire", "golang.org/x/sys"}, "it is part of the agent's program, outside every wall"},
	{"internal/patch", []string{"github.com/bluekeyes/go-gitdiff"}, "it only computes, from what models write"},
	{"namespace", []string{"cgroup", module + "/internal/clone", module + "/internal/descent", "golang.org/x/sys"}, "its helper is every program that uses it, started once more"},
}

// exactAllow are rules for one package without those below it.
var exactAllow = []allowRule{
	{"policy", []string{module + "/internal/redact"}, "the agent links it"},
	{"audit", nil, "the record depends on nothing that is recorded"},
	{"cgroup", []string{"golang.org/x/sys"}, "the agent links it"},
	{"privilege", []string{module + "/internal/ownfile"}, "who only asks inherits nothing"},
	{"privilege/token", []string{module + "/internal/ownfile", "policy", "privilege"}, "it decides who comes in, and knows no door"},
	{"server/install", []string{"policy", "github.com/pelletier/go-toml/v2"}, "it edits files of people's, and knows no server"},
	{"internal/ownfile", nil, "what decides over access inherits nothing"},
}

// denyRule says what a package must not import.
type denyRule struct {
	pkg  string // this package and those below it, "." for the root package
	deny []string
	why  string
}

var denyRules = []denyRule{
	{"agent", []string{"net/http", "crypto/tls", "backend", ".", "op", "cmd", "server", "github.com/spf13/cobra", "go.yaml.in/yaml/v3"}, "the agent is small and knows no wall"},
	{"cmd/paddock-agent", []string{"net/http", "crypto/tls", "backend", ".", "op", "server", "github.com/spf13/cobra", "go.yaml.in/yaml/v3"}, "the agent is small and knows no wall"},
	{"backend", []string{"agent", ".", "op", "cmd", "server"}, "backends and agent meet at wire and confine.Plan"},
	{".", []string{"op", "cmd", "server", "agent", "privilege"}, "doors stand on the library, never under it"},
	{"op", []string{"cmd", "server", "agent", "privilege/redis"}, "operations are rendered by doors, not the other way round"},
	{"server", []string{"cmd", "agent", "privilege/redis", "github.com/spf13/cobra"}, "a door renders the table, and what opens stores is given to it"},
}

// importerRule says who alone may import a heavy module.
type importerRule struct {
	module string
	only   []string
	why    string
}

var importerRules = []importerRule{
	{"github.com/spf13/cobra", []string{"cmd/paddock"}, "flags are one rendering of the operations"},
	{"github.com/spf13/pflag", []string{"cmd/paddock"}, "flags are one rendering of the operations"},
	{"go.yaml.in/yaml/v3", []string{"policy/specfile"}, "nobody else reads YAML"},
	{"mvdan.cc/sh/v3", []string{"policy/command"}, "nobody else parses shell texts"},
	{"github.com/godbus/dbus/v5", []string{"cgroup/systemd"}, "nobody else speaks to the service manager"},
	{"github.com/hashicorp/yamux", []string{"internal/stdiomux"}, "nobody else multiplexes"},
	{"github.com/creack/pty", []string{"bench"}, "the agent makes terminals itself"},
	{"github.com/redis/go-redis/v9", []string{"privilege/redis"}, "nobody else speaks to Redis"},
	{"github.com/bluekeyes/go-gitdiff", []string{"internal/patch"}, "nobody else reads patches"},
	{"github.com/ulikunitz/xz", []string{"agent"}, "archives are unpacked inside"},
	{"github.com/pelletier/go-toml/v2", []string{"server/install"}, "nobody else reads TOML"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"server/mcp", "test/mcp", "bench/mcppeer", "internal/testkit/fixtures"}, "one door speaks the protocol of models"},
	{"github.com/google/jsonschema-go", []string{"test/mcp"}, "schemas are made in op; tests check answers against them"},
}

// full turns a name of the rules into an import path.
func full(name string) string {
	switch name {
	case ".":
		return module
	case "agent", "audit", "backend", "cgroup", "cmd", "confine", "op", "policy", "privilege", "privilege/redis", "privilege/stores", "server", "wire":
		return module + "/" + name
	}
	return name
}

// matches says whether an import is what a name of the rules means.
func matches(path, name string) bool {
	if name == "." {
		return path == module
	}
	return within(path, full(name))
}

func matchesAny(path string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return matches(path, name) })
}

// covers says whether a rule for name is about p.
func covers(p pkg, name string) bool {
	if name == "." {
		return p.short() == "."
	}
	return within(p.short(), name)
}

func TestAllowedImports(t *testing.T) {
	g := packages(t)
	check := func(p pkg, rule allowRule) {
		for _, path := range p.Imports {
			if !g[path].Standard && !matchesAny(path, rule.allow) {
				t.Errorf("%s imports %s: %s", p.short(), path, rule.why)
			}
		}
	}
	for _, path := range paths(g) {
		p := g[path]
		for _, rule := range allowRules {
			if p.ours() && covers(p, rule.pkg) {
				check(p, rule)
			}
		}
		for _, rule := range exactAllow {
			if p.ours() && p.short() == rule.pkg {
				check(p, rule)
			}
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	g := packages(t)
	for _, path := range paths(g) {
		p := g[path]
		for _, rule := range denyRules {
			if !p.ours() || !covers(p, rule.pkg) {
				continue
			}
			for _, path := range p.Imports {
				if matchesAny(path, rule.deny) {
					t.Errorf("%s imports %s: %s", p.short(), path, rule.why)
				}
			}
		}
	}
}

func TestHeavyModules(t *testing.T) {
	g := packages(t)
	for _, path := range paths(g) {
		p := g[path]
		for _, rule := range importerRules {
			mayImport := slices.ContainsFunc(rule.only, func(name string) bool { return covers(p, name) })
			if !p.ours() || mayImport {
				continue
			}
			for _, path := range p.Imports {
				if within(path, rule.module) {
					t.Errorf("%s imports %s: %s", p.short(), path, rule.why)
				}
			}
		}
	}
}

// What a program links matters, not only what it names: these look at
// everything that is reachable.
func TestLinkedPackages(t *testing.T) {
	g := packages(t)
	tests := []struct {
		pkg  string
		deny []string
	}{
		{"cmd/paddock-agent", []string{"net/http", "crypto/tls", "backend", ".", "op", "audit", "github.com/godbus/dbus/v5", "github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3", "mvdan.cc/sh/v3", "testing"}},
		{"cmd/paddock", []string{"agent", "testing", "net/http", "crypto/tls", "github.com/redis/go-redis/v9", "server", "github.com/modelcontextprotocol/go-sdk"}},
		{"wire", []string{"net/http", "crypto/tls"}},
		{".", []string{"github.com/spf13/cobra", "go.yaml.in/yaml/v3", "mvdan.cc/sh/v3", "agent", "testing"}},
		{"op", []string{"github.com/redis/go-redis/v9", "crypto/tls"}},
	}
	for _, tt := range tests {
		path := module
		if tt.pkg != "." {
			path += "/" + tt.pkg
		}
		p, ok := g[path]
		if !ok {
			t.Errorf("there is no package %s", tt.pkg)
			continue
		}
		for _, dep := range p.Deps {
			if matchesAny(dep, tt.deny) {
				t.Errorf("%s links %s", tt.pkg, dep)
			}
		}
	}
}
