// Paddock-agent is the program inside every sandbox: it runs commands for
// whoever holds its socket.
//
// A backend starts it with the descriptors that package confine names, and it
// builds the walls around itself from a plan (boot); behind a wall that only
// gives a pipe it is a guest, and the pipe's other end belongs to a keeper
// outside, which is this program, too. Started by hand, with --listen,
// it serves as it is: as the guest agent of a virtual machine, in a
// container, or as an ordinary process.
//
// The number of processors to use is not looked up in cgroup files: that takes
// longer than it could save.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/paddock-dev/paddock/agent"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/keeper"
	"github.com/paddock-dev/paddock/wire"
)

// A process has the name of its first thread, and main begins on that: it stays
// there until the agent has named it.
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
		fmt.Printf("paddock-agent protocol %d build %s\n", wire.Version, orUnknown(wire.Build))
	default:
		os.Exit(serve(os.Args[1:]))
	}
}

func orUnknown(build string) string {
	if build == "" {
		return "unknown"
	}
	return build
}

// copyTree is "paddock-agent copy FROM TO": what one directory holds, in
// another. Backends run it inside, where an image need not have programs.
func copyTree(from, to string) int {
	if err := confine.CopyTree(from, to); err != nil {
		fmt.Fprintf(os.Stderr, "cannot copy the workspace: %v\n", err)
		return agent.ExitCannotStart
	}
	return 0
}
