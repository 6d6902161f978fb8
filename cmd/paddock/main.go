//go:build unix

// Paddock runs commands inside real walls. "paddock help" lists its commands, and
// each command is described by --help.
//
// Its commands are in package cli. For commands that need a Redis client or the protocol of
// models, this program executes paddock-server: paddock wraps single commands, so it must
// start fast.
//
// The number of processors to use is not looked up in cgroup files: that takes
// longer than it could save.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/namespace"
)

func main() {
	namespace.Helper()
	os.Exit(cli.Main(os.Args[1:], cli.Program{}))
}
