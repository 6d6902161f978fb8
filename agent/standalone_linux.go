package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/listen"
	"github.com/paddock-dev/paddock/agent/internal/shell"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// DefaultListen is where an agent serves without --listen.
const DefaultListen = "vsock://:5005"

// ExitCannotStart is the exit status of an agent that could not start.
const ExitCannotStart = 125

// Config says how an agent that no backend started serves: in a virtual
// machine or a container, or as an ordinary process. It builds no walls.
type Config struct {
	// Listen is where to serve: vsock://[:PORT], virtio://PORT, unix:///PATH,
	// tcp://HOST:PORT, fd://N (an inherited listening descriptor) or stdio.
	Listen []string
	// Workspace is the directory that clients know as /workspace.
	Workspace string
	// ShellRoot, ServiceRoot and SecretRoot are where the agent keeps the
	// state of shells and services, and the secrets.
	ShellRoot, ServiceRoot, SecretRoot string
	// TokenFile, where not empty, holds the secret that each request must bring.
	TokenFile string
	// InsecureLoopback allows TCP without a token, on a loopback address.
	InsecureLoopback bool
	// VsockCIDs are the peers that may connect over vsock. Default: the host
	// and the hypervisor.
	VsockCIDs []uint32
	// Env holds NAME=VALUE texts, laid over the commands' base environment.
	Env []string
	// Init makes the agent the init of a machine: it mounts what is missing
	// and powers off at its end.
	Init bool
}

// Standalone serves until a signal, a client or a listener ends it. It returns the
// exit status.
func Standalone(c Config) int {
	a, err := newStandalone(c)
	if err == nil {
		err = a.open(c)
	}
	if err != nil {
		CannotStart(err)
		return ExitCannotStart
	}
	a.live()
	if c.Init {
		powerOff()
	}
	return 0
}

// CannotStart reports on standard error why an agent did not start.
func CannotStart(err error) {
	fmt.Fprintf(os.Stderr, "paddock-agent: cannot start: %v\n", err)
	if h, ok := err.(core.HintError); ok { //nolint:errorlint // it is never wrapped
		fmt.Fprintf(os.Stderr, "paddock-agent: hint: %s\n", h.Hint)
	}
}

func newStandalone(c Config) (*Agent, error) {
	if err := settle(c.Init); err != nil {
		return nil, err
	}
	env, err := baseEnvironment(c.Env)
	if err != nil {
		return nil, err
	}
	token, err := readToken(c.TokenFile)
	if err != nil {
		return nil, err
	}
	if c.Workspace, err = filepath.Abs(c.Workspace); err != nil {
		return nil, err
	}
	dir, err := core.OpenWorkspace(c.Workspace)
	if err != nil {
		return nil, err
	}
	var state [3]beneath.Dir
	for i, root := range []*string{&c.ShellRoot, &c.ServiceRoot, &c.SecretRoot} {
		if *root, err = filepath.Abs(*root); err != nil {
			return nil, err
		}
		if state[i], err = core.OpenState(*root); err != nil {
			return nil, err
		}
	}
	shell.Sweep(state[0])
	_ = state[2].Close() // each set of secrets is another directory
	files.SecretsAt(c.SecretRoot, nil).Sweep()
	s, failed := spawn.StartBare()
	if failed != nil {
		err := errors.New(failed.Cause)
		if failed.Hint != "" {
			err = core.WithHint(err, failed.Hint)
		}
		return nil, err
	}
	box := &core.Sandbox{
		Spawner:      s,
		Reaper:       s.Reaper,
		Trees:        s.Trees,
		Env:          env,
		Workspace:    c.Workspace,
		WorkspaceDir: dir,
	}
	a := newAgent(box, &files.Workspace{Dir: dir}, files.SecretsAt(c.SecretRoot, &box.Vault), core.StateAt(state[0]), core.StateAt(state[1]))
	a.token, a.life = token, &life{ending: make(chan struct{})}
	return a, nil
}

// settle makes the process one that an agent can be.
func settle(asInit bool) error {
	if asInit {
		if os.Getpid() != 1 {
			return core.WithHint(fmt.Errorf("--init is for process 1, and this is process %d", os.Getpid()),
				"start it as the machine's init (init=… on the kernel's command line), or leave --init out")
		}
		if err := mountMissing(); err != nil {
			return err
		}
	}
	// Commands run as the agent's own user: they must not read its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the commands' subreaper: %w", err)
	}
	unix.Umask(0o022)
	runtime.GOMAXPROCS(1)       // see manyProcessors
	signal.Ignore(unix.SIGPIPE) // standard output may be a connection, and error output one that broke
	return nil
}

// open opens the listeners, all or none.
func (a *Agent) open(c Config) (err error) {
	defer func() {
		if err != nil {
			a.life.close()
		}
	}()
	if len(c.Listen) == 0 {
		c.Listen = []string{DefaultListen}
	}
	for _, address := range c.Listen {
		ln, err := listen.Open(address, &listen.Options{HasToken: c.TokenFile != "", InsecureLoopback: c.InsecureLoopback, VsockCIDs: c.VsockCIDs})
		if err != nil {
			return err
		}
		a.life.listeners = append(a.life.listeners, ln)
	}
	return nil
}

// live serves until a signal, a listener's end or a client ends the agent.
func (a *Agent) live() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(signals, unix.SIGHUP)
	}
	failed := make(chan error, len(a.life.listeners))
	for _, ln := range a.life.listeners {
		go func() { failed <- a.serve(ln) }()
	}
	wire.Warm()
	select {
	case <-signals:
	case err := <-failed:
		if err != nil {
			fmt.Fprintf(os.Stderr, "paddock-agent: cannot listen any longer: %v\n", err)
		}
	case <-a.life.ending:
	}
	a.end()
	a.connections.settle(lastWords)
}

// readToken reads the secret of a token file.
func readToken(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if token == "" {
		return nil, core.WithHint(fmt.Errorf("the token in %s is empty", path), "head -c 32 /dev/urandom | base64 > "+path)
	}
	return []byte(token), nil
}

// baseEnvironment returns what commands of an agent without walls start with.
// Nothing of the agent's own environment reaches them.
func baseEnvironment(extra []string) (map[string]string, error) {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG": "C.UTF-8",
	}
	env["USER"], env["HOME"], env["SHELL"] = account(os.Geteuid())
	env["LOGNAME"] = env["USER"]
	for _, text := range extra {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.IndexByte(text, 0) >= 0 {
			return nil, core.WithHint(fmt.Errorf("%q is no environment variable", text), "write --env NAME=VALUE")
		}
		env[name] = value
	}
	return env, nil
}

// account returns the name, home and shell of a uid by /etc/passwd. Users from
// elsewhere need --env.
func account(uid int) (name, home, shell string) {
	name, home, shell = strconv.Itoa(uid), "/", "/bin/sh"
	if uid == 0 {
		name, home = "root", "/root"
	}
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return name, home, shell
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, 1<<20))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) != 7 || f[2] != strconv.Itoa(uid) || f[0] == "" {
			continue
		}
		name = f[0]
		if f[5] != "" {
			home = f[5]
		}
		if f[6] != "" {
			shell = f[6]
		}
		break
	}
	return name, home, shell
}
