package arch

import (
	"slices"
	"strings"
	"testing"
)

// Names in the rules: a path of this module without its prefix ("." is the
// root package alone), or the import path of anybody else's package. Imports of
// the standard library are free but for what a rule denies.

// allowRule says which imports a package may have beyond the standard library and internal/text.
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
	{"backend/docker", []string{"backend", "confine", "egress", "policy", "wire", "golang.org/x/sys"}, "it drives a command line, and links no engine's packages"},
	{"backend/codex", []string{"backend", "confine", "policy", "wire"}, "it drives one command line"},
	{"backend/hostpath", []string{"backend", "confine", "internal/dirfd", "policy", "golang.org/x/sys"}, "it only looks at paths"},
	{"obeyed", []string{"backend", "backend/hostpath", "internal/dirfd", "internal/strictjson", "layer/delta", "policy", "golang.org/x/sys"}, "it only looks at trees, and knows neither layers nor sandboxes"},
	{"internal/dirfd", []string{"confine", "golang.org/x/sys"}, "what judges and what protects open files by it"},
	{"layer/delta", nil, "layers and their judge speak by it"},
	{"agent/internal/beneath", []string{"golang.org/x/sys"}, "the agent links it"},
	{"internal/clone", []string{"golang.org/x/sys"}, "it runs in a child that shares its parent's memory"},
	{"backend/keep/order", []string{"internal/clone", "golang.org/x/sys"}, "the keeper is small because it links nothing else"},
	{"backend/keep/program", []string{"backend/keep/order", "internal/clone", "golang.org/x/sys"}, "there is one for each sandbox that stays"},
	{"internal/descent", []string{"golang.org/x/sys"}, "it only asks the kernel"},
	{"internal/search/ignore", nil, "the agent links it"},
	{"internal/redact", []string{"policy"}, "the agent links it"},
	{"internal/relay", []string{"golang.org/x/sys"}, "the agent links it"},
	{"internal/search", []string{"internal/search/ignore", "internal/redact"}, "the agent links it"},
	{"internal/stdiomux", []string{"github.com/hashicorp/yamux"}, "the agent links it"},
	{"internal/linediff", nil, "the layers and patches of models are compared by it"},
	{"internal/ownfile", nil, "what decides over access inherits nothing"},
	{"backend/layerstore", []string{"backend/hostpath", "layer", "golang.org/x/sys"}, "it only keeps directories, and mounts nothing"},
	{"internal/layers", []string{"backend/hostpath", "backend/layerstore", "backend/state", "internal/elsewhere", "layer", "obeyed", "golang.org/x/sys"}, "the library alone decides what a layer is for"},
	{"layer", []string{"layer/delta", "obeyed", "internal/linediff", "policy", "golang.org/x/sys"}, "it only looks at directories, and knows no sandboxes"},
	{"op/internal/patch", []string{"internal/linediff", "github.com/bluekeyes/go-gitdiff"}, "it only computes, from what models write"},
	{"privilege/redis", []string{"privilege", "github.com/redis/go-redis/v9"}, "it only keeps grants"},
	{"cgroup/systemd", []string{"cgroup", "github.com/godbus/dbus/v5"}, "it only asks for a scope"},
	{"keeper", []string{"internal/clone", "internal/descent", "internal/relay", "internal/stdiomux", "wire", "golang.org/x/sys"}, "it is part of the agent's program, outside every wall"},
	{"namespace", []string{"cgroup", "internal/clone", "internal/descent", "golang.org/x/sys"}, "its helper is every program that uses it, started once more"},
	{"egress/internal/proxy", []string{"egress", "internal/strictjson", "policy", "golang.org/x/net", "golang.org/x/sys"}, "it reads what is hostile, outside every sandbox"},
	{"test/engines", nil, "it drives command lines"},
}

// exactAllow are rules for one package without those below it.
var exactAllow = []allowRule{
	{"policy", nil, "the agent links it, so it decides with the standard library; reading YAML is specfile's duty"},
	{"backend", []string{"confine", "policy"}, "it is an interface"},
	{"audit", nil, "the record depends on nothing that is recorded"},
	{"cgroup", []string{"golang.org/x/sys"}, "the agent links it"},
	{"privilege", []string{"internal/ownfile", "internal/strictjson"}, "it decides who may leave the walls; a program that only asks inherits nothing"},
	{"privilege/token", []string{"internal/ownfile", "internal/strictjson", "policy", "privilege"}, "it decides who comes in, knows names and bounds, and no door"},
	{"server/install", []string{"internal/strictjson", "policy", "github.com/pelletier/go-toml/v2", "github.com/tailscale/hujson"}, "it edits files of people's, and knows no server"},
	{"egress", []string{"internal/strictjson", "policy"}, "the library asks the process, and links none of it"},
	{"internal/strictjson", []string{"policy", "github.com/go-json-experiment/json"}, "it only decodes"},
	{"internal/lazyregexp", nil, "everything may import it"},
	{"internal/osstring", nil, "everything may import it"},
	{"internal/text", nil, "everything may import it"},
}

// denyRule says what packages must not import.
type denyRule struct {
	pkgs []string // these packages and those below them, "." for the root package
	deny []string
	why  string
}

