package executor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Environment returns what the executor sets for every command, over the sandbox's
// own clean environment, beside HOME and PWD, which are the workspace. memory is
// the bound under which node must work: its heap gets three quarters, because
// the rest of the program needs room beside it.
func Environment(memory policy.Size) map[string]string {
	env := map[string]string{
		"PYTHONUNBUFFERED":          "1",
		"PYTHONDONTWRITEBYTECODE":   "1",
		"PYTHONHASHSEED":            "random",
		"PIP_NO_INPUT":              "1",
		"npm_config_ignore_scripts": "true",
		"MPLBACKEND":                "Agg",
	}
	if memory > 0 {
		env["NODE_OPTIONS"] = "--max-old-space-size=" + strconv.FormatInt(int64(memory*3/4/policy.MiB), 10)
	}
	return env
}

// reserved are variables that the executor sets itself, or that decide what
// tools load or execute, by name or, with "*", by prefix. They come on top of
// what the rules for commands do not let a text set (command.DangerousVariable).
var reserved = []string{
	"HOME", "PWD", "OLDPWD", "PIP_*", "VIRTUAL_ENV", "ZDOTDIR",
	"CC", "CXX", "LD", "COMPILER_PATH", "GCC_EXEC_PREFIX", "GO*FLAGS", "GOROOT", "GOPATH", "GOPROXY", "R_PROFILE*", "R_ENVIRON*",
}

// Reserved reports whether the caller of the executor cannot set a variable.
func Reserved(name string) bool {
	return slices.ContainsFunc(reserved, func(pattern string) bool {
		before, after, open := strings.Cut(pattern, "*")
		return name == pattern || open && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
	})
}
