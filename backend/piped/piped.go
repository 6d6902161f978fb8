//go:build linux

// Package piped starts sandboxes behind walls that only give a pipe. The wall is a
// command that is started with the agent's own command as its last arguments, and
// its standard input and output are the connection to the agent.
//
// A backend describes its wall as a [Wall], and [Start] does the rest: the state
// directory, the keeper process that owns the pipe (package keeper), the handshake
// and the end. The backend reports the proved isolation of the sandbox by [Wall.Verify].
package piped

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Wall is a command that starts another command, given as its last arguments, behind a wall.
type Wall struct {
	// Backend is the name of the backend.
	Backend string
	// Argv is the wall's command. The agent's is appended: Agent and "guest".
	// Empty: there is no wall, and the agent is started itself.
	Argv []string
	// Env is the wall's environment, NAME=VALUE. nil stands for [Environment]: PATH,
	// HOME, USER, LANG and the like of this process, and nothing else.
	Env []string
	// Dir is where the wall's command starts. Default: "/".
	Dir string
	// Agent is the path of the agent as seen inside. It has no meaning with Upload.
	Agent string
	// Upload sends the agent through the pipe: a shell inside puts it into a new
	// directory and checks its hash.
	Upload bool
	// Quote makes a single shell word of the command that is appended, as ssh needs it.
	Quote bool
	// Guest is sent to the agent. Start fills in Version, Build and Nonce.
	Guest wire.Guest
	// State is the directory of the sandbox, if the backend has made it already. Start
	// removes it after an error. nil: Start makes it.
	State *state.Dir
	// Cleanup are commands that remove possible remains of the wall. They run once the
	// wall has ended, each for 10 s at most, with Env.
	Cleanup [][]string
	// StartTimeout is how long the start may take until the agent answers: at most 10
	// minutes, 30 s by default.
	StartTimeout time.Duration
	// Verify checks the running wall and returns what holds. An error ends the
	// sandbox; a *backend.StartError is returned as it is.
	Verify func(ctx context.Context, r Running) (policy.Isolation, error)
	// Explain may improve an error: add a hint, or a better cause. said is the end of
	// the wall's output, made safe to print. Explain may be nil.
	Explain func(e *backend.StartError, said string)
	// Elsewhere reports, at the end, whether the agent ran where this host's kernel
	// cannot be asked about it, on another host for example. The proof of its end then
	// depends on the agent alone: the wall's command ends by itself, with status 0.
	// nil: the agent runs below the keeper.
	Elsewhere func() bool
	// Gone reports whether everything of the wall that is not a descendant of the
	// keeper has ended, a container for example. nil: there is nothing else, and
	// death is proved by descent.
	Gone func(ctx context.Context) (bool, error)
}

// Running is a wall whose agent has answered.
type Running struct {
	// ID is the sandbox's name.
	ID string
	// Keeper is the pid of the keeper, of which the wall's process is a descendant.
	Keeper int
	// Ready is the agent's answer.
	Ready wire.GuestReady
}

// Limits returns the limits of a spec as an agent enforces them without control
// groups: in each process.
func Limits(l policy.Limits) wire.GuestRlimits {
	return wire.GuestRlimits{
		CPUSeconds: uint64((time.Duration(l.CPUTime) + time.Second - 1) / time.Second),
		FileSize:   uint64(l.FileSize), OpenFiles: l.OpenFiles, Processes: l.Processes, Data: uint64(l.Memory),
	}
}

// PlanRlimits returns an agent's rlimits as a plan shows them.
func PlanRlimits(r wire.GuestRlimits) confine.Rlimits {
	return confine.Rlimits{CPUSeconds: r.CPUSeconds, FileSize: r.FileSize, OpenFiles: r.OpenFiles, Processes: r.Processes, Data: r.Data}
}

// TellLimits records in the isolation what enforces each limit, and in what that is
// less than the spec says.
func TellLimits(i *policy.Isolation, l policy.Limits) {
	r := Limits(l)
	i.Limits = map[string]string{}
	tell := func(name, text string, value uint64) {
		if value > 0 {
			i.Limits[name] = fmt.Sprintf(text, value)
		}
	}
	tell("cpu_time", "RLIMIT_CPU=%d, of each process, with SIGXCPU a second before its end", r.CPUSeconds)
	tell("file_size", "RLIMIT_FSIZE=%d, of each process", r.FileSize)
	tell("open_files", "RLIMIT_NOFILE=%d, of each process", r.OpenFiles)
	tell("processes", "RLIMIT_NPROC=%d, of all that the user runs", r.Processes)
	tell("memory", "RLIMIT_DATA=%d, of each process", r.Data)
	for name, value := range map[string]uint64{policy.DegradeMemory: r.Data, policy.DegradeProcesses: r.Processes} {
		if value > 0 {
			i.Degraded = append(i.Degraded, name)
		}
	}
	slices.Sort(i.Degraded)
	i.Lost = append(i.Lost, backend.Losses(i.Degraded)...)
}
