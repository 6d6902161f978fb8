package httpd

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// address says where to listen.
type address struct {
	host, port string
	socket     string // a path, with host and port empty
}

// parseAddress parses the address, and refuses one that other hosts could reach without
// TLS or without tokens.
func parseAddress(opts Options) (address, error) {
	refuse := func(reason, hint string) (address, error) {
		return address{}, &policy.FieldError{Field: "http", Value: opts.Address, Reason: reason, Hint: hint}
	}
	if path, ok := strings.CutPrefix(opts.Address, "unix://"); ok {
		if !filepath.IsAbs(path) || len(path) > 100 {
			return refuse("a socket needs an absolute path of at most 100 bytes", "unix:///run/paddock/mcp.sock")
		}
		return address{socket: filepath.Clean(path)}, nil
	}
	host, port, err := net.SplitHostPort(opts.Address)
	if err != nil {
		return refuse("it is not HOST:PORT", "for example 127.0.0.1:8765, or unix:///PATH")
	}
	a := address{host: host, port: port}
	if a.loopback() {
		return a, nil
	}
	switch {
	case opts.NoAuth:
		return refuse("other hosts can reach it, and nobody would have to show a token", "leave --no-auth out, or listen on 127.0.0.1")
	case opts.TLSCert == "" && !opts.InsecureNoTLS:
		return refuse("other hosts can reach it, and tokens would cross the network in the clear",
			"give --tls-cert and --tls-key, listen on 127.0.0.1, or add --insecure-no-tls if a proxy before it speaks TLS")
	}
	return a, nil
}

func (a address) loopback() bool { return isLocalName(a.host) }

// local reports whether only this host can reach the address.
func (a address) local() bool { return a.socket != "" || a.loopback() }

func (a address) listen(opts Options) (net.Listener, error) {
	if a.socket != "" {
		l, err := listenSocket(a.socket)
		return l, cannotListen(opts, err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(a.host, a.port))
	if err != nil {
		return nil, cannotListen(opts, err)
	}
	// localhost resolves to whatever the resolver says.
	if tcp, ok := l.Addr().(*net.TCPAddr); a.loopback() && (!ok || !tcp.IP.IsLoopback()) {
		_ = l.Close() // it has accepted no connection
		return nil, &policy.FieldError{Field: "http", Value: opts.Address, Reason: "it does not resolve to a loopback address", Hint: "write 127.0.0.1"}
	}
	return l, nil
}

func cannotListen(opts Options, err error) error {
	if err == nil {
		return nil
	}
	for inner := (*net.OpError)(nil); errors.As(err, &inner); {
		err = inner.Err
	}
	return &paddock.Error{Message: "cannot listen on " + opts.Address + ": " + err.Error()}
}

// listenSocket makes a socket that only its owner can connect to. It is made and gets its
// mode in a private directory, and only then its name.
func listenSocket(path string) (net.Listener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".p")
	if err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	private := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(private, 0o600); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		_ = errors.Join(l.Close(), os.Remove(private)) // the first error says more
		return nil, err
	}
	return &socket{UnixListener: l, path: path}, nil
}

// checkSocket refuses a path that is in use.
func checkSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("a file that is not a socket has this name")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close() // it only shows that a process is listening
		return errors.New("another process listens there")
	}
	return nil
}

// socket is a listener that removes its path when it is closed.
type socket struct {
	*net.UnixListener
	path string
}

// Addr returns the path that clients use.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close removes the path and stops listening.
func (s *socket) Close() error {
	_ = os.Remove(s.path) // it may be gone
	return s.UnixListener.Close()
}

// tlsConfig returns nil if no certificate is given.
func tlsConfig(opts Options) (*tls.Config, error) {
	switch {
	case opts.TLSCert == "" && opts.TLSKey == "":
		return nil, nil
	case opts.TLSCert == "" || opts.TLSKey == "":
		return nil, &policy.FieldError{Field: "tls_cert", Value: opts.TLSCert, Reason: "a certificate needs a key, and a key a certificate", Hint: "give both --tls-cert and --tls-key"}
	}
	read := opts.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	certText, err := read(opts.TLSCert)
	if err != nil {
		return nil, &policy.FieldError{Field: "tls_cert", Value: opts.TLSCert, Reason: err.Error()}
	}
	keyText, err := read(opts.TLSKey)
	if err != nil {
		return nil, &policy.FieldError{Field: "tls_key", Value: opts.TLSKey, Reason: err.Error()}
	}
	cert, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, &policy.FieldError{Field: "tls_cert", Value: opts.TLSCert, Reason: err.Error()}
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// boundListener closes connections beyond the capacity of open at once.
type boundListener struct {
	net.Listener
	open chan struct{}
}

// Accept returns the next connection within the bound.
func (b *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.open <- struct{}{}:
			return &boundConn{Conn: conn, leave: sync.OnceFunc(func() { <-b.open })}, nil
		default:
			_ = conn.Close() // too many are open
		}
	}
}

type boundConn struct {
	net.Conn
	leave func()
}

// Close closes the connection, and makes room for another one.
func (c *boundConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
