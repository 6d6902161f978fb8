package agent

import (
	"errors"
	"maps"
	"math"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// defaultTimeout is that of a command text that is not streamed.
	defaultTimeout = 30 * time.Second
	// defaultOutput and maxOutput bound a captured stream, in bytes.
	defaultOutput = 1 << 20
	maxOutput     = 8 << 20
)

// checkExec refuses what no exec can be made of.
func checkExec(r *wire.ExecRequest) *wire.Error {
	bad := func(object, reason string) *wire.Error {
		return &wire.Error{Code: wire.CodeBadRequest, Object: object, Message: "cannot run the command: " + reason}
	}
	switch {
	case r.Command != "" && len(r.Argv) > 0:
		return bad("argv", "both command and argv are given")
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return bad("argv", "its name is empty")
	case r.TimeoutSeconds != nil && !(*r.TimeoutSeconds >= 0 && *r.TimeoutSeconds <= math.MaxInt32):
		return bad("timeout_seconds", "timeout_seconds must be from 0 to 2147483647")
	case r.MaxOutputBytes < 0:
		return bad("max_output_bytes", "max_output_bytes must not be negative")
	case !r.Stream && r.MaxOutputBytes > maxOutput:
		return bad("max_output_bytes", "max_output_bytes must be at most 8388608 for captured output")
	case r.TTY != nil && !r.Stream:
		return bad("tty", "a terminal needs stream")
	case r.TTY != nil && r.Stdin != "", r.Stream && r.Stdin != "":
		return bad("stdin", "standard input of a streamed command comes in frames")
	case r.Encoding != "" && r.Encoding != "base64":
		return bad("encoding", `encoding must be "base64" or absent`)
	}
	for _, s := range append([]string{r.Command, r.Cwd}, r.Argv...) {
		if strings.IndexByte(s, 0) >= 0 {
			return bad("argv", "a NUL byte cannot be part of an argument or a path")
		}
	}
	return nil
}

// commandEnv is what a request adds to the base environment, by the portable
// names that the contract allows.
func commandEnv(env map[string]string) (map[string]string, *wire.Error) {
	clean := make(map[string]string, len(env))
	for name, value := range env {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			return nil, envError("secret name is required")
		case !portableName(name):
			return nil, envError("secret name is invalid")
		}
		clean[name] = value
	}
	return clean, checkEnv(clean)
}

// checkEnv refuses what no program can be given.
func checkEnv(env map[string]string) *wire.Error {
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

// maxEnvName is the length of a name in a request's environment.
const maxEnvName = 64

// portableName says whether a name is [A-Za-z_][A-Za-z0-9_]{0,63}.
func portableName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return len(name) <= maxEnvName
}

// command turns a checked request into what the spawner needs, standard
// streams aside.
func (box *sandbox) command(r *wire.ExecRequest) (*clone.Command, *wire.Error) {
	dir := box.directory(r.Cwd)
	env, err := box.environment(r, dir)
	if err != nil {
		return nil, err
	}
	c := &clone.Command{Dir: dir, Umask: 0o022, Argv: r.Argv, TTY: r.TTY != nil, Rlimits: box.rlimits(r.Limits)}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	sort.Strings(c.Env)
	if len(r.Argv) == 0 {
		c.Argv = box.shellArgv(r.Command, c.Env)
	}
	c.Path, err = lookPath(c.Argv[0], searchPath(env), dir)
	return c, err
}

// shellArgv runs shell text with an environment by a login shell, as the contract has
// it. Where PATH is our own the files of such shells do not take it away.
func (box *sandbox) shellArgv(text string, env []string) []string {
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if box.ownPath && i >= 0 {
		text = "PATH='" + strings.ReplaceAll(env[i][len("PATH="):], "'", `'\''`) + "'; " + text
	}
	return []string{"/bin/sh", "-lc", text}
}

// environment is a command's whole environment.
func (box *sandbox) environment(r *wire.ExecRequest, dir string) (map[string]string, *wire.Error) {
	if r.ClearEnv {
		return r.Env, checkEnv(r.Env)
	}
	own, err := commandEnv(r.Env)
	if err != nil {
		return nil, err
	}
	return box.baseEnv(dir, own), nil
}

// baseEnv is the base environment of a command in dir, with what its request
// lays over it.
func (box *sandbox) baseEnv(dir string, own map[string]string) map[string]string {
	env := maps.Clone(box.env)
	env["PWD"] = dir
	maps.Copy(env, own)
	return env
}

