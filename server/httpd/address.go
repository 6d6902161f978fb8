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

// address is where to listen.
type address struct {
	host, port string
	socket     string // of a file; the others are empty then
}

// parseAddress refuses what is no address, and what would be open to others
// without what that needs.
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
		return refuse("it is not HOST:PORT", "127.0.0.1:8765, say, or unix:///PATH")
	}
	a := address{host: host, port: port}
	if a.loopback() {
		return a, nil
	}
	switch {
	case opts.NoAuth:
		return refuse("others than this host can reach it, and nobody would have to say who they are", "leave --no-auth out, or listen on 127.0.0.1")
	case opts.TLSCert == "" && !opts.InsecureNoTLS:
		return refuse("others than this host can reach it, and tokens would cross the network in the clear",
			"give --tls-cert and --tls-key, listen on 127.0.0.1, or write --insecure-no-tls where something before it speaks TLS")
	}
	return a, nil
}

func (a address) loopback() bool { return a.host == "localhost" || net.ParseIP(a.host).IsLoopback() }

// local says that only this host can reach it.
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
	// A name leads where the resolver says.
	if tcp, ok := l.Addr().(*net.TCPAddr); a.loopback() && (!ok || !tcp.IP.IsLoopback()) {
		_ = l.Close() // nobody was taken
		return nil, &policy.FieldError{Field: "http", Value: opts.Address, Reason: "it does not lead to a loopback address", Hint: "write 127.0.0.1"}
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

// listenSocket makes a socket that its owner alone can connect to, from the
// moment it has its name: it gets its mode in a directory that nobody else enters.
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

// checkSocket refuses a name that something else has.
func checkSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file of this name that is no socket")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close() // nothing was said
		return errors.New("another process listens there")
	}
	return nil
}

// socket is a listener that takes its name away at its end.
type socket struct {
	*net.UnixListener
	path string
}

// Addr is the name that clients use.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close ends it.
func (s *socket) Close() error {
	_ = os.Remove(s.path) // it may be gone
	return s.UnixListener.Close()
}

// tlsConfig is nil where TLS is not asked for.
func tlsConfig(opts Options) (*tls.Config, error) {
	switch {
	case opts.TLSCert == "" && opts.TLSKey == "":
		return nil, nil
	case opts.TLSCert == "" || opts.TLSKey == "":
		return nil, &policy.FieldError{Field: "tls_cert", Value: opts.TLSCert, Reason: "a certificate and its key go together", Hint: "give both --tls-cert and --tls-key"}
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

// bound closes connections beyond a number at once, and speaks TLS on the others
// where there is a configuration for it.
func bound(l net.Listener, most int, config *tls.Config) net.Listener {
	l = &boundListener{Listener: l, free: make(chan struct{}, most)}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l
}

type boundListener struct {
	net.Listener
	free chan struct{}
}

// Accept takes the next connection that there is room for.
func (b *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &boundConn{Conn: conn, leave: sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = conn.Close() // there is no room, nor time to say so
		}
	}
}

type boundConn struct {
	net.Conn
	leave func()
}

// Close gives the room back.
func (c *boundConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
