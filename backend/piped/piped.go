//go:build linux

// Package piped starts sandboxes behind walls that only give a pipe. The wall is a
// command that is started with the agent's own command as its last arguments, and
// its standard input and output are the connection to the agent.
//
// A backend describes its wall as a [Wall], and [Start] does the rest: the state
// directory, the keeper process that owns the pipe (package keeper), the handshake
// and the end. The backend says what the sandbox is proved to have, by [Wall.Verify].
package piped

import (
	"context"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Wall is a command that starts the command which follows it, behind a wall.
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
	// Cleanup are commands that end what may be left of the wall. They run once the
	// wall has ended, each for 10 s at most, with Env.
	Cleanup [][]string
	// StartTimeout is how long the start may take until the agent answers: at most 10
	// minutes, 30 s by default.
	StartTimeout time.Duration
	// Verify checks the running wall and returns what holds. An error ends the
	// sandbox; a *backend.StartError is returned as it is.
	Verify func(ctx context.Context, r Running) (policy.Isolation, error)
	// Explain may improve an error: add a hint, or a better cause. said is the end of
	// what the wall printed, made safe to print. It may be nil.
	Explain func(e *backend.StartError, said string)
	// Elsewhere reports, at the end, whether the agent ran where this host's kernel
	// cannot be asked about it, on another host for example. Its end is then proved
	// only by the agent's own word: the wall's command ends by itself, with status 0.
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
