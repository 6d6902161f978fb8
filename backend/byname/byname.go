//go:build linux

// Package byname starts the egress process of a sandbox whose network has rules, and ends it.
// Backends hand it sockets of the sandbox's own; how they get them is theirs to know.
package byname

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Process is the running egress process of a sandbox. The methods of a nil Process say that
// there is none.
type Process struct {
	program string
	dir     *state.Dir
	pid     int
	pidfd   int
	control *os.File
	done    chan struct{} // closed when it has ended and was reaped
	failed  error         // why its program was not executed, final with done
}

// mostData bounds the memory of an egress process, in bytes, whatever its own bounds miss: several
// times what the most connections take that one can have. Beyond it the process ends, and with it the
// way out.
const mostData = 768 << 20

// Start starts the egress process of the sandbox with this directory. It is confined before its
// program begins: another user's identity if the caller is root, which comes with the id that
// was lent to the sandbox (0: none, and the caller's own); no capabilities, no_new_privs, and a
// Landlock domain in which it can read what names are resolved with. It confines itself further
// once it has everything it needs. It waits for its sockets ([Process.Serve]).
//
// With a keeper the process is the keeper's child.
func Start(keeper *keep.Keeper, program string, dir *state.Dir, lent uint32) (*Process, error) {
	exe, err := keep.OpenProgram(program, "set PADDOCK_EGRESS to the path of paddock-egress, or keep it beside paddock-agent")
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	channels, err := dir.EgressChannels()
	if err != nil {
		return nil, err
	}
	defer channels.CloseTheirs()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, backend.Failed("egress", "open", os.DevNull, err, "")
	}
	defer null.Close()
	c := &clone.Command{
		Path: fmt.Sprintf("/proc/self/fd/%d", exe.Fd()),
		Argv: []string{"paddock-egress"},
		// It is one process for each sandbox, and gives memory back when it has nothing to do.
		Env:           []string{"GOMAXPROCS=2", "GOGC=100", "GOMEMLIMIT=24MiB", "GODEBUG=netdns=go"},
		Dir:           "/",
		Room:          2 * egress.Stock, // it gets the sockets of a gateway
		Rlimits:       []clone.Rlimit{{Resource: unix.RLIMIT_CORE}, {Resource: unix.RLIMIT_DATA, Limit: unix.Rlimit{Cur: mostData, Max: mostData}}},
		DieWithThread: true,
		NoCaps:        true,
		NoNewPrivs:    true,
	}
	if lent != 0 { // the caller is root: another id of this sandbox's alone
		c.UID = int(lent) + state.LentCount
		c.GID = c.UID
	}
	files := []*os.File{null, null, channels.Log, channels.Theirs, channels.Listen}
	if confine.LandlockABI() >= confine.LandlockFilesABI {
		ruleset, err := confine.Ruleset(egressReads(program))
		if err != nil {
			_ = channels.Control.Close()
			return nil, backend.Failed("egress", "landlock", "", err, "")
		}
		defer ruleset.Close()
		files = append(files, ruleset)
	}
	var own []int
	defer func() {
		for _, fd := range own {
			_ = unix.Close(fd)
		}
	}()
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, keep.FirstOwn)
		if err != nil {
			_ = channels.Control.Close()
			return nil, backend.Failed("egress", "prepare descriptors", "", err, "")
		}
		own = append(own, fd)
	}
	c.Files = own
	if len(c.Files) > egress.ListenFD+1 {
		c.Landlock, c.Files = c.Files[egress.ListenFD+1], c.Files[:egress.ListenFD+1]
	}
	p := &Process{program: program, dir: dir, control: channels.Control, done: make(chan struct{})}
	started := make(chan error)
	go p.run(keeper, c, exe, started)
	if err := <-started; err != nil {
		_ = p.control.Close()
		return nil, startError(err)
	}
	return p, nil
}

// run starts the process on a thread that lives as long as it does: its parent-death signal
// is tied to the thread.
func (p *Process) run(keeper *keep.Keeper, c *clone.Command, exe *os.File, started chan<- error) {
	runtime.LockOSThread()
	child, err := keep.Begin(keeper, c, 0, exe)
	if err == nil {
		if err = child.Release(); err != nil {
			child.End()
		}
	}
	if err != nil {
		started <- err
		return
	}
	p.pidfd, p.pid = child.PIDFD, child.PID
	started <- nil
	if err := child.Wait(); err != nil {
		p.failed = startError(err)
	}
	if _, ours := child.Reap(); ours {
		close(p.done)
	}
}

// egressReads returns what the egress process may read: how names are resolved here, whom
// certificates are trusted from, and itself, with libraries if it was not built statically.
func egressReads(program string) []confine.PathRule {
	var rules []confine.PathRule
	for _, path := range []string{program, "/lib", "/lib64", "/usr/lib", "/usr/lib64"} {
		rules = append(rules, confine.PathRule{Path: path, Access: confine.AccessExec})
	}
	for _, path := range []string{"/etc", "/usr/share/ca-certificates"} {
		rules = append(rules, confine.PathRule{Path: path, Access: confine.AccessRead})
	}
	if at, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !strings.HasPrefix(at, "/etc/") {
		rules = append(rules, confine.PathRule{Path: filepath.Dir(at), Access: confine.AccessRead}) // the file is replaced by another one
	}
	return rules
}

// readyTimeout bounds how long the egress process may take until it serves.
const readyTimeout = 20 * time.Second

