// Package elsewhere has what is said on systems whose kernel is not Linux, where no
// sandbox can be started.
package elsewhere

import (
	"fmt"
	"os"
	"runtime"
)

// Problem says why a sandbox cannot be started, and Hint what to do.
const (
	Problem = "sandboxes need the Linux kernel, and this is " + runtime.GOOS
	Hint    = "run paddock in a Linux virtual machine: lima or colima on macOS, WSL 2 on Windows"
)

// Main is the main function of a program on a system on which it can do nothing.
func Main(program string) {
	fmt.Fprintf(os.Stderr, "%s: cannot start: %s; %s\n", program, Problem, Hint)
	os.Exit(125)
}
