package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// echoServer listens where an agent without walls can connect to, and sends back what comes.
func echoServer(t *testing.T, address string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("this host has no address to listen on at %s: %v", address, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestConnect: a program that listens on either loopback address is reached; half a connection
// can be closed; and what cannot be connected to is refused with the reason.
func TestConnect(t *testing.T) {
	b := bare(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		t.Run(address, func(t *testing.T) {
			conn, err := b.client.Connect(ctx, echoServer(t, address))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() {
				_, _ = conn.Write(text)
				_ = conn.CloseWrite()
			}()
			if back, err := io.ReadAll(conn); err != nil || !bytes.Equal(back, text) {
				t.Errorf("%d bytes of %d came back, or others: %v", len(back), len(text), err)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	each(t, b, []call{
		{request: fmt.Sprintf(`{"action":"connect","port":%d}`, port), want: fmt.Sprintf(`{"code":"failed","object":"%d","errno":%d}`, port, syscall.ECONNREFUSED),
			err: fmt.Sprintf("cannot connect to port %d: nothing listens there", port)},
		{request: `{"action":"connect"}`, err: "port must be from 1 to 65535"},
		{request: `{"action":"connect","port":65536}`, err: "port must be from 1 to 65535"},
		{request: `{"action":"connect","port":-1}`, err: "port must be from 1 to 65535"},
	})
}

// TestConnectMany: as many connections as there may be are carried at once, one more is
// refused, requests are answered meanwhile, and nothing is left of them.
func TestConnectMany(t *testing.T) {
	b := start(t)
	port := ""
	served := b.stream(wire.ExecRequest{Argv: []string{helper, "echo"}})
	served.until(func() bool {
		port = served.stdout.String()
		return bytes.HasSuffix([]byte(port), []byte("\n"))
	})
	number, err := strconv.Atoi(port[:len(port)-1])
	if err != nil {
		t.Fatal(err)
	}
	b.leaksNothing(func() {
		var conns []*wire.Conn
		for {
			conn, err := b.client.Connect(b.context(), number)
			if err != nil {
				var refused *wire.Error
				if !errors.As(err, &refused) || refused.Code != wire.CodeBusy || len(conns) != 512 {
					t.Errorf("after %d connections: %v", len(conns), err)
				}
				break
			}
			conns = append(conns, conn)
		}
		b.works()
		for i, conn := range conns {
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := fmt.Fprintf(conn, "%04d", i); err != nil {
				t.Fatal(err)
			}
		}
		for i, conn := range conns {
			back := make([]byte, 4)
			if _, err := io.ReadFull(conn, back); err != nil || string(back) != fmt.Sprintf("%04d", i) {
				t.Fatalf("%d: %q, %v", i, back, err)
			}
			_ = conn.Close()
		}
	})
}
