package run

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Hints explains why a command of a sandbox may have failed.
type Hints struct {
	Spec policy.Spec
	// Covered are sockets of the host, by their paths there, that are covered inside.
	Covered []string
	// Layer is the directory that has the changes of an overlay.
	Layer string
	// Search is the caller's PATH, in which a program that is missing inside may be.
	Search string
	// Discreet: hints do not say where anything is on this host.
	Discreet bool
	// Shell runs a script in the sandbox, in dir, and returns its output. It takes a bounded time,
	// and its own failure is not explained.
	Shell func(dir, script string, args ...string) ([]byte, error)
}

// guesses are texts in a program's error output that suggest that a wall has refused it
// something which the kernel does not report.
var guesses = []struct {
	text   string
	denial wire.Denial
	// applies reports whether the sandbox has that wall.
	applies func(policy.Spec) bool
}{
	{"Read-only file system", wire.Denial{Layer: "mount", Rule: "read-only", Hint: "writes outside of /workspace, /tmp and HOME need `mounts.rw`; protected paths of the workspace need `workspace.unprotected`"}, nil},
	{"Device or resource busy", wire.Denial{Layer: "mount", Rule: "protected",
		Hint: "protected files cannot be replaced, nor directories that hold one removed: `workspace.unprotected` .git/config opens a repository's own, .git/modules submodules', DIR/.git a nested one's"}, nil},
	{": toolchain not available", wire.Denial{Layer: "network", Rule: "none", // Go
		Hint: "go has to download that version of itself, and there is no network but loopback: run go version here, outside of the sandbox, once"}, withoutNetwork},
	{"Network is unreachable", noNetwork, withoutNetwork},
	{"Temporary failure in name resolution", noNetwork, withoutNetwork},
	{unresolved, noNetwork, withoutNetwork},
	{"network is unreachable", noNetwork, withoutNetwork},
	{"EAI_AGAIN", noNetwork, withoutNetwork},
	{"ENETUNREACH", noNetwork, withoutNetwork},
	{"Temporary failure resolving", noNetwork, withoutNetwork}, // apt
	{"bad address '", noNetwork, withoutNetwork},               // busybox
	{"Name does not resolve", noNetwork, withoutNetwork},       // musl
	{"UnknownHostException", noNetwork, withoutNetwork},        // Java
	{"dial tcp: lookup ", noNetwork, withoutNetwork},           // Go
	{"Couldn't connect to server", closedPort, ownLoopback},    // curl
	{"ECONNREFUSED", closedPort, ownLoopback},
	{"connect: connection refused", closedPort, ownLoopback}, // Go
	{"disabled by GOPROXY=off", noNetwork, withoutNetwork},
	{"(from versions: none)", noNetwork, withoutNetwork}, // pip
	{"you're using offline mode (--offline)", noNetwork, withoutNetwork},
	{"--offline was specified", noNetwork, withoutNetwork},
	{"Permission denied", wire.Denial{Layer: "command", Rule: "execute", Hint: "of programs, those in commands.allow alone can be executed, and nothing that commands can change"},
		func(s policy.Spec) bool { return s.Commands != nil }},
	{"Permission denied", wire.Denial{Layer: "landlock", Rule: "files", Hint: "paths that were not named are out of reach: `mounts.ro` or `mounts.rw` makes them visible"},
		func(s policy.Spec) bool { return s.Level == policy.LevelLandlock }},
	{"Resource temporarily unavailable", noProcesses, nil},
	{"Cannot fork", noProcesses, nil},
	{"Cannot allocate memory", noMemory, withMemory},
	{fileExceeded, largerFiles, withFileSize},
	{"ile too large", largerFiles, withFileSize}, // EFBIG, for programs that ignore SIGXFSZ
	{"EFBIG", largerFiles, withFileSize},
	{cpuExceeded, wire.Denial{Layer: "limit", Rule: "cpu_time", Hint: "give it more processor time: `limits.cpu_time`"}, func(s policy.Spec) bool { return s.Limits.CPUTime > 0 }},
	{"MemoryError", noMemory, withMemory},
	{"out of memory", noMemory, withMemory},
}

