package core

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// CommandEnv returns the variables that a request adds to the base environment. It
// refuses names that are not portable, as the contract says.
func CommandEnv(env map[string]string) (map[string]string, *wire.Error) {
	clean := make(map[string]string, len(env))
	for name, value := range env {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			return nil, envError("secret name is required")
		case !PortableName(name):
			return nil, envError("secret name is invalid")
		}
		clean[name] = value
	}
	return clean, CheckEnv(clean)
}

// WithSecrets returns the environment of a request with the secrets that it names, and their
// values, which a redactor must hide however long the command runs. The request's own variables
// replace secrets.
func (box *Sandbox) WithSecrets(env map[string]string, names []string) (_ map[string]string, hide []string, _ *wire.Error) {
	if len(names) == 0 {
		return env, nil, nil
	}
	refuse := func(reason string) (map[string]string, []string, *wire.Error) {
		return nil, nil, &wire.Error{Code: wire.CodeBadRequest, Object: "secret_env", Message: reason}
	}
	if len(names) > wire.MaxSecretEnv {
		return refuse(fmt.Sprintf("secret_env must have at most %d names", wire.MaxSecretEnv))
	}
	all, stored := make(map[string]string, len(env)+len(names)), box.Vault.Named()
	for _, name := range names {
		value, ok := stored[name]
		if !ok {
			return refuse("cannot use secret " + strconv.Quote(ShortName(name)) + ": unknown name")
		}
		all[name], hide = value, append(hide, ShownValue(value))
	}
	maps.Copy(all, env)
	return all, hide, nil
}

// CheckEnv refuses an environment that no program can be started with.
func CheckEnv(env map[string]string) *wire.Error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return envError("cannot run the command: the environment has an impossible name or value")
		}
	}
	return nil
}

func envError(text string) *wire.Error {
	return &wire.Error{Code: wire.CodeBadRequest, Object: "env", Message: text}
}

// maxEnvName bounds a name in a request's environment, in bytes.
const maxEnvName = 64

// PortableName reports whether a name is [A-Za-z_][A-Za-z0-9_]{0,63}.
func PortableName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return len(name) <= maxEnvName
}

// ShellArgv returns the arguments of a login shell that runs a text, as the contract
// says. If PATH is the agent's own, the text sets it again, since the files of login
// shells replace it.
func (box *Sandbox) ShellArgv(text string, env []string) []string {
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if box.OwnPath && i >= 0 {
		text = "PATH='" + strings.ReplaceAll(env[i][len("PATH="):], "'", `'\''`) + "'; " + text
	}
	return []string{"/bin/sh", "-lc", text}
}

// BaseEnv returns the base environment of a command in dir, with the variables that
// its request adds.
func (box *Sandbox) BaseEnv(dir string, own map[string]string) map[string]string {
	env := maps.Clone(box.Env)
	env["PWD"] = dir
	maps.Copy(env, own)
	return env
}

// SearchPath returns PATH of an environment, or the system's default if it has none.
func SearchPath(env map[string]string) string {
	if p, ok := env["PATH"]; ok {
		return p
	}
	return "/bin:/usr/bin"
}

// LookPath finds a program as execvp(3) does, but in the command's own PATH
// and relative to its own directory.
func LookPath(name, pathVar, dir string) (string, *wire.Error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	failed := unix.ENOENT
	for _, entry := range strings.Split(pathVar, ":") {
		candidate := path.Join(entry, name)
		if !path.IsAbs(candidate) {
			candidate = path.Join(dir, candidate)
		}
		var st unix.Stat_t
		if unix.Stat(candidate, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, candidate, unix.X_OK, unix.AT_EACCESS) == nil {
			return candidate, nil
		}
		failed = unix.EACCES
	}
	if failed == unix.EACCES {
		return "", StartError(name, dir, &clone.Error{Stage: clone.StageExec, Errno: failed})
	}
	return "", &wire.Error{Code: wire.CodeNotFound, Object: name, Errno: int(failed),
		Message: "cannot run " + name + ": not found in the sandbox's PATH",
		Hint:    "what a sandbox does not show, it does not find: make more visible with `mounts.ro` (see paddock plan)"}
}

// softOpenFiles is the usual soft limit; programs that need more raise it themselves.
const softOpenFiles = 1024

// Rlimits returns a command's limits: the stricter of those in the plan, for all
// commands, and those in the request, for this one.
func (box *Sandbox) Rlimits(l *wire.Limits) []clone.Rlimit {
	var open unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &open)
	open.Cur = min(softOpenFiles, open.Max)
	limits := []clone.Rlimit{{Resource: unix.RLIMIT_CORE}}
	set := func(resource int, values ...uint64) {
		value := strictest(values...)
		if value == 0 {
			return
		}
		var now unix.Rlimit
		_ = unix.Getrlimit(resource, &now)
		value = min(value, now.Max) // a limit that is lower already stays
		hard := value
		if resource == unix.RLIMIT_CPU && value < now.Max {
			hard++ // SIGXCPU at the soft limit tells the command the reason, SIGKILL ends it a second later
		}
		limits = append(limits, clone.Rlimit{Resource: resource, Limit: unix.Rlimit{Cur: value, Max: hard}})
	}
	if l == nil {
		l = &wire.Limits{}
	}
	all := box.Limits
	if l.OpenFiles == 0 && all.OpenFiles == 0 {
		limits = append(limits, clone.Rlimit{Resource: unix.RLIMIT_NOFILE, Limit: open})
	}
	set(unix.RLIMIT_NOFILE, all.OpenFiles, l.OpenFiles)
	set(unix.RLIMIT_CPU, all.CPUSeconds, l.CPUSeconds)
	set(unix.RLIMIT_FSIZE, all.FileSize, l.FileSizeBytes)
	set(unix.RLIMIT_NPROC, all.Processes, l.Processes)
	set(unix.RLIMIT_DATA, all.Data)
	set(unix.RLIMIT_AS, box.AddressSpace)
	return limits
}

// strictest returns the least of the values that are not 0.
func strictest(values ...uint64) (least uint64) {
	for _, v := range values {
		if v != 0 && (least == 0 || v < least) {
			least = v
		}
	}
	return least
}

// WorkingDirectory opens the cwd of a shell, so that the shell starts in the directory
// that was found, even if another takes its place meanwhile.
func (box *Sandbox) WorkingDirectory(text string) (Path, beneath.Dir, error) {
	p, werr := ParsePath(text)
	if werr != nil {
		return p, beneath.None, werr
	}
	dir, err := box.WorkspaceDir.Walk(p.Names)
	if err != nil {
		return p, beneath.None, FileError("open", p, err)
	}
	return p, dir, nil
}

// AsList returns an environment as sorted texts NAME=VALUE.
func AsList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}