var (
	agentSide = []string{"agent", "cmd/paddock-agent"}
	denyRules = []denyRule{
		{agentSide, []string{"net/http", "crypto/tls"}, "it doubles the agent's size and start; the wire needs none of it"},
		{[]string{"backend/keep/order", "backend/keep/program", "cmd/paddock-keeper"}, []string{"fmt", "net", "encoding/json", "os", "log"}, "what they do when a program begins takes more memory than the whole keeper"},
		{agentSide, []string{"internal/strictjson"}, "its library has half the agent's size"},
		{[]string{"egress"}, []string{"agent", "backend", "."}, "the process knows rules and sockets, and no sandbox"},
		{agentSide, []string{"."}, "the library is the other side of the wall"},
		{agentSide, []string{"backend"}, "agent and backends meet at wire and confine.Plan"},
		{agentSide, []string{"op", "server", "cmd"}, "operations and doors are outside the wall"},
		{agentSide, []string{"audit", "privilege"}, "the record, and who may ask for what, are outside every sandbox"},
		{agentSide, []string{"cgroup/systemd"}, "the service manager is outside the wall"},
		{agentSide, []string{"github.com/spf13/cobra"}, "flags of the agent are the standard library's"},
		{agentSide, []string{"go.yaml.in/yaml/v3"}, "specs are read outside the wall"},
		{[]string{"backend"}, []string{"agent"}, "backends and agent meet at wire and confine.Plan"},
		{[]string{"backend"}, []string{".", "op", "cmd", "server"}, "doors stand on the library, which stands on backends"},
		{[]string{"."}, []string{"op", "cmd", "server"}, "doors stand on the library, never under it"},
		{[]string{"."}, []string{"agent"}, "the library talks to an agent, and is none"},
		{[]string{"."}, []string{"privilege"}, "who may ask is for the operations to decide"},
		{[]string{"op"}, []string{"cmd", "server"}, "doors are rendered from operations, not the other way round"},
		{[]string{"op"}, []string{"agent"}, "operations reach the agent through the library"},
		{[]string{"op"}, []string{"privilege/redis"}, "a door opens the store; operations use it"},
		{[]string{"server"}, []string{"cmd", "github.com/spf13/cobra"}, "a door renders the table, and no other door"},
		{[]string{"server"}, []string{"agent"}, "operations reach the agent through the library"},
		{[]string{"server"}, []string{"privilege/redis"}, "what opens the store is given to it"},
	}
)

// importerRule says who alone may import a heavy module.
type importerRule struct {
	module string
	only   []string
	tests  bool // tests of other packages may import it, too
	why    string
}

var importerRules = []importerRule{
	{"github.com/spf13/cobra", []string{"cmd/internal/cli", "cmd/paddock-server"}, false, "flags are one rendering of the operations"},
	{"github.com/spf13/pflag", []string{"cmd/internal/cli", "cmd/paddock-server"}, false, "flags are one rendering of the operations"},
	{"go.yaml.in/yaml/v3", []string{"policy/specfile"}, false, "nobody else reads YAML"},
	{"mvdan.cc/sh/v3", []string{"policy/command"}, false, "nobody else parses shell texts"},
	{"github.com/godbus/dbus/v5", []string{"cgroup/systemd"}, false, "nobody else speaks to the service manager"},
	{"github.com/hashicorp/yamux", []string{"internal/stdiomux"}, false, "nobody else multiplexes"},
	{"golang.org/x/net", []string{"egress/internal/proxy"}, false, "nobody else reads DNS"},
	{"golang.org/x/crypto", []string{"egress/internal/sshagent"}, true, "nobody else reads keys of SSH"},
	{"github.com/creack/pty", []string{"bench"}, true, "the agent makes terminals itself; tests and benchmarks stand in for a person at one"},
	{"github.com/redis/go-redis/v9", []string{"privilege/redis"}, false, "nobody else speaks to Redis"},
	{"github.com/bluekeyes/go-gitdiff", []string{"op/internal/patch"}, false, "nobody else reads patches"},
	{"github.com/ulikunitz/xz", []string{"agent"}, false, "archives are unpacked inside"},
	{"github.com/pelletier/go-toml/v2", []string{"server/install"}, false, "nobody else reads TOML"},
	{"github.com/tailscale/hujson", []string{"server/install"}, false, "nobody else edits JSON with comments"},
	{"github.com/go-json-experiment/json", []string{"internal/strictjson"}, false, "nobody else decodes with it"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"server/mcp", "test/mcp", "bench/mcppeer"}, true, "one door speaks the protocol of models"},
	{"github.com/google/jsonschema-go", []string{"test/mcp"}, true, "schemas are made in op; tests check answers against them"},
}

// full turns a name of the rules into an import path.
func full(name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case ".":
		return module
	case "agent", "audit", "backend", "bench", "cgroup", "cmd", "confine", "egress", "internal", "keeper", "layer", "namespace", "obeyed",
		"op", "policy", "privilege", "server", "test", "wire":
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
			if !g[path].Standard && !matchesAny(path, rule.allow) && path != full("internal/text") && path != full("internal/osstring") && path != full("internal/lazyregexp") {
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
			if !p.ours() || !slices.ContainsFunc(rule.pkgs, func(name string) bool { return covers(p, name) }) {
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
			imports := p.Imports
			if !rule.tests {
				imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
			}
			for _, path := range imports {
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
		{"cmd/paddock-agent", []string{module + "/internal/strictjson", "net/http", "crypto/tls", "backend", ".", "op", "audit", "github.com/godbus/dbus/v5", "github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3", "mvdan.cc/sh/v3", "testing"}},
		{"cmd/paddock", []string{"agent", "testing", "net/http", "crypto/tls", "github.com/redis/go-redis/v9", "server", "github.com/modelcontextprotocol/go-sdk"}},
		{"wire", []string{"net/http", "crypto/tls"}},
		{"egress", []string{"net/http", "crypto/tls", "golang.org/x/net"}},
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