// unresolved is what curl and git print.
const unresolved = "Could not resolve host"

// cpuExceeded is what shells print about SIGXCPU.
const cpuExceeded = "CPU time limit exceeded"

// fileExceeded is what shells print about SIGXFSZ.
const fileExceeded = "File size limit exceeded"

var largerFiles = wire.Denial{Layer: "limit", Rule: "file_size", Hint: "let it write larger files: `limits.file_size`"}

func withFileSize(s policy.Spec) bool { return s.Limits.FileSize > 0 }

var (
	noProcesses = wire.Denial{Layer: "limit", Rule: "processes", Hint: "let it start more: `limits.processes`"}
	noMemory    = wire.Denial{Layer: "limit", Rule: "memory", Hint: "give it more memory: `limits.memory`"}
)

func withMemory(s policy.Spec) bool { return s.Limits.Memory > 0 || s.Limits.MemoryHigh > 0 }

var noNetwork = wire.Denial{Layer: "network", Rule: "none", Hint: "there is no network but loopback; `network` host gives the host's"}

// closedPort is refused by the kernel: nothing outside hears of it.
var closedPort = wire.Denial{Layer: "network", Rule: "port", Hint: "a host refuses every port that no rule names: `network.allow` HOST:PORT opens it"}

func ownLoopback(s policy.Spec) bool { return s.Network.Mode != policy.NetworkHost }

func withoutNetwork(s policy.Spec) bool { return s.Network.Mode == policy.NetworkNone }

// silent are network programs that may be told to print no errors, and their exit status if
// they cannot resolve a host name.
var silent = []struct {
	command string
	status  int
}{{"curl ", 6}, {"wget ", 4}}

// Denials adds to list the operations that the sandbox may have refused, judging by the exit
// status and the output of a command that failed.
func (h Hints) Denials(list []wire.Denial, status int, said []byte, command string) []wire.Denial {
	if status == 128+int(syscall.SIGXCPU) { // the status that shells give commands which SIGXCPU has ended
		said = append(slices.Clip(said), cpuExceeded...)
	}
	if status == 128+int(syscall.SIGXFSZ) {
		said = append(slices.Clip(said), fileExceeded...)
	}
	for _, p := range silent {
		if len(said) == 0 && status == p.status && strings.Contains(command, p.command) {
			said = []byte(unresolved)
		}
	}
	covered := h.coveredIn(said)
	for _, g := range guesses {
		known := func(d wire.Denial) bool { return d.Layer == g.denial.Layer && d.Rule == g.denial.Rule }
		if !bytes.Contains(said, []byte(g.text)) || g.applies != nil && !g.applies(h.Spec) || slices.ContainsFunc(list, known) {
			continue
		}
		denial := g.denial
		if name := protectedIn(said); denial.Rule == "read-only" && name != "" {
			denial.Object, denial.Hint = name, "protected paths of the workspace need `workspace.unprotected` "+policy.ShellWord(name)
		}
		if covered.Rule != "" && denial.Rule == "protected" {
			continue // its own denial says more
		}
		if denial.Hint == noNetwork.Hint && h.namesHosts() {
			denial.Hint = "there is no network but loopback; `network.allow` " + askedHost(said) + " opens one host by its name, `network` host gives all of the host's"
		}
		if denial.Hint == closedPort.Hint {
			if slices.ContainsFunc(list, func(d wire.Denial) bool { return d.Layer == denial.Layer }) {
				continue // the network has told
			}
			denial.Object, denial.Hint = h.closed(said, command)
			if denial.Hint == "" {
				continue
			}
		}
		denial.Guess = true
		list = append(list, denial)
	}
	if covered.Rule != "" {
		list = append(list, covered)
	}
	if full := h.full(said); full.Rule != "" {
		list = append(list, full)
	}
	return h.missingProgram(h.places(list, said), status, said)
}

