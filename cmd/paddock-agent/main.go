// Paddock-agent is the program inside every sandbox: it runs commands for clients that can
// connect to its socket.
//
// A backend starts it with the descriptors that package confine names, and it
// builds the walls around itself from a plan (boot). Behind a wall that only gives a pipe
// it is a guest, and the keeper at the other end of the pipe is also this program. Started
// by hand, with --listen, it builds no walls: it is the guest agent of a virtual machine, or
// runs in a container or as an ordinary process.
//
// The number of processors to use is not looked up in cgroup files: that takes
// longer than it could save.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"github.com/paddock-dev/paddock/agent"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/keeper"
	"github.com/paddock-dev/paddock/wire"
)

// A process has the name of its first thread, on which main begins. main stays there until
// the agent has set the name.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "boot" {
		os.Exit(agent.Main())
	}
	runtime.UnlockOSThread()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "attempt":
		os.Exit(agent.TryWalls(os.Stdin, os.Stdout))
	case len(os.Args) == 4 && os.Args[1] == "copy":
		os.Exit(copyTree(os.Args[2], os.Args[3]))
	case len(os.Args) == 2 && os.Args[1] == "keep":
		os.Exit(keeper.Main())
	case len(os.Args) == 2 && os.Args[1] == "guest":
		os.Exit(agent.Guest(""))
	case len(os.Args) == 4 && os.Args[1] == "guest" && os.Args[2] == "--remove":
		os.Exit(agent.Guest(os.Args[3]))
	case len(os.Args) == 2 && os.Args[1] == "--version":
		fmt.Printf("paddock-agent protocol %d build %s\n", wire.Version, cmp.Or(wire.Build, "unknown"))
	default:
		os.Exit(serve(os.Args[1:]))
	}
}

// copyTree runs "paddock-agent copy FROM TO", which copies the content of a directory.
// Backends run it inside a sandbox, whose image may have no programs.
func copyTree(from, to string) int {
	if err := confine.CopyTree(from, to); err != nil {
		fmt.Fprintf(os.Stderr, "cannot copy the workspace: %v\n", err)
		return agent.ExitCannotStart
	}
	return 0
}
