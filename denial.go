package paddock

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/policy"
)

// guesses are what a program's error output says where a wall refused it
// something that the kernel tells nobody about.
var guesses = []struct {
	text   string
	denial Denial
	// applies says whether such a wall stands at all.
	applies func(Spec) bool
}{
	{"Read-only file system", Denial{Layer: "mount", Rule: "read-only", Hint: "writes outside of /workspace, /tmp and HOME need --rw; protected paths of the workspace need --unprotect"}, nil},
	{"Device or resource busy", Denial{Layer: "mount", Rule: "protected",
		Hint: "protected files cannot be replaced, nor directories that hold one removed: --unprotect .git/config opens a repository's own, .git/modules submodules', DIR/.git a nested one's"}, nil},
	{"No space left on device", Denial{Layer: "limit", Rule: "tmp", Hint: "the private file systems are bounded: --tmp, and --disk for a copied workspace"}, nil},
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
	{"disabled by GOPROXY=off", noNetwork, withoutNetwork},
	{"(from versions: none)", noNetwork, withoutNetwork}, // pip
	{"you're using offline mode (--offline)", noNetwork, withoutNetwork},
	{"--offline was specified", noNetwork, withoutNetwork},
	{"Permission denied", Denial{Layer: "command", Rule: "execute", Hint: "of programs, those in commands.allow alone can be executed, and nothing that commands can change"},
		func(s Spec) bool { return s.Commands != nil }},
	{"Permission denied", Denial{Layer: "landlock", Rule: "files", Hint: "paths that were not named are out of reach: --ro or --rw makes them visible"},
		func(s Spec) bool { return s.Level == policy.LevelLandlock }},
	{"Resource temporarily unavailable", noProcesses, nil},
	{"Cannot fork", noProcesses, nil},
	{"Cannot allocate memory", noMemory, withMemory},
	{cpuExceeded, Denial{Layer: "limit", Rule: "cpu_time", Hint: "give it more processor time: --cpu-time"}, func(s Spec) bool { return s.Limits.CPUTime > 0 }},
	{"MemoryError", noMemory, withMemory},
	{"out of memory", noMemory, withMemory},
}

// unresolved is what curl and git say.
const unresolved = "Could not resolve host"

// cpuExceeded is what shells print of SIGXCPU.
const cpuExceeded = "CPU time limit exceeded"

var (
	noProcesses = Denial{Layer: "limit", Rule: "processes", Hint: "let it start more: --processes"}
	noMemory    = Denial{Layer: "limit", Rule: "memory", Hint: "give it more memory: --memory"}
)

func withMemory(s Spec) bool { return s.Limits.Memory > 0 || s.Limits.MemoryHigh > 0 }

var noNetwork = Denial{Layer: "network", Rule: "none", Hint: "there is no network but loopback; --network host gives the host's"}

func withoutNetwork(s Spec) bool { return s.Network == "none" }

// silent are programs for the network that were told to print no errors, and the status
// that they end with where they find no host.
var silent = []struct {
	command string
	status  int
}{{"curl ", 6}, {"wget ", 4}}

// GuessDenials returns what the sandbox may have refused, by what was printed: by a shell
// on a terminal, say, of which no exit status is known. Of a [Cmd], and of a command in a
// [Session], the result says it.
func (s *Sandbox) GuessDenials(output []byte) []Denial {
	return s.guess(nil, statusNotFound, output, "")
}

// guess adds to the denials what the exit status of a command that failed and what it
// has said suggest.
func (s *Sandbox) guess(list []Denial, status int, said []byte, command string) []Denial {
	if status == 128+int(syscall.SIGXCPU) { // as shells tell of what they have started
		said = append(slices.Clip(said), cpuExceeded...)
	}
	for _, p := range silent {
		if len(said) == 0 && status == p.status && strings.Contains(command, p.command) {
			said = []byte(unresolved)
		}
	}
	for _, g := range guesses {
		known := func(d Denial) bool { return d.Layer == g.denial.Layer && d.Rule == g.denial.Rule }
		if !bytes.Contains(said, []byte(g.text)) || g.applies != nil && !g.applies(s.spec) || slices.ContainsFunc(list, known) {
			continue
		}
		denial := g.denial
		if name := protectedIn(said); denial.Rule == "read-only" && name != "" {
			denial.Object, denial.Hint = name, "protected paths of the workspace need --unprotect "+policy.ShellWord(name)
		}
		denial.Guess = true
		list = append(list, denial)
	}
	return s.guessMissing(s.guessPlaces(list, said), status, said)
}

// readOnly is what programs say of a path that they cannot write.
var readOnly = regexp.MustCompile(`([^\s'"‘’]+)['"’]?: Read-only file system`)

// protectedIn returns the protected path of the workspace that a program could not write,
// by what it says of that; empty where it says none.
func protectedIn(said []byte) string {
	for _, found := range readOnly.FindAllSubmatch(said, -1) {
		file := path.Clean(strings.TrimPrefix(string(found[1]), policy.WorkspacePath+"/"))
		for _, name := range policy.ProtectedPaths() {
			if file == name || strings.HasPrefix(file, name+"/") {
				return name
			}
		}
	}
	return ""
}

// lastWords are the end of an output, in which a program says why it has failed.
func lastWords(output []byte) []byte {
	const most = 2 << 10
	return output[max(0, len(output)-most):]
}
