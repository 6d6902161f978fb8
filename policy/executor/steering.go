package executor

import (
	"slices"
	"strings"
)

// reserved are variables that the executor sets itself, or that decide what
// tools load or execute, by name or, with "*", by prefix. They come on top of
// what the rules for commands do not let a text set (command.Steers).
var reserved = []string{
	"HOME", "PWD", "OLDPWD", "PIP_*", "VIRTUAL_ENV", "ZDOTDIR",
	"CC", "CXX", "LD", "COMPILER_PATH", "GCC_EXEC_PREFIX", "GO*FLAGS", "GOROOT", "GOPATH", "GOPROXY", "R_PROFILE*", "R_ENVIRON*",
}

// Reserved says whether the caller of the executor cannot set a variable.
func Reserved(name string) bool {
	return slices.ContainsFunc(reserved, func(pattern string) bool {
		before, after, open := strings.Cut(pattern, "*")
		return name == pattern || open && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
	})
}