// taken are what programs print about a path at which they can neither connect nor listen.
var taken = []string{"onnection refused", "ECONNREFUSED", "ddress already in use", "EADDRINUSE", "Device or resource busy", "EBUSY"}

// coveredIn returns the denial of a covered socket of the host that a program names in its output.
// Its Rule is "" if there is none.
func (h Hints) coveredIn(said []byte) (d wire.Denial) {
	if !slices.ContainsFunc(taken, func(text string) bool { return bytes.Contains(said, []byte(text)) }) {
		return d
	}
	for _, at := range h.Covered {
		hint := "use another path inside, or `workspace.mode` overlay, in which commands can have a server of their own there"
		rel, in := hostpath.Within(at, h.Spec.Workspace.Source)
		if in {
			at = path.Join(policy.WorkspacePath, rel)
		} else {
			hint = "`host_sockets` " + policy.ShellWord(at) + " lets commands connect to it, if they cannot replace it"
		}
		if bytes.Contains(said, []byte(at)) {
			return wire.Denial{Layer: "mount", Rule: "covered", Object: at, Guess: true, Hint: "a program of the host listens there, and commands are kept from it: " + hint}
		}
	}
	return d
}

// unresolvedHost matches what curl, git, node and go print about a name that they cannot resolve.
var unresolvedHost = lazyregexp.New(`(?:Could not resolve host: |getaddrinfo (?:EAI_AGAIN|ENOTFOUND) |dial tcp: lookup )([A-Za-z0-9._-]+)`)

// askedHost returns the host that a program could not resolve, by its output, or HOST.
func askedHost(said []byte) string {
	if found := unresolvedHost().FindSubmatch(said); found != nil {
		if host, reason, _ := policy.CanonicalHost(string(found[1])); reason == "" {
			return host
		}
	}
	return "HOST"
}

// namesHosts reports whether the sandbox's wall can open hosts by name.
func (h Hints) namesHosts() bool {
	return (h.Spec.Backend == policy.BackendLinux || h.Spec.Backend == policy.BackendDocker) && h.Spec.Level != policy.LevelLandlock
}

// refusedPort matches what curl, node and go print about a port that refuses them.
var refusedPort = lazyregexp.New(`(?:Failed to connect to |connect ECONNREFUSED |dial tcp )\[?([A-Za-z0-9.:_-]+)\]?(?: port |:)([0-9]{1,5})\b`)

// closed returns which port has refused a program, and what opens it; "" if no rule could.
func (h Hints) closed(said []byte, command string) (object, hint string) {
	named := policy.ByName(h.Spec.Network.Mode)
	if named {
		if host, hint := plainHTTP(h.Spec.Network, said, []byte(command)); hint != "" {
			return host, hint
		}
	}
	found := refusedPort().FindSubmatch(said)
	if found == nil {
		if named {
			return "", closedPort.Hint
		}
		return "", ""
	}
	host, port := string(found[1]), string(found[2])
	_, notAddress := netip.ParseAddr(host)
	switch {
	case !h.namesHosts():
		return "", ""
	case host == policy.HostName:
		hint = "`network.host_ports` " + port + " opens it"
	case host == "localhost", host == "127.0.0.1", host == "::1":
		hint = host + " is the sandbox's own, where nothing listens at that port; `network.host_ports` " + port + " lets it reach that port of the host, as " + policy.HostName
	case !named:
		return "", ""
	case notAddress == nil:
		return "", closedPort.Hint // it stands for a name
	default:
		hint = strings.Replace(closedPort.Hint, "HOST:PORT", host+":"+port, 1)
	}
	return net.JoinHostPort(host, port), hint
}

// plainURL matches a URL without TLS, and what curl prints about a port that it cannot reach.
var plainURL = lazyregexp.New(`http://([A-Za-z0-9._-]+)|Failed to connect to ([A-Za-z0-9._-]+) port 80 `)

