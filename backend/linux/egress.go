//go:build linux

package linux

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// egressProcess is the running egress process of a sandbox.
type egressProcess struct {
	program string
	dir     *stateDir
	pidfd   int
	control *os.File
	done    chan struct{} // closed when it has ended and was reaped
	failed  error         // why its program was not executed, final with done
}

// startEgress starts the egress process. It is confined before its program begins: another
// user's identity if the caller is root, no capabilities, no_new_privs, and a Landlock domain
// in which it can read what names are resolved with. It confines itself further once it has
// everything it needs. It waits for its sockets ([egressProcess.serve]).
func startEgress(program string, dir *stateDir) (*egressProcess, error) {
	exe, err := openProgram(program, "set PADDOCK_EGRESS to the path of paddock-egress, or keep it beside paddock-agent")
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
		// Small and early collections: it is one process for each sandbox.
		Env:           []string{"GOMAXPROCS=2", "GOGC=50", "GOMEMLIMIT=16MiB", "GODEBUG=netdns=go"},
		Dir:           "/",
		Rlimits:       []clone.Rlimit{{Resource: unix.RLIMIT_CORE}},
		DieWithThread: true,
		NoCaps:        true,
	}
	if dir.uid != 0 { // the caller is root: another id of this sandbox's alone
		c.UID = int(dir.uid) + lentCount
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
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstOwn)
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
	p := &egressProcess{program: program, dir: dir, control: channels.Control, done: make(chan struct{})}
	started := make(chan error)
	go p.run(c, started)
	if err := <-started; err != nil {
		_ = p.control.Close()
		return nil, cloneError(err)
	}
	return p, nil
}

// run starts the process on a thread that lives as long as it does: its parent-death signal
// is tied to the thread.
func (p *egressProcess) run(c *clone.Command, started chan<- error) {
	runtime.LockOSThread()
	// The thread ends with the process, so what only restricts its children may stay.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		started <- err
		return
	}
	child, err := clone.Begin(c, 0, false)
	if err != nil {
		started <- err
		return
	}
	p.pidfd = child.PIDFD
	started <- nil
	if err := child.Wait(); err != nil {
		p.failed = cloneError(err)
	}
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(child.PID, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	close(p.done)
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

// serve hands the sockets of the gateway over, and returns when names are answered.
func (p *egressProcess) serve(ctx context.Context, req backend.Request, sockets []int) error {
	_ = p.control.SetDeadline(time.Now().Add(readyTimeout))
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	ready, err := p.handOver(req, sockets)
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

func (p *egressProcess) handOver(req backend.Request, sockets []int) (ready egress.Ready, err error) {
	config := egress.Config{Build: wire.Build, Network: req.Spec.Network.WithoutSources(), Sockets: len(sockets), Proxy: map[string]string{}}
	if own := req.Intercept; own != nil {
		config.Authority, config.Roots = &egress.Authority{Certificate: own.Certificate, Key: own.Key}, ownRoots()
		for _, secret := range own.Secrets {
			config.Secrets = append(config.Secrets, egress.Secret(secret))
		}
	}
	for _, name := range []string{"HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} {
		for _, name := range []string{strings.ToLower(name), name} {
			if value := os.Getenv(name); value != "" {
				config.Proxy[strings.ToUpper(name)] = value
			}
		}
	}
	line, err := json.Marshal(config)
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
func (p *egressProcess) explain(err error) error {
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

// end kills the process and returns when it has ended.
func (p *egressProcess) end() {
	if p == nil {
		return
	}
	_ = p.control.Close()
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	<-p.done
	_ = unix.Close(p.pidfd)
}

// Egress returns a client of the egress process, or nil if the sandbox has none.
func (s *sandbox) Egress() *egress.Client {
	if s.egress == nil {
		return nil
	}
	return &egress.Client{Dial: func(ctx context.Context) (net.Conn, error) { return state.DialEgress(ctx, s.dir.Path) }}
}
