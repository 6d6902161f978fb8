// Paddock-agent is the program inside every sandbox: it runs commands for
// the clients of its socket.
//
// A backend starts it with the descriptors that package confine names, and it
// builds the walls around itself from a plan (boot). Behind a wall that gives it only
// a pipe it is a guest; the other end of the pipe belongs to a keeper
// outside, which is also this program. Started by hand, with --listen,
// it serves without walls: as the guest agent of a virtual machine, in a
// container, or as an ordinary process.
//
// It does not read the number of processors to use from cgroup files: that takes
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

// The name of a process is the name of its first thread, on which main begins. So main stays
// on this thread until the agent has set the name.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) >= 2 && os.Args[1] == "boot" {
		os.Exit(agent.Main(len(os.Args) == 3 && os.Args[2] == confine.ReportUse))
	}
	runtime.UnlockOSThread()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "attempt":
		os.Exit(agent.TryWalls(os.Stdin, os.Stdout))
	case len(os.Args) == 4 && os.Args[1] == "copy":
		// Backends copy directories with this inside images that have no cp.
		if err := confine.CopyTree(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintf(os.Stderr, "cannot copy the workspace: %v\n", err)
			os.Exit(agent.ExitCannotStart)
		}
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
