package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// language is a row of the table of what projects are made of.
type language struct {
	name string
	// files are names in the top directory, any of which says that the project uses it.
	files []string
	test  string // a command to try
	// programs are what the rules for commands would allow.
	programs []string
	// env are variables that are often wanted, with a value and a reason. They are written as
	// comments.
	env [][3]string
}

// languages returns the table, the main languages first.
func languages() []language {
	shell := []string{"sh", "bash", "git", "ls", "cat", "grep", "sed", "find", "mkdir", "rm", "cp", "mv"}
	return []language{
		{name: "Go", files: []string{"go.mod", "go.work"}, test: "paddock run -- go test ./...",
			programs: append(slices.Clone(shell), "go", "gofmt"),
			env:      [][3]string{{"CGO_ENABLED", "0", "build without a C compiler"}, {"GOFLAGS", "-mod=vendor", "use the modules in vendor, where there is no network"}}},
		{name: "Node.js", files: []string{"package.json"}, test: "paddock run -- npm test",
			programs: append(slices.Clone(shell), "node", "npm", "npx"),
			env:      [][3]string{{"NODE_ENV", "test", "what frameworks look at"}}},
		{name: "Python", files: []string{"pyproject.toml", "requirements.txt", "setup.py"}, test: "paddock run -- python3 -m unittest",
			programs: append(slices.Clone(shell), "python3", "pip", "pytest"),
			env:      [][3]string{{"PYTHONDONTWRITEBYTECODE", "1", "no __pycache__ in the workspace"}}},
		{name: "Rust", files: []string{"Cargo.toml"}, test: "paddock run -- cargo test",
			programs: append(slices.Clone(shell), "cargo", "rustc", "rustfmt", "cc", "ld"),
			env:      [][3]string{{"RUST_BACKTRACE", "1", "where a test panics"}}},
		{name: "C, make", files: []string{"Makefile", "makefile", "GNUmakefile"}, test: "paddock run -- make",
			programs: append(slices.Clone(shell), "make", "cc", "gcc", "ld", "ar"),
			env:      [][3]string{{"MAKEFLAGS", "-j4", "several jobs at a time"}}},
		{name: "C, CMake", files: []string{"CMakeLists.txt"}, test: "paddock run -- cmake -B build",
			programs: append(slices.Clone(shell), "cmake", "make", "ninja", "cc", "gcc", "ld", "ar"),
			env:      [][3]string{{"CMAKE_BUILD_PARALLEL_LEVEL", "4", "several jobs at a time"}}},
		{name: servicesRow, files: []string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}},
	}
}

// servicesRow is the row of services that a project needs.
const servicesRow = "services"

// in returns the name of one of the row's files that a directory has, or "".
func (l language) in(dir string) string {
	for _, name := range l.files {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

const projectHead = `# What sandboxes over this directory are like. Written by "paddock init"%s.
# It is used after "paddock trust", and again after that when it has changed.
# Commands in a sandbox cannot change it, and flags override it; paddock help trust
# says what it cannot do. A line with "# " before a key is a suggestion.

# none: loopback alone. host: this host's network, with everything that listens on it.
# {allow: [{host: api.example.com}, {host: "*.example.org", ports: [8443]}]}: these hosts by
# name, and no others.
network: none

limits:
  tmp: 2GiB                # of /tmp and of HOME, each: tools keep their caches there
  # memory: 4GiB           # of all commands together; see paddock doctor
  # cpus: 2
  # processes: 1024
  # timeout: 30m           # of a command
`

// projectText returns the file for what was found.
func projectText(langs []language, found []string) string {
	var b strings.Builder
	because := ""
	if len(found) > 0 {
		because = " for " + strings.Join(found, ", ")
	}
	b.WriteString(strings.Replace(projectHead, "%s", because, 1))
	var env, programs []string
	services := false
	for _, l := range langs {
		services = services || l.name == servicesRow
		for _, v := range l.env {
			env = append(env, `#   `+v[0]+`: "`+v[1]+`"`+"   # "+l.name+": "+v[2])
		}
		for _, p := range l.programs {
			if !slices.Contains(programs, p) {
				programs = append(programs, p)
			}
		}
	}
	b.WriteString("\n# Variables of all commands. Secrets do not belong here: a rule of network has those for requests.\n# env:\n")
	if len(env) == 0 {
		env = []string{"#   LANG: C.UTF-8"}
	}
	b.WriteString(strings.Join(env, "\n") + "\n")
	if len(programs) > 0 {
		b.WriteString("\n# Rules for commands: nothing but these programs can be started; see paddock help execute.\n# commands:\n#   allow: [" + strings.Join(programs, ", ") + "]\n")
	}
	b.WriteString("\n# Replace what looks like this in all output.\n# redaction:\n#   - {type: email, strategy: mask}\n")
	if services {
		b.WriteString("\n# Services run inside the sandbox, beside the commands: paddock service start --help.\n# Containers of this host can be reached with the host's network alone.\n")
	}
	return b.String()
}
