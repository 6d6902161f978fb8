package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// client is the engine's command line.
type client struct {
	binary string // absolute
	name   string // as the user wrote it
	env    []string
}

// patience is how long an engine may take to answer one command.
const patience = 30 * time.Second

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 4 << 20

// clientEnv returns those variables of an environment that the engine's command line gets.
func clientEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(state.EngineVariables, name) {
			env = append(env, kv)
		}
	}
	return env
}

// findClient finds the command line that a spec names. It refuses one that commands of a
// sandbox could have written, by the list in a state directory, or can write through
// these mounts.
func findClient(o policy.Docker, state string, mounts []hostpath.Mount) (*client, error) {
	name := o.Binary
	if name == "" {
		name = "docker"
	}
	found, err := exec.LookPath(name)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return nil, &backend.StartError{Stage: "engine", Op: "find", Object: name,
			Cause: fmt.Sprintf("Docker execution policy requires the '%s' CLI to be installed and available on PATH.", name),
			Hint:  "install docker, podman or nerdctl, or name the program with `docker.binary`"}
	}
	if err := hostpath.Program("engine", state, name, found, mounts); err != nil {
		return nil, err
	}
	env := clientEnv(os.Environ())
	for i, kv := range env { // engines find their helpers in PATH
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + hostpath.SearchPath(state, list, mounts)
		}
	}
	return &client{binary: found, name: name, env: env}, nil
}

// value returns a variable of the client's environment.
func (c *client) value(name string) string {
	for _, kv := range c.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// answerError is the error of an engine's command that failed.
type answerError struct {
	op     string // "inspect", "info"
	stderr string
	err    error
}

func (e *answerError) Error() string {
	if e.stderr != "" {
		return e.stderr
	}
	return e.err.Error()
}

func (e *answerError) Unwrap() error { return e.err }

// ask runs the command line and returns its output. Time and size are bounded. It runs
// in a new session, so that no key at the caller's terminal ends it.
func (c *client) ask(ctx context.Context, args ...string) ([]byte, error) {
	return c.askWithin(ctx, patience, maxAnswer, args...)
}

func (c *client) askWithin(ctx context.Context, limit time.Duration, most int, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	stdout, stderr := text.Head{Max: most}, text.Head{Max: 16 << 10}
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, &stdout, &stderr
	cmd.Dir = "/" // where no file that commands wrote says which version a shim runs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && stdout.Truncated:
		err = errors.New("the answer is too long")
	}
	if err != nil {
		return nil, &answerError{op: args[0], stderr: lastWords(stderr.Bytes()), err: err}
	}
	return stdout.Bytes(), nil
}

// lastWords returns, as one printable line, the part of a client's output that says why it
// failed: engines print warnings first and advice last.
func lastWords(printed []byte) string {
	said := ""
	for line := range strings.Lines(string(printed)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "See '") || strings.HasPrefix(line, "Run '") || strings.Contains(line, "level=warning") {
			continue
		}
		if said == "" || !strings.HasPrefix(said, "Error") && !strings.HasPrefix(said, "Cannot") && !strings.HasPrefix(said, "docker: ") {
			said = line
		}
	}
	return text.Truncate(text.Printable(said, ' '), 400)
}

// fail returns the StartError of a command that failed, with what to do about it.
func (c *client) fail(op, object string, err error) *backend.StartError {
	return &backend.StartError{Stage: "engine", Op: op, Object: object, Cause: err.Error(), Hint: c.remedy(err.Error())}
}

// remedy returns what to do about an engine's error message, or "".
func (c *client) remedy(said string) string {
	lower := strings.ToLower(said)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
	}
	switch {
	case has("permission denied") && has("connect", "socket", "dial unix"):
		return "the engine's socket is for others: join the group that owns it (which makes one as mighty as root), or use a rootless engine"
	case has("cannot connect", "is the docker daemon running", "connection refused", "no such file or directory: connect", "error during connect", "failed to connect", "no route to host", "i/o timeout"):
		return "start the engine, or say where it is with DOCKER_HOST or DOCKER_CONTEXT (podman: CONTAINER_HOST)"
	case has("no answer within"):
		return "the engine does not answer: look at it, or start it again"
	case has("operation not permitted") && has("rlimit", "prlimit"):
		return `the engine asks for resource limits that this host forbids: set lower ones, extra_run_args: ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"] say`
	case has("hybrid mode not supported"):
		return "this host's control groups are too old for the engine's runtime: choose another one, runc say"
	case has("newuidmap", "newgidmap", "subuid"):
		return "a rootless engine needs a range of ids: add one for the user to /etc/subuid and /etc/subgid"
	}
	return ""
}
