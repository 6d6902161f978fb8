package httpd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func breakFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate makes one for paddock.example, in two files.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"paddock.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed(t, der))
	return cert, key, pool
}

func parsed(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestListenRefuses(t *testing.T) {
	cert, key, _ := certificate(t)
	store := tokens(t)
	addToken(t, store, "ann", "/srv/ann", time.Time{})
	old := tokens(t)
	addExpired(t, old, "ann")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tt := range map[string]struct {
		opts Options
		want string
	}{
		"no port":                 {Options{Address: "127.0.0.1", Tokens: store}, "it is not HOST:PORT"},
		"a port that is none":     {Options{Address: "127.0.0.1:x", Tokens: store}, "cannot listen on 127.0.0.1:x"},
		"a taken port":            {Options{Address: taken.Addr().String(), Tokens: store}, "address already in use"},
		"all addresses":           {Options{Address: ":0", Tokens: store}, "other hosts can reach it"},
		"all addresses, written":  {Options{Address: "0.0.0.0:0", Tokens: store}, "tokens would cross the network"},
		"another host's":          {Options{Address: "192.0.2.1:0", Tokens: store}, "other hosts can reach it"},
		"a name":                  {Options{Address: "paddock.example:0", Tokens: store}, "other hosts can reach it"},
		"all, and no tokens":      {Options{Address: ":0", NoAuth: true, InsecureNoTLS: true}, "nobody would have to show a token"},
		"all, TLS, and no tokens": {Options{Address: ":0", NoAuth: true, TLSCert: cert, TLSKey: key}, "nobody would have to show a token"},
		"no valid token":          {Options{Address: "127.0.0.1:0", Tokens: old}, "there is no valid token"},
		"no token at all":         {Options{Address: "127.0.0.1:0", Tokens: tokens(t)}, "there is no valid token"},
		"a certificate alone":     {Options{Address: ":0", TLSCert: cert, Tokens: store}, "a certificate needs a key"},
		"a key alone":             {Options{Address: "127.0.0.1:0", TLSKey: key, Tokens: store}, "a certificate needs a key"},
		"no certificate":          {Options{Address: ":0", TLSCert: file, TLSKey: key, Tokens: store}, "cannot use tls_cert"},
		"a relative socket":       {Options{Address: "unix://x", Tokens: store}, "absolute path"},
		"all hosts":               {Options{Address: "127.0.0.1:0", Tokens: store, AllowHosts: []string{"*"}}, "cannot use allow_host"},
		"a host with a port":      {Options{Address: "127.0.0.1:0", Tokens: store, AllowHosts: []string{"a.example:80"}}, "cannot use allow_host"},
		"an address for a host":   {Options{Address: "127.0.0.1:0", Tokens: store, AllowHosts: []string{"https://a.example"}}, "cannot use allow_host"},
		"all origins":             {Options{Address: "127.0.0.1:0", Tokens: store, AllowOrigins: []string{"*"}}, "cannot use allow_origin"},
		"origins by a pattern":    {Options{Address: "127.0.0.1:0", Tokens: store, AllowOrigins: []string{"https://*.example"}}, "cannot use allow_origin"},
		"a name for an origin":    {Options{Address: "127.0.0.1:0", Tokens: store, AllowOrigins: []string{"app.example"}}, "cannot use allow_origin"},
		"a page for an origin":    {Options{Address: "127.0.0.1:0", Tokens: store, AllowOrigins: []string{"https://app.example/x"}}, "cannot use allow_origin"},
		"a file for a socket":     {Options{Address: "unix://" + file, Tokens: store}, "not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Listen(tt.opts)
			if err == nil {
				_ = f.Close()
				t.Fatal("it listens")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "cannot ") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	w := begin(t, Options{Address: "0.0.0.0:0", TLSCert: cert, TLSKey: key})
	_, port, _ := net.SplitHostPort(w.f.listener.Addr().String())
	ask := func(version uint16, host string) (int, error) {
		dialer := &net.Dialer{Timeout: patience}
		client := &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
			},
			TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "paddock.example", MinVersion: version, MaxVersion: version},
		}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://paddock.example"+Path, strings.NewReader("none"))
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+w.ann)
		res, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode, res.Body.Close()
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if status, err := ask(version, ""); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v", tls.VersionName(version), status, err)
		}
	}
	if _, err := ask(tls.VersionTLS11, ""); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	for host, want := range map[string]int{"paddock.example:443": 200, "127.0.0.1:" + port: 200, "localhost": 403, "10.0.0.1": 403, "evil.example": 403} {
		if status, err := ask(tls.VersionTLS13, host); err != nil || status != want {
			t.Errorf("Host %s: %d, %v, want %d", host, status, err, want)
		}
	}
	// A client that does not speak TLS gets nothing.
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+w.ann+"\r\nContent-Length: 0\r\n\r\n")
	if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "200 OK") {
		t.Errorf("without TLS: %s", answer)
	}
}

func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	// One that a killed server left is replaced.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	w := begin(t, Options{Address: "unix://" + path})
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if w.f.URL() != "unix://"+path {
		t.Error(w.f.URL())
	}
	_, err = Listen(Options{Address: "unix://" + path, Tokens: w.store})
	if err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second one: %v", err)
	}
	conn := w.dial()
	_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+w.ann+"\r\nContent-Length: 0\r\n\r\n")
	if answer, err := io.ReadAll(conn); !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK") {
		t.Errorf("%s, %v", answer, err)
	}
	w.stop()
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}

func TestNoAuth(t *testing.T) {
	w := begin(t, Options{NoAuth: true})
	if a := w.do(ask{body: "none"}); a.status != http.StatusOK || a.body != " 4" {
		t.Errorf("%+v", a)
	}
	if a := w.do(ask{host: "evil.example"}); a.status != http.StatusForbidden {
		t.Errorf("a page's own name: %+v", a)
	}
	id := w.session("")
	if a := w.do(ask{session: id}); a.status != http.StatusOK {
		t.Errorf("a session: %+v", a)
	}
}
