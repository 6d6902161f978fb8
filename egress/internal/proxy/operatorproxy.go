package proxy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	socks "golang.org/x/net/proxy"

	"github.com/paddock-dev/paddock/policy"
)

// mostProxyAnswer bounds the answer of the operator's proxy to CONNECT, in bytes.
const mostProxyAnswer = 16 << 10

// operatorProxy is the proxy through which the host itself reaches others. What it covers
// never goes directly.
type operatorProxy struct {
	server  *url.URL
	address string // host:port of server
	except  []exception
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// exception is an entry of NO_PROXY.
type exception struct {
	all     bool
	network netip.Prefix
	name    string // also those below it
	below   bool   // only those below it
	port    string // empty: any
}

// newOperatorProxy reads the operator's variables. It returns nil if they name no proxy.
func newOperatorProxy(variables map[string]string) (*operatorProxy, error) {
	name := "HTTPS_PROXY"
	value := variables[name]
	if value == "" {
		name = "ALL_PROXY"
		value = variables[name]
	}
	if value == "" {
		return nil, nil
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	server, err := url.Parse(value)
	// The text may have a password: it is in no error.
	if err != nil || server.Hostname() == "" {
		return nil, fmt.Errorf("invalid %s: it must be a URL, such as http://192.0.2.1:3128", name)
	}
	port, ok := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[server.Scheme]
	if !ok {
		return nil, fmt.Errorf("unknown scheme %q of %s: want http, https or socks5", server.Scheme, name)
	}
	if server.Port() != "" {
		port = server.Port()
	}
	p := &operatorProxy{server: server, address: net.JoinHostPort(server.Hostname(), port)}
	p.dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	for entry := range strings.SplitSeq(variables["NO_PROXY"], ",") {
		if entry = strings.ToLower(strings.TrimSpace(entry)); entry != "" {
			p.except = append(p.except, parseException(entry))
		}
	}
	return p, nil
}

func parseException(entry string) exception {
	if entry == "*" {
		return exception{all: true}
	}
	if network, err := netip.ParsePrefix(entry); err == nil {
		return exception{network: network}
	}
	var e exception
	if host, port, err := net.SplitHostPort(entry); err == nil {
		entry, e.port = host, port
	}
	if address, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		e.network = netip.PrefixFrom(address, address.BitLen())
		return e
	}
	e.name = strings.TrimPrefix(entry, "*")
	if rest, ok := strings.CutPrefix(e.name, "."); ok {
		e.name, e.below = rest, true
	}
	return e
}

// covers reports whether a connection goes through the proxy.
func (p *operatorProxy) covers(to target) bool {
	if p == nil || to.name == policy.HostName || to.name == "" && to.address.IsLoopback() {
		return false
	}
	for _, e := range p.except {
		if e.port != "" && e.port != strconv.Itoa(int(to.port)) {
			continue
		}
		switch {
		case e.all:
			return false
		case to.name == "":
			if e.network.IsValid() && e.network.Contains(to.address) {
				return false
			}
		case e.name != "" && (to.name == e.name && !e.below || strings.HasSuffix(to.name, "."+e.name)):
			return false
		}
	}
	return true
}

// connect makes a connection to a target through the proxy, which resolves its name.
func (p *operatorProxy) connect(ctx context.Context, to target) (net.Conn, error) {
	failed := func(err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("the operator's proxy %s: %w", p.address, err)
	}
	address := net.JoinHostPort(to.host(), strconv.Itoa(int(to.port)))
	if strings.HasPrefix(p.server.Scheme, "socks") {
		conn, err := p.connectSOCKS(ctx, address)
		if err != nil {
			return nil, failed(err)
		}
		return conn, nil
	}
	conn, err := p.dial(ctx, "tcp", p.address)
	if err != nil {
		return nil, failed(err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if p.server.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{ServerName: p.server.Hostname(), MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, failed(err)
		}
		conn = secure
	}
	if err := p.ask(conn, address); err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	if ctx.Err() != nil {
		_ = conn.Close()
		return nil, failed(ctx.Err())
	}
	return conn, nil
}

// ask sends CONNECT and reads the answer byte by byte: what comes after it is not the proxy's.
func (p *operatorProxy) ask(conn net.Conn, address string) error {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if user := p.server.User; user != nil {
		password, _ := user.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	var answer []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(answer), "\r\n\r\n"); {
		if _, err := io.ReadFull(conn, one); err != nil {
			return fmt.Errorf("it ended before it answered: %w", err)
		}
		if answer = append(answer, one[0]); len(answer) > mostProxyAnswer {
			return errors.New("its answer is too long")
		}
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	version, status, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || !strings.HasPrefix(status, "2") {
		return fmt.Errorf("it answered %q", line[:min(len(line), 128)])
	}
	return nil
}

func (p *operatorProxy) connectSOCKS(ctx context.Context, address string) (net.Conn, error) {
	var auth *socks.Auth
	if user := p.server.User; user != nil {
		auth = &socks.Auth{User: user.Username()}
		auth.Password, _ = user.Password()
	}
	var conn net.Conn // the package's own type cannot be closed in one direction
	dialer, err := socks.SOCKS5("tcp", p.address, auth, contextDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		conn, err = p.dial(ctx, network, address)
		return conn, err
	}))
	if err != nil {
		return nil, err
	}
	if _, err := dialer.(socks.ContextDialer).DialContext(ctx, "tcp", address); err != nil {
		return nil, err
	}
	return conn, nil
}

// contextDialer lets a function dial for package socks.
type contextDialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d contextDialer) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

func (d contextDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}
