// Paddock-egress is the process outside of a sandbox through which commands reach the hosts
// that rules name. Paddock starts one for each sandbox whose network is "allow", and ends it
// with the sandbox.
package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"github.com/paddock-dev/paddock/egress/process"
	"github.com/paddock-dev/paddock/wire"
)

// The name of a process is the name of its first thread, on which main begins.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Printf("paddock-egress build %s\n", cmp.Or(wire.Build, "unknown"))
		return
	}
	os.Exit(process.Main(process.Options{}))
}
