package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/internal/stdiomux"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Guest runs an agent behind a wall that gives it only a pipe: the
// handshake over standard input and output (wire.Guest), then connections over
// the same two, until standard input ends; then it ends all that runs. It is
// an ordinary process in any environment: process 1 of a container, a
// machine without /tmp, an account on another host.
//
// uploaded is the directory that the program was uploaded to, if it was: Guest removes
// the program and the directory at once. It returns the exit status.
func Guest(uploaded string) int {
	if uploaded != "" {
		_ = os.Remove(filepath.Join(uploaded, "paddock-agent"))
		_ = os.Remove(uploaded)
	}
	in, out, err := guestStreams()
	if err != nil {
		CannotStart(err)
		return ExitCannotStart
	}
	input := bufio.NewReader(in)
	line, err := wire.ReadLine(input, wire.MaxGuest)
	if err != nil {
		CannotStart(fmt.Errorf("cannot read the guest's line: %w", err))
		return ExitCannotStart
	}
	g, failed := decodeGuest(line)
	if g == nil {
		CannotStart(failed)
		return ExitCannotStart
	}
	ready := wire.GuestReady{Version: wire.Version, Build: wire.Build, PID: os.Getpid()}
	var a *Agent
	if failed == nil {
		a, failed = newGuest(g)
	}
	if failed != nil {
		ready.Failed = guestError(failed)
	} else {
		defer removeScratch(a.scratch)
		spawn.KeepThreads(g.Threads)
		ready.Workspace, ready.Seccomp = a.Workspace, a.isolation.Seccomp
	}
	if text, err := ready.AnswerLine(g.Nonce); err != nil {
		return ExitCannotStart
	} else if _, err := out.Write(text); err != nil || failed != nil {
		return ExitCannotStart
	}
	// The line's reader may have read the beginning of the connections.
	ln, err := stdiomux.Listen(struct {
		io.Reader
		io.Closer
	}{input, in}, out)
	if err != nil {
		CannotStart(err)
		return ExitCannotStart
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	gone := make(chan struct{})
	go func() {
		_ = a.serve(&untraceable{Listener: ln})
		close(gone)
	}()
	wire.Warm()
	select {
	case <-signals:
	case <-gone:
	}
	return a.endTrees()
}

// untraceable is a listener that makes the agent undumpable once the first connection
// has come. Until then the host side may inspect how the wall has confined the agent:
// the kernel shows namespaces(7) only of a process that may be traced.
type untraceable struct {
	net.Listener
	once sync.Once
}

// Accept waits for a connection.
func (u *untraceable) Accept() (net.Conn, error) {
	conn, err := u.Listener.Accept()
	u.once.Do(func() {
		if derr := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); derr != nil && err == nil {
			_ = conn.Close()
			conn, err = nil, derr
		}
	})
	return conn, err
}

// guestStreams moves standard input and output to other descriptors, which nothing
// else uses.
func guestStreams() (in, out *os.File, err error) {
	for i, file := range []**os.File{&in, &out} {
		if _, err := unix.IoctlGetTermios(i, unix.TCGETS); err == nil {
			return nil, nil, core.WithHint(errors.New("standard input or output is a terminal, which changes what passes"), "let the wall give a plain pipe: without -t, say")
		}
		fd, err := unix.FcntlInt(uintptr(i), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot use descriptor %d: %w", i, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT == unix.S_IFIFO || st.Mode&unix.S_IFMT == unix.S_IFSOCK) {
			_ = unix.SetNonblock(fd, true) // so that no processor waits in it
		}
		*file = os.NewFile(uintptr(fd), "pipe")
	}
	// Code that prints by mistake must not break the pipe.
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Dup3(null, 0, 0)
		_ = unix.Dup3(2, 1, 0)
		_ = unix.Close(null)
	}
	return in, out, nil
}

// decodeGuest decodes the line. For a line of another release it returns an error, and
// a Guest with the nonce to answer with.
func decodeGuest(line []byte) (*wire.Guest, error) {
	g, err := wire.DecodeGuest(line)
	switch {
	case err == nil && g.Build != "" && wire.Build != "" && g.Build != wire.Build:
		return g, core.WithHint(fmt.Errorf("the host side is build %s, this agent %s", g.Build, wire.Build), sameRelease)
	case err == nil:
		return g, nil
	}
	var head struct {
		Version int    `json:"version"`
		Build   string `json:"build"`
		Nonce   string `json:"nonce"`
	}
	if json.Unmarshal(line, &head) != nil || head.Nonce == "" {
		return nil, fmt.Errorf("cannot read the guest's line: %w", err)
	}
	err = fmt.Errorf("cannot read the guest's line: %w", err)
	if head.Build != wire.Build {
		err = core.WithHint(fmt.Errorf("the host side is build %s, this agent %s", head.Build, wire.Build), sameRelease)
	}
	return &wire.Guest{Nonce: head.Nonce}, err
}

