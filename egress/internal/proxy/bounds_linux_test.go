package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// TestInFlight: what the requests of all connections take at once is bounded, headers and answers
// included. Those beyond it are refused with a word, those far beyond it without, and when others have
// been answered there is room again.
func TestInFlight(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			arrived, leave := make(chan bool), map[string]chan bool{"/first": make(chan bool), "/second": make(chan bool)}
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if held := leave[r.URL.Path]; held != nil {
					arrived <- true
					<-held
				}
				w.Header().Set("X-Large", strings.Repeat("y", len(r.Header.Get("X-Answer"))*1000))
				fmt.Fprint(w, "answer")
			})
			const room = 4
			l.interceptor.most = room * (requestWeight + 8<<10)
			c := l.client(two)
			var running sync.WaitGroup
			hold := func(n int, path string) {
				for range n {
					running.Go(func() {
						if answer, text := l.do(c, "GET", l.url(path), nil); answer.StatusCode != http.StatusOK || text != "answer" {
							t.Errorf("%d %s", answer.StatusCode, text)
						}
					})
				}
				for range n {
					<-arrived
				}
			}
			refused := func(why, path string, header ...string) {
				t.Helper()
				answer, text := l.do(c, "GET", l.url(path), nil, header...)
				if answer.StatusCode/100 != 5 || !strings.Contains(text, "on their way at once") {
					t.Errorf("%s: %d %s", why, answer.StatusCode, text)
				}
			}
			hold(room, "/first")
			refused("one more", "/more")
			l.wants(0, egress.KindDenied, "api.test", "a request was refused: too many requests")
			close(leave["/first"])
			running.Wait()

			hold(room-1, "/second")
			if answer, text := l.do(c, "GET", l.url("/more"), nil); answer.StatusCode != http.StatusOK || text != "answer" {
				t.Errorf("one more that has room: %d %s", answer.StatusCode, text)
			}
			refused("one with a large header", "/more", "X-Some", strings.Repeat("x", 40<<10))
			refused("one with a large answer", "/more", "X-Answer", strings.Repeat("x", 40))
			// A refusal takes memory too, as long as nobody reads it.
			l.interceptor.inFlight.Add(l.interceptor.most)
			if answer, err := c.Get(l.url("/more")); err == nil {
				_ = answer.Body.Close()
				t.Errorf("far beyond the bound there is an answer, %d", answer.StatusCode)
			}
			l.interceptor.inFlight.Add(-l.interceptor.most)
			close(leave["/second"])
			running.Wait()
			if answer, text := l.do(c, "GET", l.url("/more"), nil); answer.StatusCode != http.StatusOK || text != "answer" {
				t.Errorf("when all have been answered: %d %s", answer.StatusCode, text)
			}
			for l.interceptor.inFlight.Load() != 0 { // the last one may still be ending
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestLargeHeads: what clients and servers send in practice comes through, and what is larger is
// refused.
func TestLargeHeads(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Security-Policy", strings.Repeat("y", len(r.Header.Get("X-Answer"))*1000))
				fmt.Fprint(w, len(r.Header.Get("Cookie")))
			})
			c := l.client(two)
			if answer, text := l.do(c, "GET", l.url("/"), nil, "Cookie", strings.Repeat("c", 32_000), "X-Other", strings.Repeat("x", 8_000), "X-Answer", strings.Repeat("x", 48)); text != "32000" || len(answer.Header.Get("Content-Security-Policy")) != 48_000 {
				t.Errorf("%d %s", answer.StatusCode, text)
			}
			if answer, text := l.do(c, "GET", l.url("/"), nil, "X-Answer", strings.Repeat("x", 100)); answer.StatusCode != http.StatusBadGateway {
				t.Errorf("an answer of 100 kB: %d %s", answer.StatusCode, text)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.url("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			before := l.count()
			r.Header.Set("Cookie", strings.Repeat("c", 64_000))
			if answer, err := c.Do(r); err == nil && answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge || l.count() > before {
				t.Errorf("a cookie of 64 kB: %v, %v", answer, err)
			}
		})
	}
}

// seemingly is a connection to another address.
type seemingly struct {
	*net.TCPConn
	at net.Addr
}

func (s seemingly) RemoteAddr() net.Addr { return s.at }

// TestRedialled: a connection inside of which there are several to the host is cut if any of the
// addresses to which they lead is denied, not only the last one.
func TestRedialled(t *testing.T) {
	first, second := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var denied atomic.Bool
	var hosts [2]net.Listener
	l := lookWith(t, func(o *Options) {
		o.AllowAddress = func(a netip.Addr) bool { return a == second || a == first && !denied.Load() }
		o.Dial = func(ctx context.Context, network, address string, control func(string, string, syscall.RawConn) error) (net.Conn, error) {
			to := hosts[0]
			if netip.MustParseAddrPort(address).Addr() == second {
				to = hosts[1]
			}
			conn, err := dialDirectly(ctx, network, to.Addr().String(), func(network, _ string, c syscall.RawConn) error { return control(network, address, c) })
			if err != nil {
				return nil, err
			}
			return seemingly{conn.(*net.TCPConn), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}, nil
		}
	}, nil, nil)
	arrived, leave := make(chan string), map[string]chan bool{"/first": make(chan bool), "/second": make(chan bool), "/third": make(chan bool)}
	for i, at := range []netip.Addr{first, second} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = listener
		server := &http.Server{ // without HTTP/2: each request at once needs a connection
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{l.ca.Certificate}}, ErrorLog: log.New(io.Discard, "", 0), TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				arrived <- r.URL.Path + " at " + at.String()
				<-leave[r.URL.Path]
			}),
		}
		go func() { _ = server.ServeTLS(listener, "", "") }()
		t.Cleanup(func() { _ = server.Close() })
	}
	c, ended := l.client(true), make(chan error, 4)
	get := func(path string) {
		answer, err := c.Get(l.url(path))
		if err == nil {
			var text []byte
			text, err = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("%d %s", answer.StatusCode, text)
			}
		}
		ended <- err
	}
	await := func() string {
		t.Helper()
		select {
		case got := <-arrived:
			return got
		case err := <-ended:
			t.Fatalf("a request ended: %v", err)
		}
		return ""
	}
	for i, path := range []string{"/first", "/second"} {
		at := []netip.Addr{first, second}[i]
		l.hosts.set("api.test", at.String())
		go get(path)
		if got := await(); got != path+" at "+at.String() {
			t.Fatalf("a request came as %s", got)
		}
	}
	denied.Store(true)
	network := l.State().Network.Clone()
	network.Deny = append(network.Deny, policy.NetworkDenial{Host: first.String(), Reason: "because"})
	if _, err := l.Set(network); err != nil {
		t.Fatal(err)
	}
	l.wants(0, egress.KindConnection, "api.test", "the rules were replaced: it is at "+first.String())
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a request was answered")
		}
	}
	close(leave["/first"])
	close(leave["/second"])

	// One that has left the address stays.
	go get("/third")
	await()
	network.Deny = append(network.Deny, policy.NetworkDenial{Host: "192.0.2.3", Reason: "because"})
	if _, err := l.Set(network); err != nil {
		t.Fatal(err)
	}
	close(leave["/third"])
	if err := <-ended; err != nil {
		t.Errorf("a connection to another address: %v", err)
	}
}
