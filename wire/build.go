package wire

import (
	"runtime/debug"
	"strings"
)

// Build identifies the build of this program, so that two programs can tell whether they
// are of one build: if both sides have one, they must be equal. "make build" sets it with
// -ldflags "-X github.com/paddock-dev/paddock/wire.Build=…". In a program of this module
// that "go install …@VERSION" built, it is the version and the beginning of the module's
// checksum. It is empty in any other program.
var Build string

func init() {
	if Build != "" {
		return
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		Build = buildOf(info.Main)
	}
}

// module is the path of this module.
const module = "github.com/paddock-dev/paddock"

// buildOf returns the build of a program with this main module. A module without a checksum
// is a tree that can be edited, of which the version tells nothing.
func buildOf(main debug.Module) string {
	const enough = 12 // characters of base64, 72 bits
	sum := strings.TrimPrefix(main.Sum, "h1:")
	if main.Path != module || len(sum) < enough {
		return ""
	}
	return main.Version + "." + sum[:enough]
}