// guestError returns an error as it crosses the wire.
func guestError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	e = &wire.Error{Message: err.Error(), Code: wire.CodeFailed}
	var h core.HintError
	if errors.As(err, &h) {
		e.Hint = h.Hint
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	return e
}

// newGuest makes the agent that a guest's line describes.
func newGuest(g *wire.Guest) (*Agent, error) {
	if err := prepareProcess(false); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // see untraceable
		return nil, err
	}
	if _, err := spawn.DevNull(); err != nil {
		return nil, core.WithHint(fmt.Errorf("cannot open %s, with which commands begin: %w", os.DevNull, err), "the wall must show a /dev with the usual devices")
	}
	env, err := baseEnvironment(nil)
	if err != nil {
		return nil, err
	}
	for name, value := range g.Env {
		env[name] = value
	}
	if werr := core.CheckEnv(g.Env); werr != nil {
		return nil, werr
	}
	r := g.Rlimits
	box := &core.Sandbox{Env: env, OwnPath: true, AddressSpace: r.AddressSpace,
		Limits: confine.Rlimits{CPUSeconds: r.CPUSeconds, FileSize: r.FileSize, OpenFiles: r.OpenFiles, Processes: r.Processes, Data: r.Data}}
	rules := make([]policy.Redaction, len(g.Redaction))
	for i, rule := range g.Redaction {
		rules[i] = policy.Redaction(rule)
	}
	if box.Rules, err = redact.Compile(nil, rules); err != nil {
		return nil, fmt.Errorf("cannot redact: %w", err)
	}
	var isolation policy.Isolation
	if len(g.Isolation) > 0 {
		if err := json.Unmarshal(g.Isolation, &isolation); err != nil {
			return nil, fmt.Errorf("cannot read what isolates it: %w", err)
		}
	}
	isolation.Seccomp = g.Seccomp
	scratch := guestScratch(string(g.State))
	a, err := openGuest(g, box, scratch)
	if err != nil {
		removeScratch(scratch)
		return nil, err
	}
	if g.Passage != nil {
		err = passSockets(*g.Passage)
	}
	if err == nil {
		box.Spawner, err = startGuestSpawner(g)
	}
	if err != nil {
		removeScratch(scratch)
		return nil, err
	}
	box.Reaper, box.Trees = box.Spawner.Reaper, box.Spawner.Trees
	a.isolation, a.scratch = isolation, scratch
	return a, nil
}

// passSockets makes sockets in the network namespace that commands will have, and passes them
// to the host side. It keeps none, so nobody here can ever use one.
func passSockets(p wire.GuestPassage) error {
	var sockets []int
	defer func() {
		for _, fd := range sockets {
			_ = unix.Close(fd)
		}
	}()
	for i := range p.Sockets {
		kind := unix.SOCK_STREAM
		if i == 0 {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("cannot make sockets for hosts by name: %w", err)
		}
		sockets = append(sockets, fd)
	}
	const hint = "the engine must run on this machine, and let containers connect to a mounted socket: a virtual machine in between, or a security module, does not"
	to, err := net.DialTimeout("unix", p.Path, passTime)
	if err != nil {
		return core.WithHint(fmt.Errorf("cannot pass sockets for hosts by name to the host side: %w", core.CauseOf(err)), hint)
	}
	defer to.Close()
	file, err := to.(*net.UnixConn).File()
	if err == nil {
		defer file.Close()
		err = confine.SendFiles(file, sockets)
	}
	if err == nil {
		_, err = file.Write([]byte{'\n'})
	}
	if err != nil {
		return core.WithHint(fmt.Errorf("cannot pass sockets for hosts by name to the host side: %w", err), hint)
	}
	return nil
}

// passTime is how long the host side may take to accept a connection: it waits for it.
const passTime = 5 * time.Second

