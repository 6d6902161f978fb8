package command

import "strings"

// steering are the variables that decide which programs run, what the shell
// makes of a text, or what other programs load and start.
var steering = map[string]bool{
	"PATH": true, "ENV": true, "SHELL": true, "IFS": true, "CDPATH": true, "HOME": true, "GLOBIGNORE": true,
	"EXECIGNORE": true, "POSIXLY_CORRECT": true, "SHELLOPTS": true, "PROMPT_COMMAND": true, "PROMPT_DIRTRIM": true,
	"PS0": true, "PS1": true, "PS2": true, "PS4": true, "HISTFILE": true, "HISTCMD": true, "HOSTFILE": true,
	"INPUTRC": true, "FCEDIT": true, "FUNCNEST": true, "DIRSTACK": true, "GROUPS": true, "FUNCNAME": true,
	// integers by nature: what is assigned to them is evaluated
	"RANDOM": true, "SRANDOM": true, "SECONDS": true, "LINENO": true, "UID": true, "EUID": true, "PPID": true,
	"EPOCHSECONDS": true, "EPOCHREALTIME": true, "OPTIND": true,
	// editors, pagers, browsers
	"EDITOR": true, "VISUAL": true, "PAGER": true, "BROWSER": true, "MANOPT": true, "MANPATH": true, "LESS": true, "MORE": true, "EXINIT": true, "VIMINIT": true,
	// languages
	"NODE_OPTIONS": true, "NODE_PATH": true, "NODE_REPL_EXTERNAL_MODULE": true, "JAVA_TOOL_OPTIONS": true,
	"_JAVA_OPTIONS": true, "JDK_JAVA_OPTIONS": true, "CLASSPATH": true, "GOFLAGS": true, "GOENV": true, "GOTOOLCHAIN": true, "PHPRC": true, "PHP_INI_SCAN_DIR": true,
	"AWKPATH": true, "AWKLIBPATH": true, "TCLLIBPATH": true, "M4PATH": true, "MAKEFLAGS": true, "MAKEFILES": true, "MFLAGS": true, "GNUMAKEFLAGS": true,
	// the C library and those like it
	"GCONV_PATH": true, "LOCPATH": true, "NLSPATH": true, "TERMINFO": true, "TERMINFO_DIRS": true, "TERMCAP": true,
	"GLIBC_TUNABLES": true, "HOSTALIASES": true, "RES_OPTIONS": true, "OPENSSL_CONF": true, "OPENSSL_ENGINES": true, "OPENSSL_MODULES": true,
	// programs that read options from the environment
	"TAR_OPTIONS": true, "ZIPOPT": true, "RSYNC_RSH": true, "CVS_RSH": true, "SSH_ASKPASS": true, "SUDO_ASKPASS": true,
	"XDG_CONFIG_HOME": true, "XDG_CONFIG_DIRS": true, "XDG_DATA_HOME": true, "XDG_DATA_DIRS": true, "CURL_HOME": true, "WGETRC": true, "NETRC": true,
}

// steeringPrefixes are families of such variables.
var steeringPrefixes = []string{
	"LD_", "DYLD_", "BASH", "GIT_", "GREP_", "LESS", "PERL", "RUBY", "PYTHON", "LUA_", "RUSTC", "CARGO_", "GPG_", "PIP_CONFIG",
	"RSYNC_", "SSH_", "COMP_", "MALLOC_",
}

// harmlessVars are members of those families that steer nothing.
var harmlessVars = map[string]bool{
	"PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONIOENCODING": true, "PYTHONUTF8": true,
	"PYTHONHASHSEED": true, "PYTHONOPTIMIZE": true, "PYTHONFAULTHANDLER": true, "PYTHONDEVMODE": true,
	"GIT_AUTHOR_NAME": true, "GIT_AUTHOR_EMAIL": true, "GIT_AUTHOR_DATE": true, "GIT_COMMITTER_NAME": true,
	"GIT_COMMITTER_EMAIL": true, "GIT_COMMITTER_DATE": true, "GIT_TERMINAL_PROMPT": true, "GREP_COLOR": true, "GREP_COLORS": true,
	"CARGO_TERM_COLOR": true, "LESSCHARSET": true,
}

// steers says whether a variable changes what other commands are or do.
func steers(name string) bool {
	if harmlessVars[name] {
		return false
	}
	if steering[name] || strings.HasSuffix(name, "PAGER") || strings.HasSuffix(name, "EDITOR") {
		return true
	}
	for _, prefix := range steeringPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasPrefix(strings.ToLower(name), "npm_config_")
}
