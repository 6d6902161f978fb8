//go:build linux

// Package piped starts sandboxes behind walls that only give a pipe: a command
// (the wall) is started with the agent's own command as its last arguments,
// and what it makes of standard input and output is the connection to the agent.
//
// A backend describes its wall as a [Wall], and [Start] does the rest: the
// directory of state, the keeper process that owns the pipe (package keeper),
// the handshake, the end. What the sandbox is proved to have is the backend's
// to say, by [Wall.Verify].
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
	// Env is the wall's environment, NAME=VALUE. nil is what programs need at
	// least: PATH, HOME, USER, LANG and the like of this process, nothing else.
	Env []string
	// Dir is where the wall's command starts. Default: "/".
	Dir string
	// Agent is the path of the agent as seen inside. Without meaning where it is
	// uploaded.
	Agent string
	// Upload sends the agent through the pipe to a new directory, by a shell
	// inside, and has it checked there by its hash.
	Upload bool
	// Quote makes one word for a shell of what is appended, as ssh needs it.
	Quote bool
	// Guest is what the agent is told. Version, Build and Nonce are filled in.
	Guest wire.Guest
	// Cleanup are commands that end what may be left of the wall; they are run
	// once it has ended, each for 10 s at the most, with Env.
	Cleanup [][]string
	// StartTimeout bounds the start, to the agent's answer: at the most 10
	// minutes, default 30 s.
	StartTimeout time.Duration
	// Verify looks at the running wall and says what holds. An error ends the
	// sandbox; a *backend.StartError is returned as it is.
	Verify func(ctx context.Context, r Running) (policy.Isolation, error)
	// Explain may add to an error what it knows of it: a hint, a better cause.
	// said is the end of what the wall printed, made safe to print. nil: nothing.
	Explain func(e *backend.StartError, said string)
	// Elsewhere says whether the agent runs where no kernel can be asked from
	// here, on another host say. Its end is then the agent's own word: the wall's
	// command ends by itself, with status 0. nil: it runs below the keeper. It is
	// asked at the end.
	Elsewhere func() bool
	// Gone says whether all of the wall has ended that is not a descendant of
	// the keeper: the container, say. nil: there is nothing else, and death is
	// proved by descent.
	Gone func(ctx context.Context) (bool, error)
}

// Running is a wall whose agent has answered.
type Running struct {
	// ID is the sandbox's name.
	ID string
	// Keeper is the pid of the process that the wall's is a descendant of.
	Keeper int
	// Ready is the agent's answer.
	Ready wire.GuestReady
}
