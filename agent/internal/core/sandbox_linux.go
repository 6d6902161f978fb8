// Package core holds what the agent's actions share: the Sandbox that commands run
// in, how a request's environment, directory and limits become a command, the
// redaction of output, the registry of what runs, paths, and typed errors.
package core

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// OutputGrace is how long the agent waits for a command's output after its exit,
// while a process that it left behind still holds the pipe.
const OutputGrace = 100 * time.Millisecond

// Sandbox has everything that an action needs to run a command: how to start one, what
// it may use, and what runs already.
type Sandbox struct {
	Spawner *spawn.Spawner
	Reaper  *spawn.Reaper
	Trees   *spawn.Trees
	Env     map[string]string
	// OwnPath says that PATH was chosen for the programs that are visible behind these
	// walls, and must not be replaced by the files of login shells.
	OwnPath bool
	Limits  confine.Rlimits // of each process of every command
	// AddressSpace is another such limit, in bytes.
	AddressSpace uint64
	Workspace    string      // its path, as commands see it
	WorkspaceDir beneath.Dir // the agent's handle of it
	Running      registry
	Vault        Vault
	// Rules say what to replace in the output of every command, no matter which client
	// started it.
	Rules *redact.Rules
}

// RealPath returns a path of the protocol as commands see it.
func (box *Sandbox) RealPath(p Path) string {
	return strings.Join(append([]string{strings.TrimRight(box.Workspace, "/")}, p.Names...), "/")
}

// UnixTime returns a time as in the protocol: seconds since 1970.
func UnixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Now returns the time as in the protocol.
func Now() *float64 {
	t := UnixTime(time.Now())
	return &t
}

// Bounds are the limits that a command may have reached, besides its time.
type Bounds struct {
	OOMKilled    bool
	ForksRefused bool
	Asked        wire.Limits // of the request, for each process; 0 means none
	Ended        bool        // the agent has killed it
}

// Denials returns the refusals of the filter and the limits to the tree of a process
// since the last call. The agent cannot see the refusals of mounts and Landlock, so the
// list is never complete.
func (box *Sandbox) Denials(p *spawn.Process, b Bounds) []wire.Denial {
	list := p.Denied.Take()
	limit := func(rule, hint string, guess bool) {
		list = append(list, wire.Denial{Layer: "limit", Rule: rule, Hint: hint, Guess: guess})
	}
	if b.OOMKilled {
		limit("memory", "give it more memory: `limits.memory`", false)
	}
	if b.ForksRefused {
		limit("processes", "let it start more: `limits.processes`", false)
	}
	select {
	case <-p.Done:
	default:
		return list
	}
	most := strictest(box.Limits.CPUSeconds, b.Asked.CPUSeconds)
	switch p.Status.Signal() { // commands can send these signals to each other, too
	case unix.SIGXCPU:
		if most > 0 {
			limit("cpu_time", moreTime, false)
		}
	case unix.SIGKILL: // programs that ignore SIGXCPU, as Go programs do, get SIGKILL a second later
		used := time.Duration(p.Usage.Utime.Nano() + p.Usage.Stime.Nano())
		if most > 0 && uint64(used/time.Second) >= most && !b.OOMKilled && !b.Ended {
			limit("cpu_time", moreTime, true)
		}
	case unix.SIGXFSZ:
		if strictest(box.Limits.FileSize, b.Asked.FileSizeBytes) > 0 {
			limit("file_size", "let it write larger files: `limits.file_size`", false)
		}
	}
	return list
}

const moreTime = "give it more processor time: `limits.cpu_time`"