// openGuest opens the workspace and the agent's own directories. The latter are below
// scratch if that is not empty.
func openGuest(g *wire.Guest, box *core.Sandbox, scratch string) (_ *Agent, err error) {
	box.Workspace = string(g.Workspace)
	if box.Workspace == "" {
		if scratch == "" {
			return nil, core.WithHint(errors.New("there is no directory in which a workspace could be made"), "name one: wrapper.workspace")
		}
		box.Workspace = filepath.Join(scratch, "workspace")
		g.MakeWorkspace = true
	}
	if st, err := os.Stat(box.Workspace); !g.MakeWorkspace && (err != nil || !st.IsDir()) {
		if err == nil {
			err = unix.ENOTDIR
		}
		return nil, core.WithHint(fmt.Errorf("cannot use the workspace %s: %w", box.Workspace, core.CauseOf(err)), "the wall must show it under this path, and let it be changed")
	}
	if box.WorkspaceDir, err = core.OpenWorkspace(box.Workspace); err != nil {
		return nil, err
	}
	state, secrets := core.StateBelow(scratch, "shells", "services"), filepath.Join(scratch, "secrets")
	if scratch == "" {
		none := func() (beneath.Dir, error) {
			return beneath.None, errors.New("there is no directory that can be written to")
		}
		state, secrets = []core.StateDir{none, none}, "/nonexistent/paddock-secrets"
	}
	if g.Secrets != "" {
		secrets = string(g.Secrets)
	}
	root := files.SecretsAt(secrets, &box.Vault)
	root.Shown = secrets
	return newAgent(box, &files.Workspace{Dir: box.WorkspaceDir}, root, state[0], state[1]), nil
}

// guestScratch makes a private directory for the agent's own files in the first
// writable place. It returns "" if no place is writable.
func guestScratch(state string) string {
	places := []string{state}
	if state == "" {
		places = []string{os.Getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", "/run"}
	}
	for _, dir := range places {
		if !filepath.IsAbs(dir) {
			continue
		}
		if made, err := os.MkdirTemp(dir, "paddock-guest-"); err == nil { // with mode 0700
			return made
		}
	}
	return ""
}

// removeScratch removes the agent's own files.
func removeScratch(dir string) {
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

// startGuestSpawner starts the spawner of commands: set-id programs give them no
// privileges, they hold no capabilities, and a filter denies system calls that work
// does not need.
func startGuestSpawner(g *wire.Guest) (*spawn.Spawner, error) {
	profile, capless := g.Seccomp, g.Seccomp != wire.NoFilter && !g.KeepCapabilities
	plan := &confine.Plan{Holds: policy.Isolation{Seccomp: profile, Cgroup: "none"}}
	if profile != wire.NoFilter {
		plan.Spawn = []confine.Step{{Do: confine.OpNoNew}}
		if capless { // the agent keeps the capabilities that the wall has left to root, commands do not
			plan.Spawn = append(plan.Spawn, confine.Step{Do: confine.OpCaps, Flags: []string{confine.FlagBounding}})
		}
		if g.KernelFiles {
			step, err := kernelFiles()
			if err != nil {
				return nil, err
			}
			plan.Spawn = append(plan.Spawn, step)
		}
		for _, name := range []string{confine.FilterAgent, confine.FilterCommands} {
			step := confine.Step{Do: confine.OpSeccomp, Source: name, Flags: []string{confine.FlagAllThreads}}
			options := confine.FilterOptions{}
			if name == confine.FilterCommands {
				options = confine.FilterOptions{Profile: profile, Notify: true}
				step.Flags = []string{confine.FlagNotify}
			}
			var err error
			if step.Data, err = confine.Filter(name, options); err != nil {
				return nil, fmt.Errorf("cannot make the commands' filter: %w", err)
			}
			plan.Spawn = append(plan.Spawn, step)
		}
	}
	s, _, failed := spawn.Start(plan, nil)
	if failed == nil {
		s.Expendable, s.Capless = true, capless
		return s, nil
	}
	err := fmt.Errorf("cannot start commands: %s", failed.Cause)
	if failed.Errno != 0 {
		err = fmt.Errorf("cannot confine commands: %s: %w", failed.Op, unix.Errno(failed.Errno))
	}
	if failed.Hint != "" {
		err = core.WithHint(err, failed.Hint)
	}
	return nil, err
}

// kernelFiles returns the step that keeps commands from writing below /proc and
// /sys. The files there check the uid and not capabilities: a process that is root on
// the host, even without any capability, may write what the kernel executes.
// Landlock has no exceptions, so the step names everything else.
func kernelFiles() (confine.Step, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return confine.Step{}, fmt.Errorf("cannot keep commands from the kernel's files: %w", err)
	}
	rules := []confine.PathRule{{Path: "/", Access: confine.AccessExec}}
	for _, e := range entries {
		name := path.Join("/", e.Name())
		if info, err := os.Stat(name); err != nil || name == "/proc" || name == "/sys" || !info.IsDir() {
			continue
		}
		rules = append(rules, confine.PathRule{Path: name, Access: confine.AccessAll})
	}
	return confine.Step{Do: confine.OpLandlock, Rules: rules}, nil
}
