// Paddock-keeper is the process that owns a sandbox which outlives the process that made it.
// Paddock starts one for each such sandbox.
//
// It does not read the number of processors to use from cgroup files: that takes longer than
// it could save.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"runtime"
	"syscall"

	"github.com/paddock-dev/paddock/backend/keep/program"
)

// Its children die with the thread that has cloned them, the first one.
func init() { runtime.LockOSThread() }

func main() { syscall.Exit(program.Main()) }
