//go:build linux

package piped

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/descent"
)

// Seen has the kernel's information about the agent behind a wall on this host.
type Seen struct {
	PID int
	// Namespaces are the kinds that it does not share with this process, as
	// policy.Isolation names them. Hidden: some of them cannot be read.
	Namespaces []string
	Hidden     bool
	// UIDHost is its user id on the host, UIDInside its user id inside.
	UIDHost, UIDInside uint32
	NoNewPrivs         bool // of its first thread
	Filtered           bool // there is a seccomp filter
	// Capabilities are those that commands may hold, in hexadecimal, empty for
	// none: those that the agent's thread which starts commands passes on.
	Capabilities string
	// Interfaces are the interfaces of its network, except the loopback.
	Interfaces []string
}

// Look finds the agent among the descendants of the keeper. It returns nil if the agent
// is not one of them: if it is on another host, in an engine's container or in a virtual
// machine. Before the first request only the wall runs below the keeper, and the agent
// can be inspected.
func Look(r Running) *Seen {
	for _, p := range descent.Below(r.Keeper) {
		status, _ := state.ReadStatus(fmt.Sprintf("/proc/%d/status", p.PID))
		inside := strings.Fields(status["NSpid"])
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		words := bytes.Split(text, []byte{0})
		// A program of the wall may have the same pid inside: the command line distinguishes them.
		if len(inside) == 0 || inside[len(inside)-1] != strconv.Itoa(r.Ready.PID) || err != nil ||
			len(words) < 2 || !bytes.HasSuffix(words[0], []byte("paddock-agent")) || string(words[1]) != "guest" {
			continue
		}
		s := &Seen{PID: p.PID, NoNewPrivs: status["NoNewPrivs"] == "1", Filtered: status["Seccomp"] == "2"}
		if caps := passedOn(p.PID); caps != 0 {
			s.Capabilities = fmt.Sprintf("%#x", caps)
		}
		s.UIDHost = number(strings.Fields(status["Uid"]))
		s.UIDInside = insideOf(p.PID, s.UIDHost)
		s.Namespaces, err = state.OwnNamespaces(p.PID)
		s.Hidden = err != nil
		interfaces, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", p.PID))
		for line := range strings.Lines(string(interfaces)) { // two lines of headings, then "NAME: …"
			name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
			if ok && name != "lo" && !strings.Contains(name, "|") {
				s.Interfaces = append(s.Interfaces, name)
			}
		}
		return s
	}
	return nil
}

// FindBelow returns the pid of a descendant of the keeper with this name, or 0.
func FindBelow(keeper int, name string) int {
	const most = 15 // bytes of a name that the kernel keeps
	for _, p := range descent.Below(keeper) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		if err == nil && strings.TrimSuffix(string(comm), "\n") == name[:min(len(name), most)] {
			return p.PID
		}
	}
	return 0
}

// Has reports whether the agent is in another namespace of this kind than the host.
func (s *Seen) Has(kind string) bool { return slices.Contains(s.Namespaces, kind) }

// passedOn returns the capabilities that programs which the agent starts may have: it
// starts them from the thread that passes on the fewest.
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

// number returns the first of some fields as a number.
func number(fields []string) uint32 {
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[0], 10, 32)
	return uint32(n)
}

// insideOf returns the uid that a uid of the host has in a process's user namespace.
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
