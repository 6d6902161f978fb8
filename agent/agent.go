// Package agent is the half of Paddock that lives inside a sandbox: the one
// program that runs commands there and answers for them over package wire.
//
// # Shape
//
// [Main] boots the sandbox from the plan that a backend hands over, then
// serves. One duty, one file: boot (apply the plan), spawner (the one thread
// that commands are cloned from), inner (the init of the commands' pid
// namespace), reap (exit statuses), tree (finding and killing whole process
// trees), exec, stream, stdin, output, capture, terminal, conn, usage.
//
// # Two pid namespaces
//
// The agent is PID 1 of an outer pid namespace. Its spawner thread makes an
// inner one, whose init is a process that does nothing at all. Commands live
// in the inner one: they cannot name the agent, so they can neither signal,
// trace nor starve it, and orphans never become the agent's children.
//
// # Marks
//
// Every command starts in a UTS namespace of its own, which every descendant
// inherits and none can leave, for want of a capability. It marks the tree:
// whatever a process does with its session, group or parent, the mark stays.
// The agent keeps two capabilities in the sandbox's own user namespace for
// this, CAP_SYS_ADMIN to make marks and CAP_SYS_PTRACE to read them from
// processes that hide; commands have none.
//
// # Limits
//
// The agent answers for its own results only. Whoever drives it must treat
// its bytes as those of the sandbox (see SECURITY.md).
package agent

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// Bounds of one agent.
const (
	// maxConnections is how many connections are served at a time; one more
	// is told so and closed.
	maxConnections = 512
	// maxProcessors bounds the agent's own parallelism; the machine is for commands.
	maxProcessors = 4
	// requestTimeout is how long a client may take to send a request line.
	requestTimeout = 30 * time.Second
	// idleTimeout is how long a kept-alive connection may stay silent.
	idleTimeout = 5 * time.Minute
	// outputGrace is how long a command's output is awaited after its exit,
	// while a process that it left behind still holds the pipe.
	outputGrace = 100 * time.Millisecond
	// exitGrace is how long a look at all processes waits for those that hide
	// their marks, because most such are about to end.
	exitGrace = 20 * time.Millisecond
	// killTimeout bounds the hunt for a tree's last process.
	killTimeout = 5 * time.Second
	// defaultTimeout is that of a command text that is not streamed.
	defaultTimeout = 30 * time.Second
	// defaultOutput and maxOutput bound a captured stream, in bytes.
	defaultOutput = 1 << 20
	maxOutput     = 8 << 20
)

// Agent runs commands for the clients of one sandbox.
type Agent struct {
	spawner   *spawner
	reaper    *reaper
	trees     *trees
	env       map[string]string
	workspace string
	isolation policy.Isolation
	nextID    atomic.Uint64
}

func (a *Agent) newID() string { return "e" + strconv.FormatUint(a.nextID.Add(1), 10) }
