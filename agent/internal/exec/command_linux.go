package exec

import (
	"math"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// defaultTimeout is that of a command text that is not streamed.
	defaultTimeout = 30 * time.Second
	// defaultOutput bounds a captured stream where the request says nothing, in bytes.
	defaultOutput = 1 << 20
	// MaxOutput is the most that a request can ask for, in bytes.
	MaxOutput = 8 << 20
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
	case !r.Stream && r.MaxOutputBytes > MaxOutput:
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

// command turns a checked request into what the spawner needs, standard
// streams aside.
func command(box *core.Sandbox, r *wire.ExecRequest) (*clone.Command, *wire.Error) {
	dir := directory(box, r.Cwd)
	env, err := environment(box, r, dir)
	if err != nil {
		return nil, err
	}
	c := &clone.Command{Dir: dir, Umask: 0o022, Argv: r.Argv, TTY: r.TTY != nil, Rlimits: box.Rlimits(r.Limits)}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	sort.Strings(c.Env)
	if len(r.Argv) == 0 {
		c.Argv = box.ShellArgv(r.Command, c.Env)
	}
	c.Path, err = core.LookPath(c.Argv[0], core.SearchPath(env), dir)
	return c, err
}

// environment returns a command's whole environment.
func environment(box *core.Sandbox, r *wire.ExecRequest, dir string) (map[string]string, *wire.Error) {
	if r.ClearEnv {
		return r.Env, core.CheckEnv(r.Env)
	}
	own, err := core.CommandEnv(r.Env)
	if err != nil {
		return nil, err
	}
	return box.BaseEnv(dir, own), nil
}

// directory returns where a command runs. What is below /workspace in the request
// is in the workspace, whatever that is called.
func directory(box *core.Sandbox, cwd string) string {
	switch clean := path.Clean("/" + cwd); {
	case !path.IsAbs(cwd):
		return path.Join(box.Workspace, cwd)
	case clean == "/workspace":
		return box.Workspace
	case strings.HasPrefix(clean, "/workspace/"):
		return path.Join(box.Workspace, strings.TrimPrefix(clean, "/workspace/"))
	default:
		return clean
	}
}

// Timeout returns how long a command may run, 0 for ever. What is less than a
// nanosecond is not for ever.
func Timeout(r *wire.ExecRequest) time.Duration {
	if r.TimeoutSeconds != nil {
		return time.Duration(math.Ceil(*r.TimeoutSeconds * float64(time.Second)))
	}
	if r.Command != "" && !r.Stream {
		return defaultTimeout
	}
	return 0
}