// plainHTTP returns a host that one of the texts has in a URL without TLS, and what to use in its
// place, if a rule of the network has a secret for it or looks into its requests.
func plainHTTP(n policy.Network, texts ...[]byte) (host, hint string) {
	for _, text := range texts {
		for _, found := range plainURL().FindAllSubmatch(text, 16) {
			host, reason, _ := policy.CanonicalHost(string(found[1]) + string(found[2]))
			if hint := n.HTTPSHint(host); reason == "" && hint != "" {
				return host, hint
			}
		}
	}
	return "", ""
}

// readOnly matches what programs print about a path that they cannot write.
var readOnly = lazyregexp.New(`([^\s'"‘’]+)['"’]?: Read-only file system`)

// protectedIn returns the protected path of the workspace that a program could not write, by
// its output, or "".
func protectedIn(said []byte) string {
	for _, found := range readOnly().FindAllSubmatch(said, -1) {
		file := path.Clean(strings.TrimPrefix(string(found[1]), policy.WorkspacePath+"/"))
		for _, name := range policy.ProtectedPaths() {
			if file == name || strings.HasPrefix(file, name+"/") {
				return name
			}
		}
	}
	return ""
}

// LastWords returns the last 2 KiB of an output, where programs say why they failed.
func LastWords(output []byte) []byte {
	const most = 2 << 10
	return output[max(0, len(output)-most):]
}

// projects are what tools print if they do not find a project, and the file or directory at
// the top of a project.
var projects = []struct{ text, top string }{
	{"not a git repository (or any", ".git"},
	{"does not contain main module", "go.mod"},
	{"go.mod file not found", "go.mod"},
	{"cannot find main module", "go.mod"},
	{"could not find `Cargo.toml`", "Cargo.toml"},
	{"Could not read package.json", "package.json"},
}

// absent are what programs print about a file that does not exist.
var absent = []string{"o such file or directory", "ENOENT", "bad interpreter", "does not exist"}

// places adds to list the paths of this host in the output of a failed command that do not
// exist inside, or have another path there: the project that the workspace is a part of, and
// the workspace by its path on this host.
func (h Hints) places(list []wire.Denial, said []byte) []wire.Denial {
	source := h.Spec.Workspace.Source
	if h.Discreet || h.Spec.Backend != policy.BackendLinux || !path.IsAbs(source) || len(said) == 0 {
		return list
	}
	for _, p := range projects {
		if !bytes.Contains(said, []byte(p.text)) || exists(path.Join(source, p.top)) {
			continue
		}
		for dir := path.Dir(source); hostpath.Home(dir) == ""; dir = path.Dir(dir) {
			if exists(path.Join(dir, p.top)) {
				below := strings.TrimPrefix(source, dir+"/")
				return append(list, wire.Denial{Layer: "mount", Rule: "workspace", Object: dir, Guess: true,
					Hint: "the workspace is a part of the project in " + policy.ShellWord(dir) + ", which is not visible: `workspace.source` " + policy.ShellWord(dir) + " `cwd` " + policy.ShellWord(below)})
			}
		}
	}
	if h.hides(source) && bytes.Contains(said, []byte(source)) {
		for _, text := range absent {
			if bytes.Contains(said, []byte(text)) {
				return append(list, wire.Denial{Layer: "mount", Rule: "workspace", Object: source, Guess: true,
					Hint: policy.ShellWord(source) + " is " + policy.WorkspacePath + " inside"})
			}
		}
	}
	return list
}

// exists reports whether something exists at a path.
func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// hides reports whether the workspace's path on this host does not exist inside.
func (h Hints) hides(source string) bool {
	for _, m := range h.Spec.Mounts {
		if _, in := hostpath.Within(source, m.Target); in {
			return false
		}
	}
	_, in := hostpath.Within(source, policy.WorkspacePath)
	return !in && len(source) > 1
}
