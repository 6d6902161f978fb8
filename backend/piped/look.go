//go:build linux

package piped

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/descent"
)

// Seen is what the kernel says of the agent behind a wall, of this host.
type Seen struct {
	PID int
	// Namespaces are the kinds that it does not share with this process, as
	// policy.Isolation names them. Hidden: the kernel does not say.
	Namespaces []string
	Hidden     bool
	// UIDHost is its identity here, UIDInside what it sees itself as.
	UIDHost, UIDInside uint32
	NoNewPrivs         bool // of its first thread
	Filtered           bool // there is a seccomp filter
	// Capabilities are those that commands may hold, in hexadecimal, empty for
	// none: of what the agent has, what its thread that starts them passes on.
	Capabilities string
	// Interfaces of its network but for the loopback.
	Interfaces []string
}

// Look finds the agent among the descendants of the keeper. It is nil where it
// is none of them: on another host, in an engine's container, in a machine.
// Before the first request nothing but the wall runs below the keeper, and the
// agent lets itself be looked at.
func Look(r Running) *Seen {
	for _, p := range descent.Below(r.Keeper) {
		status, _ := state.ReadStatus(fmt.Sprintf("/proc/%d/status", p.PID))
		inside := strings.Fields(status["NSpid"])
		if len(inside) == 0 || inside[len(inside)-1] != strconv.Itoa(r.Ready.PID) || !isGuest(p.PID) {
			continue
		}
		s := &Seen{PID: p.PID, NoNewPrivs: status["NoNewPrivs"] == "1", Filtered: status["Seccomp"] == "2"}
		if caps := passedOn(p.PID); caps != 0 {
			s.Capabilities = fmt.Sprintf("%#x", caps)
		}
		s.UIDHost = number(strings.Fields(status["Uid"]))
		s.UIDInside = insideOf(p.PID, s.UIDHost)
		s.Namespaces, s.Hidden = namespacesOf(p.PID)
		s.Interfaces = interfacesOf(p.PID)
		return s
	}
	return nil
}

// Has reports whether the agent has a namespace of its own.
func (s *Seen) Has(kind string) bool {
	for _, ns := range s.Namespaces {
		if ns == kind {
			return true
		}
	}
	return false
}

// isGuest tells the agent from a wall's own program of the same number inside.
func isGuest(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := bytes.Split(text, []byte{0})
	return err == nil && len(words) >= 2 && bytes.HasSuffix(words[0], []byte("paddock-agent")) && string(words[1]) == "guest"
}

// passedOn returns the capabilities that programs may have which the agent starts:
// it does so from its one thread that passes on the fewest.
func passedOn(pid int) uint64 {
	fewest := ^uint64(0)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
	for _, t := range threads {
		status, _ := state.ReadStatus(t + "/status")
		set := func(name string) uint64 {
			n, err := strconv.ParseUint(status[name], 16, 64)
			if err != nil {
				return ^uint64(0)
			}
			return n
		}
		fewest = min(fewest, (set("CapEff")|set("CapPrm"))&(set("CapBnd")|set("CapInh")))
	}
	return fewest
}

func number(fields []string) uint32 {
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[0], 10, 32)
	return uint32(n)
}

// insideOf returns a host's uid as a process's user namespace has it.
func insideOf(pid int, uid uint32) uint32 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		inside, host, count := number(f), number(f[1:]), number(f[2:])
		if uid >= host && uid-host < count {
			return inside + uid - host
		}
	}
	return uid
}

var namespaceFiles = []struct{ name, file string }{
	{"user", "user"}, {"mount", "mnt"}, {"pid", "pid"}, {"ipc", "ipc"}, {"uts", "uts"}, {"net", "net"}, {"cgroup", "cgroup"},
}

func namespacesOf(pid int) (own []string, hidden bool) {
	own = []string{}
	for _, ns := range namespaceFiles {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.file))
		ours, oerr := os.Readlink("/proc/self/ns/" + ns.file)
		switch {
		case err != nil || oerr != nil:
			hidden = true
		case theirs != ours:
			own = append(own, ns.name)
		}
	}
	return own, hidden
}

// interfacesOf lists a process's network interfaces: two lines of heads, then
// "NAME: …".
func interfacesOf(pid int) (names []string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	for line := range strings.Lines(string(text)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && name != "lo" && !strings.Contains(name, "|") {
			names = append(names, name)
		}
	}
	return names
}
