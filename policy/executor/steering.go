package executor

import (
	"slices"
	"strings"
)

// steering are variables with which who sets them decides what another
// program loads, executes or reads as its program, by name or, with "*", by
// prefix. In lower case they are none, those of npm aside.
var steering = []string{
	"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_TRACE", // the loader and the C library
	"PATH", "HOME", "PWD", "OLDPWD", "CDPATH", "IFS", "ENV", "SHELL", "SHELLOPTS", "BASHOPTS", "BASH_*", "PS4", "PROMPT_COMMAND", "ZDOTDIR", // shells
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONEXECUTABLE", "PYTHONUSERBASE", "PYTHONBREAKPOINT",
	"PYTHONWARNINGS", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "PYTHONCASEOK",
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_EXTRA_CA_CERTS",
	"npm_config_script_shell", "npm_config_node_options", "npm_config_prefix", "npm_config_userconfig", "npm_config_globalconfig",
	"npm_config_ignore_scripts", "npm_config_git", "npm_config_editor", "npm_config_shell", "npm_config_viewer",
	"PIP_*", "VIRTUAL_ENV",
	"PERL5LIB", "PERLLIB", "PERL5OPT", "PERL5DB", "RUBYOPT", "RUBYLIB", "LUA_PATH*", "LUA_CPATH*", "LUA_INIT*",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "R_PROFILE*", "R_ENVIRON*", "PHPRC", "PHP_INI_SCAN_DIR",
	"AWKPATH", "AWKLIBPATH", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "CC", "CXX", "LD", "COMPILER_PATH", "GCC_EXEC_PREFIX", "GCC_COMPARE_DEBUG",
	"GO*FLAGS", "GOROOT", "GOPATH", "GOTOOLCHAIN", "GOPROXY", "CARGO_*", "RUSTC*", "RUSTFLAGS",
	"GIT_*", "XDG_CONFIG_*", "SSH_ASKPASS", "SUDO_ASKPASS", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "LESS",
	"TAR_OPTIONS", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "GREP_OPTIONS", "TERMINFO*", "TERMCAP", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
}

// harmless are the exceptions.
var harmless = []string{
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
}

// Steers says whether a variable decides what other programs load or execute.
// Where rules say which programs may be called, it can be set by the sandbox
// alone. The list is of what is known to, and therefore not complete.
func Steers(name string) bool {
	return !slices.Contains(harmless, name) && slices.ContainsFunc(steering, func(pattern string) bool {
		before, after, open := strings.Cut(pattern, "*")
		if strings.HasPrefix(pattern, "npm_") {
			return strings.EqualFold(name, pattern)
		}
		return name == pattern || open && len(name) >= len(pattern)-1 && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
	})
}
