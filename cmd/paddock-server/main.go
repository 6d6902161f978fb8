//go:build unix

// Paddock-server is the command line of paddock with everything linked that would make
// each start of paddock slower: the server for models and what sets up its clients,
// HTTP, and the client of Redis. It is installed beside paddock, which becomes it when it
// needs one of these.
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
	"github.com/paddock-dev/paddock/privilege/redis"
)

func main() {
	namespace.Helper()
	os.Exit(cli.Main(os.Args[1:], cli.Program{MCP: addMCP, OpenRedis: redis.Open}))
}
