//go:build linux

// Package network runs real clients in sandboxes that reach hosts by name, against servers of
// its own.
//
// The names exist nowhere: the operator's proxy, which the tests set with HTTPS_PROXY, is a
// server of theirs, and leads each name to one of their servers. So the programs are those that
// users have. How names are resolved and which addresses are refused is tested with the data
// plane, in egress/internal/proxy.
package network

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

var binDir string // where the programs are

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "paddock-network-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binDir = dir
	usual := boxtest.Usual(filepath.Join(dir, "usual"))
	build := exec.Command("go", "build", "-buildvcs=false", usual, "-o", dir+"/", "./cmd/paddock", "./cmd/paddock-agent", "./cmd/paddock-egress")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err == nil {
		err = os.Chmod(dir, 0o755) // commands are another user's
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot build: %v\n%s", err, out)
		return 1
	}
	boxtest.LookForWalls(linux.New())
	return m.Run()
}

// world is the network outside: servers by name and port, behind the operator's proxy.
type world struct {
	pool    *x509.CertPool
	ca      []byte // as PEM
	key     *ecdsa.PrivateKey
	root    *x509.Certificate
	mu      sync.Mutex
	servers map[string]string // "name:port" → address
	asked   []string          // "name:port", in order
	proxy   string
}

// newWorld starts the operator's proxy, and sets it for this test.
func newWorld(t *testing.T) *world {
	t.Helper()
	boxtest.RequireWalls(t)
	w := &world{servers: map[string]string{}, pool: x509.NewCertPool()}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &w.key.PublicKey, w.key)
	if err != nil {
		t.Fatal(err)
	}
	if w.root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	l := listen(t)
	w.proxy = l.Addr().String()
	serve(l, w.connect)
	t.Setenv("HTTPS_PROXY", "http://"+w.proxy)
	t.Setenv("ALL_PROXY", "http://"+w.proxy)
	t.Setenv("NO_PROXY", "")
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve handles each connection, until the listener is closed.
func serve(l net.Listener, handle func(net.Conn)) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
}

// connect is the operator's proxy: CONNECT to a server of the world.
func (w *world) connect(conn net.Conn) {
	r := bufio.NewReader(conn)
	request, err := http.ReadRequest(r)
	if err != nil || request.Method != http.MethodConnect {
		return
	}
	w.mu.Lock()
	w.asked = append(w.asked, request.Host)
	to := w.servers[request.Host]
	w.mu.Unlock()
	if to == "" {
		_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, r)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, server)
}

// seen returns what the proxy was asked for.
func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// add makes a listener a server of a name, "api.test:443".
func (w *world) add(name string, l net.Listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[name] = l.Addr().String()
}

// https serves HTTPS under a name, with a certificate of the world's.
func (w *world) https(t *testing.T, name string, handler http.Handler) {
	t.Helper()
	w.httpsWith(t, name, handler)
}

// httpsWith is like https, with these protocols alone, if any are named.
func (w *world) httpsWith(t *testing.T, name string, handler http.Handler, protocols ...string) {
	t.Helper()
	host, _, err := net.SplitHostPort(name)
	if err != nil {
		t.Fatal(err)
	}
	der, key := w.certificate(t, host)
	l := listen(t)
	w.add(name, l)
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: protocols}}
	if len(protocols) > 0 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
}

// certificate returns a certificate of the world's for a name, and its key.
func (w *world) certificate(t *testing.T, host string) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{host}}
	if der, err = x509.CreateCertificate(rand.Reader, template, w.root, &key.PublicKey, w.key); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// hello answers each request with where it was for.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s%s\n", r.Host, r.URL.Path) })

// open opens a sandbox with these rules, over a new workspace in which ca.pem is the world's
// authority.
func (w *world) open(t *testing.T, network policy.Network) *paddock.Sandbox {
	t.Helper()
	return w.openWith(t, network, func(*paddock.Spec) {})
}

// openWith is like open, with a spec that is changed.
func (w *world) openWith(t *testing.T, network policy.Network, change func(*paddock.Spec)) *paddock.Sandbox {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), w.ca, 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // so that the sandbox's is another user
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: dir}, Network: network, Env: map[string]string{
		"SSL_CERT_FILE": "/workspace/ca.pem", "CURL_CA_BUNDLE": "/workspace/ca.pem", "GIT_SSL_CAINFO": "/workspace/ca.pem",
		"NODE_EXTRA_CA_CERTS": "/workspace/ca.pem", "REQUESTS_CA_BUNDLE": "/workspace/ca.pem",
	}}
	change(&spec)
	box, err := paddock.Open(t.Context(), spec, w.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

func (w *world) options() paddock.Options {
	return paddock.Options{Agent: filepath.Join(binDir, "paddock-agent"), Path: os.Getenv("PATH")}
}

// allow returns rules for hosts, in the short form of flags.
func allow(t *testing.T, hosts ...string) policy.Network {
	t.Helper()
	var n policy.Network
	for _, text := range hosts {
		rule, err := policy.ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		n.Allow = append(n.Allow, rule)
	}
	return n
}

// sh runs shell text in a sandbox, as [run] does.
func sh(t *testing.T, box *paddock.Sandbox, text string) (out string, status int) {
	t.Helper()
	return run(t, box, "sh", "-c", text)
}

// python runs a program in Python with these arguments, as [run] does, or skips.
func python(t *testing.T, box *paddock.Sandbox, text string, args ...string) (out string) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	out, _ = run(t, box, "/usr/bin/python3", append([]string{"-c", text}, args...)...)
	return out
}

// run runs a command in a sandbox, and returns what it printed to both streams and its exit
// status.
func run(t *testing.T, box *paddock.Sandbox, name string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	cmd := box.Command(ctx, name, args...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	exit := (*paddock.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v\n%s", name, args, err, both.String())
	}
	if exit != nil {
		status = exit.ExitCode
	}
	return both.String(), status
}

// records returns what is in the log of a sandbox's network, without what was asked for names
// alone.
func records(t *testing.T, box *paddock.Sandbox) (all []egress.Record) {
	t.Helper()
	if err := box.NetworkLog(t.Context(), 0, false, func(r egress.Record) error {
		all = append(all, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// has reports whether a text has all of these.
func has(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
