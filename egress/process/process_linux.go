// Package process is the egress process: it takes its order from the sandbox's owner, keeps
// its own confinement, and serves until the owner ends it. Package proxy does the work.
package process

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/egress/internal/proxy"
	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/wire"
)

// Resolver finds the addresses of names.
type Resolver = proxy.Resolver

// Options replace what the process reaches the network with. The program uses the zero value;
// tests have names and servers of their own.
type Options struct {
	// Resolver finds addresses. Default: as the host does.
	Resolver Resolver
	// AllowAddress, if not nil, says which addresses may be dialed besides public ones.
	AllowAddress func(netip.Addr) bool
}

// Main runs the process and returns its exit status. It must be called on the process's first
// thread, locked.
func Main(opts Options) int {
	name := [...]byte{'p', 'a', 'd', 'd', 'o', 'c', 'k', '-', 'e', 'g', 'r', 'e', 's', 's', 0} // a program that was started through a descriptor has a number as its name
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // it shares a user with other processes
		return fail(err)
	}
	if err := unix.SetNonblock(egress.ControlFD, true); err != nil {
		return fail(errors.New("it is started by Paddock alone, for a sandbox whose network is \"allow\""))
	}
	unix.CloseOnExec(egress.ControlFD)
	unix.CloseOnExec(egress.ListenFD)
	control := os.NewFile(egress.ControlFD, "control")
	server, err := start(control, opts)
	ready := egress.Ready{Build: wire.Build}
	if err != nil {
		if !errors.As(err, &ready.Error) {
			ready.Error = &egress.Error{Message: err.Error()}
		}
	}
	line, jerr := json.Marshal(ready)
	if jerr == nil {
		_, jerr = control.Write(append(line, '\n'))
	}
	if err != nil || jerr != nil {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the lifeline
		_, _ = io.Copy(io.Discard, control)
		cancel()
	}()
	if err := server.Serve(ctx); err != nil && ctx.Err() == nil {
		return fail(err)
	}
	return 0
}

// fail reports on standard error, which the owner keeps.
func fail(err error) int {
	fmt.Fprintf(os.Stderr, "paddock-egress: %v\n", err)
	return 1
}

// start reads the order, checks and binds the sockets, and confines the process.
func start(control *os.File, opts Options) (*proxy.Server, error) {
	lines := bufio.NewReaderSize(byteReader{control}, 1)
	line, err := egress.ReadLine(lines)
	if err != nil {
		return nil, fmt.Errorf("cannot read the order: %w", err)
	}
	var config egress.Config
	if err := strictjson.Unmarshal(line, &config, strictjson.Options{}); err != nil {
		return nil, fmt.Errorf("cannot read the order: %w", err)
	}
	if config.Build != "" && wire.Build != "" && config.Build != wire.Build {
		return nil, &egress.Error{Message: fmt.Sprintf("the owner is build %s, this program %s", config.Build, wire.Build), Hint: "install paddock and paddock-egress from one release"}
	}
	if config.Names != egress.GatewayNames && config.Names != egress.InsideNames {
		return nil, &egress.Error{Message: fmt.Sprintf("cannot give names addresses of %v", config.Names), Hint: "install paddock and paddock-egress from one release"}
	}
	sockets, _, err := confine.ReceiveFiles(control, egress.Stock+3)
	if err != nil {
		return nil, fmt.Errorf("cannot receive the sockets: %w", err)
	}
	files := make([]*os.File, len(sockets))
	for i, fd := range sockets {
		files[i] = os.NewFile(uintptr(fd), "socket")
	}
	least := 2
	if config.SSHAgent != nil {
		least = 4
	}
	if len(files) != config.Sockets || len(files) < least {
		return nil, &egress.Error{Message: fmt.Sprintf("cannot use the agent's sockets: there are %d", len(files)), Hint: "install paddock and paddock-agent from one release"}
	}
	listener := os.NewFile(egress.ListenFD, "listen")
	ln, err := net.FileListener(listener) // on a duplicate
	_ = listener.Close()
	if err != nil {
		return nil, err
	}
	var sshAgent *proxy.SSHAgent
	if config.SSHAgent != nil {
		last := len(files) - 2
		if sshAgent, err = openSSHAgent(*config.SSHAgent, files[last], files[last+1]); err != nil {
			return nil, err
		}
		files = files[:last]
	}
	roots := (*x509.CertPool)(nil)
	if len(config.Roots) > 0 {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(config.Roots) {
			return nil, &egress.Error{Message: "there is no certificate in the operator's SSL_CERT_FILE", Hint: "name a file with certificates as PEM, or unset it"}
		}
	}
	server, err := proxy.New(proxy.Options{
		Authority: config.Authority, Secrets: config.Secrets, Roots: roots,
		Network: config.Network, UDP: files[0], TCP: files[1:], Control: ln, Proxy: config.Proxy, Range: config.Names, SSHAgent: sshAgent,
		Resolver: opts.Resolver, AllowAddress: opts.AllowAddress,
	})
	if err != nil {
		return nil, err
	}
	if err := confine.LoadFilter(confine.FilterEgress); err != nil {
		return nil, fmt.Errorf("cannot load the system call filter: %w", err)
	}
	return server, nil
}

// openSSHAgent checks the sockets for the SSH agent, of which the first is the agent's of the
// sandbox, who is not trusted. It closes the files.
func openSSHAgent(allowed egress.SSHAgent, listen, connected *os.File) (*proxy.SSHAgent, error) {
	defer listen.Close()
	defer connected.Close()
	for _, option := range []struct{ name, want int }{{unix.SO_DOMAIN, unix.AF_UNIX}, {unix.SO_TYPE, unix.SOCK_STREAM}, {unix.SO_ACCEPTCONN, 1}} {
		if got, err := unix.GetsockoptInt(int(listen.Fd()), unix.SOL_SOCKET, option.name); err != nil || got != option.want {
			return nil, errors.New("cannot use the agent's socket for the SSH agent: it is no listening Unix socket")
		}
	}
	l, err := net.FileListener(listen)
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(connected)
	if err != nil {
		return nil, err
	}
	return &proxy.SSHAgent{Allowed: allowed, Listener: l, Agent: conn}, nil
}

// byteReader reads one byte at a time: what follows a line belongs to others.
type byteReader struct{ r io.Reader }

func (b byteReader) Read(p []byte) (int, error) { return b.r.Read(p[:min(len(p), 1)]) }
