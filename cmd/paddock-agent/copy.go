package main

import (
	"fmt"
	"os"

	"github.com/paddock-dev/paddock/agent"
	"github.com/paddock-dev/paddock/confine"
)

// copyTree is "paddock-agent copy FROM TO": what one directory holds, in
// another. Backends run it inside, where an image need not have programs.
func copyTree(from, to string) int {
	if err := confine.CopyTree(from, to); err != nil {
		fmt.Fprintf(os.Stderr, "cannot copy the workspace: %v\n", err)
		return agent.ExitCannotStart
	}
	return 0
}
