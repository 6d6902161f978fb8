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
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/listen"
	"github.com/paddock-dev/paddock/agent/internal/shell"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// DefaultListen is the address that an agent serves on without --listen.
const DefaultListen = "vsock://:5005"

// ExitCannotStart is the exit status of an agent that could not start.
const ExitCannotStart = 125

// Config configures an agent that was not started by a backend, and that runs in a virtual
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
	// TokenFile, if not empty, holds the secret that each request must bring.
	TokenFile string
	// InsecureLoopback allows TCP without a token, on a loopback address.
	InsecureLoopback bool
	// VsockCIDs are the peers that may connect over vsock. Default: the host
	// and the hypervisor.
	VsockCIDs []uint32
	// Env holds NAME=VALUE texts, which are added to the commands' base environment.
	Env []string
	// Init makes the agent the init of a machine: it mounts missing file systems
	// and powers off at its end.
	Init bool
}

// Standalone serves until a signal, a client or the end of a listener ends it. It
// returns the exit status.
func Standalone(c Config) int {
	a, err := newStandalone(c)
	if err == nil {
		err = a.listen(c)
	}
	if err != nil {
		CannotStart(err)
		return ExitCannotStart
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(signals, unix.SIGHUP)
	}
	failed := make(chan error, len(a.standalone.listeners))
	for _, ln := range a.standalone.listeners {
		go func() { failed <- a.serve(ln) }()
	}
	wire.Warm()
	select {
	case <-signals:
	case err := <-failed:
		if err != nil {
			fmt.Fprintf(os.Stderr, "paddock-agent: cannot listen any longer: %v\n", err)
		}
	case <-a.standalone.ending:
	}
	a.end()
	a.connections.awaitQuiet(answerGrace)
	if c.Init { // power the machine off or, in a pid namespace, end its processes
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	return 0
}

// answerGrace is how long clients may take to read their last answers.
const answerGrace = 2 * time.Second

// CannotStart reports on standard error why an agent did not start.
func CannotStart(err error) {
	fmt.Fprintf(os.Stderr, "paddock-agent: cannot start: %v\n", err)
	if h, ok := err.(core.HintError); ok { //nolint:errorlint // it is never wrapped
		fmt.Fprintf(os.Stderr, "paddock-agent: hint: %s\n", h.Hint)
	}
}

func newStandalone(c Config) (*Agent, error) {
	if err := prepareProcess(c.Init); err != nil {
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
	a.token, a.standalone = token, &standalone{ending: make(chan struct{})}
	return a, nil
}

// prepareProcess sets up the process for an agent without walls.
func prepareProcess(asInit bool) error {
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
	signal.Ignore(unix.SIGPIPE) // standard output and standard error may be broken connections
	return nil
}

// listen opens the listeners, all or none.
func (a *Agent) listen(c Config) (err error) {
	defer func() {
		if err != nil {
			a.standalone.close()
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
		a.standalone.listeners = append(a.standalone.listeners, ln)
	}
	return nil
}

// readToken reads the token from a file, nil without one.
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

// baseEnvironment returns the base environment of commands without walls. It contains
// no variable of the agent's own environment.
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
			return nil, core.WithHint(fmt.Errorf("invalid environment variable %q", text), "write --env NAME=VALUE")
		}
		env[name] = value
	}
	return env, nil
}

// account returns the name, home and shell of a uid by /etc/passwd. For users from
// another database, --env sets them.
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

// mountMissing mounts the file systems that programs expect of a machine. What is
// mounted already is left alone.
func mountMissing() error {
	for _, m := range []struct {
		target, kind, data string
		flags              uintptr
		missing            func(path string) bool
	}{
		{"/proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, func(string) bool { return !spawn.ShowsSelf() }},
		{"/sys", "sysfs", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, isEmpty},
		{"/dev", "devtmpfs", "mode=0755", unix.MS_NOSUID, lacks("null")},
		{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5", unix.MS_NOSUID | unix.MS_NOEXEC, lacks("ptmx")},
		{"/dev/shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV, isBare},
		{"/run", "tmpfs", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV, isBare},
		{"/tmp", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV, isBare},
	} {
		if !m.missing(m.target) {
			continue
		}
		_ = os.MkdirAll(m.target, 0o755) // if it fails, so does the mount
		if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
	}
	return nil
}

func isEmpty(path string) bool {
	names, err := os.ReadDir(path)
	return err != nil || len(names) == 0
}

func lacks(name string) func(string) bool {
	return func(path string) bool {
		_, err := os.Lstat(path + "/" + name)
		return err != nil
	}
}

// isBare reports whether a directory is empty and on the file system of its
// parent, so that a mount hides nothing.
func isBare(path string) bool {
	var st, parent unix.Stat_t
	if !isEmpty(path) {
		return false
	}
	if unix.Stat(path, &st) != nil || unix.Stat(path+"/..", &parent) != nil {
		return true
	}
	return st.Dev == parent.Dev
}
