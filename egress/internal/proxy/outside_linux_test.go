package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

// TestLateRequest: a host closes connections on which no request comes. A command that begins
// TLS and asks later gets its answer all the same, also to a request that is not sent twice.
func TestLateRequest(t *testing.T) {
	for name, end := range map[string]func(*tls.Conn){
		"closed": func(conn *tls.Conn) { _ = conn.Close() },
		"reset":  func(conn *tls.Conn) { reset(conn.NetConn()) },
	} {
		t.Run(name, func(t *testing.T) { requestLate(t, end) })
	}
}

func requestLate(t *testing.T, end func(*tls.Conn)) {
	l := look(t, nil, func(http.ResponseWriter, *http.Request) {})
	closed := make(chan struct{}, 1)
	l.hosts.serveAt(l.tls, listen(t, func(plain *net.TCPConn) {
		conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{l.ca.Certificate}})
		if conn.Handshake() != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(staleUpstream / 2))
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			end(conn)
			closed <- struct{}{}
			return
		}
		body, _ := io.ReadAll(request.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"+string(body))
	}))
	conn := l.raw("api.test")
	<-closed
	time.Sleep(staleUpstream)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\n\r\nlate")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || string(body) != "late" {
		t.Errorf("the answer is %s, %q, %v", answer.Status, body, err)
	}
}

// TestNoRequest: the connection to a host that began with TLS inside ends with it.
func TestNoRequest(t *testing.T) {
	l := look(t, nil, func(http.ResponseWriter, *http.Request) {})
	var began, ended atomic.Int32
	l.hosts.serveAt(l.tls, listen(t, func(plain *net.TCPConn) {
		began.Add(1)
		defer ended.Add(1)
		conn := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{l.ca.Certificate}})
		if conn.Handshake() != nil {
			return
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("the host got %d bytes, %v", n, err)
		}
	}))
	if err := l.raw("api.test").Close(); err != nil {
		t.Error(err)
	}
	l.wants(0, egress.KindConnection, "api.test", "without a request")
	for deadline := time.Now().Add(time.Minute); began.Load() != ended.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the host's end has not ended")
		}
	}
}