// Serve hands over the sockets in which the sandbox's connections arrive, and what order says of
// rules, and of the addresses that stand for names there. It returns when names are answered.
func (p *Process) Serve(ctx context.Context, order egress.Config, sockets []int) error {
	_ = p.control.SetDeadline(time.Now().Add(readyTimeout))
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	ready, err := p.handOver(order, sockets)
	switch {
	case err != nil && ctx.Err() != nil, err == nil && !stop():
		return backend.Interrupted(ctx, "egress", "the egress process")
	case err != nil:
		return p.explain(err)
	case ready.Error != nil:
		return backend.Failed("egress", "serve", "", ready.Error, ready.Error.Hint)
	case ready.Build != "" && wire.Build != "" && ready.Build != wire.Build:
		return backend.Failed("egress", "build", p.program, fmt.Errorf("it is build %s, and the host side %s", ready.Build, wire.Build), "install paddock and paddock-egress from one release")
	}
	return p.control.SetDeadline(time.Time{})
}

func (p *Process) handOver(order egress.Config, sockets []int) (ready egress.Ready, err error) {
	order.Network.Publish = nil // the host side listens for those itself
	order.Build, order.Sockets, order.Proxy = wire.Build, len(sockets), map[string]string{}
	for _, name := range []string{"HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} {
		for _, name := range []string{strings.ToLower(name), name} {
			if value := os.Getenv(name); value != "" {
				order.Proxy[strings.ToUpper(name)] = value
			}
		}
	}
	line, err := json.Marshal(order)
	if err != nil {
		return ready, err
	}
	if _, err := p.control.Write(append(line, '\n')); err != nil {
		return ready, err
	}
	if err := confine.SendFiles(p.control, sockets); err != nil {
		return ready, err
	}
	if _, err := p.control.Write([]byte{'\n'}); err != nil {
		return ready, err
	}
	answer, err := bufio.NewReaderSize(p.control, 64<<10).ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(answer, &ready)
	}
	return ready, err
}

// explain says why the process did not answer.
func (p *Process) explain(err error) error {
	select {
	case <-p.done:
		if p.failed != nil {
			return p.failed
		}
	case <-time.After(time.Second):
	}
	if line, _, _ := strings.Cut(p.dir.EgressLog(), "\n"); line != "" {
		err = errors.New(line)
	}
	return backend.Failed("egress", "await the egress process", p.program, err, "is it the paddock-egress of this release?")
}

// DialSSHAgent connects to the SSH agent of the caller. The egress process, which gets the
// connection, has another identity and could not.
func DialSSHAgent(ctx context.Context, path string) (int, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, backend.Failed("egress", "reach the SSH agent", path, err, "start one (ssh-agent) and add a key (ssh-add), or leave out `ssh_agent`")
	}
	defer conn.Close()
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return 0, backend.Failed("egress", "reach the SSH agent", path, err, "")
	}
	defer file.Close()
	return unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, keep.FirstOwn)
}

// Files returns the pid and the descriptors that outlive a creator, for [Adopt].
func (p *Process) Files() (pid int, pidfd, control *os.File, err error) {
	pidfd, err = keep.File(p.pidfd)
	return p.pid, pidfd, p.control, err
}

// Leave forgets the process, which has another owner now.
func (p *Process) Leave() {
	if p != nil {
		_ = p.control.Close()
		_ = unix.Close(p.pidfd)
	}
}

// Adopt returns the process of a sandbox that another process has handed over.
func Adopt(dir *state.Dir, pid int, pidfd, control *os.File) (*Process, error) {
	fd, err := keep.FD(pidfd)
	if err != nil {
		return nil, backend.Failed("egress", "adopt", "", err, "")
	}
	p := &Process{dir: dir, pid: pid, pidfd: fd, control: control, done: make(chan struct{})}
	go func() {
		keep.Adopt(p.pid, p.pidfd).Reap()
		close(p.done)
	}()
	return p, nil
}

// End kills the process and returns when it has ended.
func (p *Process) End() {
	if p == nil {
		return
	}
	_ = p.control.Close()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	<-p.done
	_ = unix.Close(p.pidfd)
}

// Holds adds to what isolates a sandbox that it reaches nothing, if the process has ended.
func (p *Process) Holds(held policy.Isolation) policy.Isolation {
	if p == nil {
		return held
	}
	select {
	case <-p.done:
		held.Lost = append(slices.Clip(held.Lost), "the network: the egress process has ended, and commands reach nothing but loopback")
	default:
	}
	return held
}

// Client returns a client of the process, or nil if there is none.
func (p *Process) Client() *egress.Client {
	if p == nil {
		return nil
	}
	return &egress.Client{Dial: func(ctx context.Context) (net.Conn, error) { return state.DialEgress(ctx, p.dir.Path) }}
}

// ResolvConf returns the resolv.conf of commands whose names get addresses of this range: one
// question for each name, which is answered at once or not at all.
func ResolvConf(names netip.Prefix) string {
	return "nameserver " + names.Addr().Next().String() + "\noptions timeout:1 attempts:1 no-aaaa\n"
}

// startError returns the error of a program that could not be started.
func startError(err error) error {
	op := "start the egress process"
	if failed := (*clone.Error)(nil); errors.As(err, &failed) {
		op = failed.Stage.String()
	}
	return backend.Failed("egress", op, "", err, "")
}