// directory is where a command runs. What is below /workspace in the request
// is in the workspace, whatever that is called.
func (box *sandbox) directory(cwd string) string {
	switch clean := path.Clean("/" + cwd); {
	case !path.IsAbs(cwd):
		return path.Join(box.workspace, cwd)
	case clean == "/workspace":
		return box.workspace
	case strings.HasPrefix(clean, "/workspace/"):
		return path.Join(box.workspace, strings.TrimPrefix(clean, "/workspace/"))
	default:
		return clean
	}
}

// searchPath is where programs are looked for: the system's default where the
// environment has no PATH at all.
func searchPath(env map[string]string) string {
	if p, ok := env["PATH"]; ok {
		return p
	}
	return "/bin:/usr/bin"
}

// lookPath finds a program as execvp(3) does, but in the command's own PATH
// and relative to its own directory.
func lookPath(name, pathVar, dir string) (string, *wire.Error) {
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
		return "", startError(name, dir, &clone.Error{Stage: clone.StageExec, Errno: failed})
	}
	return "", &wire.Error{Code: wire.CodeNotFound, Object: name, Errno: int(failed),
		Message: "cannot run " + name + ": not found in the sandbox's PATH",
		Hint:    "what a sandbox does not show, it does not find: make more visible with --ro (see paddock plan)"}
}

// startError types a failed clone by what the caller can do about it.
func startError(name, dir string, err error) *wire.Error {
	e := &wire.Error{Code: wire.CodeStart, Object: name, Message: "cannot run " + name + ": " + err.Error()}
	var failed *clone.Error
	if !errors.As(err, &failed) {
		return e
	}
	e.Errno = int(failed.Errno)
	switch {
	case failed.Stage == clone.StageDir:
		e.Code, e.Object = wire.CodeBadCwd, dir
		e.Message = "cannot use " + dir + " as working directory: " + failed.Errno.Error()
		e.Hint = "it is a path inside the sandbox, where the workspace is /workspace"
	case failed.Stage != clone.StageExec:
	case failed.Errno == unix.ENOENT || failed.Errno == unix.ENOTDIR:
		e.Code, e.Message = wire.CodeNotFound, "cannot run "+name+": "+failed.Errno.Error()
		e.Hint = "the file, or the interpreter that its first line names, is not visible in the sandbox"
	case failed.Errno == unix.E2BIG:
		e.Code, e.Message = wire.CodeNotExecutable, "cannot run "+name+": its arguments and environment are larger than the kernel takes"
	default:
		e.Code, e.Message = wire.CodeNotExecutable, "cannot run "+name+": "+failed.Errno.Error()
	}
	return e
}

// softOpenFiles is the usual soft limit; programs that need more raise it themselves.
const softOpenFiles = 1024

// rlimits are a command's limits: the stricter of what the plan says for all
// of them and what the request says for this one.
func (box *sandbox) rlimits(l *wire.Limits) []clone.Rlimit {
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
			hard++ // SIGXCPU at the soft limit tells a command why, SIGKILL ends it a second later
		}
		limits = append(limits, clone.Rlimit{Resource: resource, Limit: unix.Rlimit{Cur: value, Max: hard}})
	}
	if l == nil {
		l = &wire.Limits{}
	}
	all := box.limits
	if l.OpenFiles == 0 && all.OpenFiles == 0 {
		limits = append(limits, clone.Rlimit{Resource: unix.RLIMIT_NOFILE, Limit: open})
	}
	set(unix.RLIMIT_NOFILE, all.OpenFiles, l.OpenFiles)
	set(unix.RLIMIT_CPU, all.CPUSeconds, l.CPUSeconds)
	set(unix.RLIMIT_FSIZE, all.FileSize, l.FileSizeBytes)
	set(unix.RLIMIT_NPROC, all.Processes, l.Processes)
	set(unix.RLIMIT_DATA, all.Data)
	set(unix.RLIMIT_AS, box.addressSpace)
	return limits
}

// strictest is the least of the values that are not 0.
func strictest(values ...uint64) (least uint64) {
	for _, v := range values {
		if v != 0 && (least == 0 || v < least) {
			least = v
		}
	}
	return least
}

// timeout is how long a command may run, 0 for ever. What is less than a
// nanosecond is not for ever.
func timeout(r *wire.ExecRequest) time.Duration {
	if r.TimeoutSeconds != nil {
		return time.Duration(math.Ceil(*r.TimeoutSeconds * float64(time.Second)))
	}
	if r.Command != "" && !r.Stream {
		return defaultTimeout
	}
	return 0
}
