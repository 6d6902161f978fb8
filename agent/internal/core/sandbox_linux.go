// Package core holds what the agent's verbs share: the Sandbox that commands run
// in, how a request's environment, directory and limits become a command, what is
// hidden in output, the registry of what runs, paths, and typed errors.
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

// OutputGrace is how long a command's output is awaited after its exit,
// while a process that it left behind still holds the pipe.
const OutputGrace = 100 * time.Millisecond

// Sandbox is what every verb that runs a command needs: how to start one, what
// it may use, and what runs already.
type Sandbox struct {
	Spawner *spawn.Spawner
	Reaper  *spawn.Reaper
	Trees   *spawn.Trees
	Env     map[string]string
	// OwnPath says that PATH was chosen for what is visible behind these walls, and
	// is not what the files of login shells say.
	OwnPath bool
	Limits  confine.Rlimits // of each process of every command
	// AddressSpace is one more of them, in bytes.
	AddressSpace uint64
	Workspace    string      // its path, as commands know it
	WorkspaceDir beneath.Dir // the same, as the agent reaches it
	Running      registry
	Vault        Vault
	// Rules say what is replaced in all that commands print, whoever started them.
	Rules *redact.Rules
}

// RealPath returns a path of the protocol as commands know it.
func (box *Sandbox) RealPath(p Path) string {
	return strings.Join(append([]string{strings.TrimRight(box.Workspace, "/")}, p.Names...), "/")
}

// UnixTime returns a time as the protocol tells it: seconds since 1970.
func UnixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Now returns the time as the protocol tells it.
func Now() *float64 {
	t := UnixTime(time.Now())
	return &t
}

// Bounds are the limits that a command may have met, besides its time.
type Bounds struct {
	OOMKilled    bool
	ForksRefused bool
	Asked        wire.Limits // of the request for each process, 0 where it says nothing
	Ended        bool        // the agent has killed it
}

// Denials returns what the tree of a process was refused since the last call: by the
// filter, and by limits. Refusals by mounts and Landlock are nowhere to be seen, so
// the list is never complete.
func (box *Sandbox) Denials(p *spawn.Process, b Bounds) []wire.Denial {
	list := p.Denied.Take()
	limit := func(rule, hint string, guess bool) {
		list = append(list, wire.Denial{Layer: "limit", Rule: rule, Hint: hint, Guess: guess})
	}
	if b.OOMKilled {
		limit("memory", "give it more memory: --memory", false)
	}
	if b.ForksRefused {
		limit("processes", "let it start more: --processes", false)
	}
	select {
	case <-p.Done:
	default:
		return list
	}
	most := strictest(box.Limits.CPUSeconds, b.Asked.CPUSeconds)
	switch p.Status.Signal() { // which commands send each other, too
	case unix.SIGXCPU:
		if most > 0 {
			limit("cpu_time", moreTime, false)
		}
	case unix.SIGKILL: // programs that ignore SIGXCPU, as those of Go do, get it a second later
		used := time.Duration(p.Usage.Utime.Nano() + p.Usage.Stime.Nano())
		if most > 0 && uint64(used/time.Second) >= most && !b.OOMKilled && !b.Ended {
			limit("cpu_time", moreTime, true)
		}
	case unix.SIGXFSZ:
		if strictest(box.Limits.FileSize, b.Asked.FileSizeBytes) > 0 {
			limit("file_size", "let it write larger files: --file-size", false)
		}
	}
	return list
}

const moreTime = "give it more processor time: --cpu-time"
