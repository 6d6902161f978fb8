package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// connecting returns what an agent does that joins each connection with one to a server.
func connecting(server string) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		line, err := ReadLine(in, MaxLine)
		var q ConnectRequest
		if err != nil || DecodeRequest(line, &q) != nil || q.Action != "connect" {
			return
		}
		inside, err := net.Dial("tcp", server)
		if err != nil {
			_ = WriteLine(conn, &Error{Code: CodeFailed, Errno: 111, Message: "cannot connect to port: nothing listens there"})
			return
		}
		if WriteLine(conn, ConnectResult{Address: server, Window: ConnectWindow}) == nil {
			AcceptConn(conn, in).Join(inside.(*net.TCPConn))
		}
	}
}

// server serves each connection, until the test ends.
func server(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func connected(t *testing.T, c *Client) *Conn {
	t.Helper()
	conn, err := c.Connect(testContext(t), 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Bytes pass both ways, more than a window of them, and each direction ends by itself.
func TestConnect(t *testing.T) {
	echo := server(t, func(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) })
	text := make([]byte, 20*ConnectWindow+17)
	_, _ = rand.New(rand.NewSource(1)).Read(text)
	overEach(t, connecting(echo), func(t *testing.T, c *Client) {
		conn := connected(t, c)
		if conn.RemoteAddr().String() != echo || conn.RemoteAddr().Network() != "tcp" || conn.LocalAddr().String() == "" {
			t.Errorf("it is a connection from %v to %v", conn.LocalAddr(), conn.RemoteAddr())
		}
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(text)
			sent <- errors.Join(err, conn.CloseWrite(), conn.CloseWrite())
		}()
		back, err := io.ReadAll(conn)
		if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%d bytes of %d came back, or others: %v", len(back), len(text), err)
		}
		if _, err := conn.Write([]byte("more")); err == nil {
			t.Error("more can be sent after the end")
		}
		<-conn.Done() // the agent has closed its end
	})
}

// A direction whose reader is slow does not keep the other one waiting.
func TestConnectSlowReader(t *testing.T) {
	const much = 16 << 20
	came := make(chan int64, 1)
	talker := server(t, func(conn *net.TCPConn) { // sends more than anybody takes, and reads all the same
		go func() { _, _ = conn.Write(make([]byte, 4*much)) }()
		n, _ := io.Copy(io.Discard, io.LimitReader(conn, much))
		came <- n
		_, _ = io.Copy(io.Discard, conn)
	})
	overEach(t, connecting(talker), func(t *testing.T, c *Client) {
		conn := connected(t, c)
		if _, err := conn.Write(make([]byte, much)); err != nil { // though nothing is read
			t.Error(err)
		}
		if n := <-came; n != much {
			t.Errorf("%d bytes came", n)
		}
	})
}

// A client that is gone ends a connection to a server that reads nothing, and a server that is
// gone ends the client's.
func TestConnectVanished(t *testing.T) {
	seen := make(chan struct{}, 1)
	deaf := server(t, func(conn *net.TCPConn) {
		b := make([]byte, 1)
		_, _ = io.ReadFull(conn, b)
		if b[0] == 'x' { // be gone
			_ = conn.SetLinger(0)
			return
		}
		for { // wait without reading
			if _, err := conn.Write([]byte("?")); err != nil {
				seen <- struct{}{}
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	overEach(t, connecting(deaf), func(t *testing.T, c *Client) {
		conn := connected(t, c)
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("it takes everything: %v", err)
		}
		_ = conn.Close()
		select {
		case <-seen:
		case <-time.After(patience):
			t.Error("the server does not see that the client is gone")
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}

		conn = connected(t, c)
		_, _ = conn.Write([]byte("x"))
		_, err := io.ReadAll(conn)
		wantError(t, err, CodeGone, "reset")
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("a connection that was reset takes more")
		}
	})
}

// TestConnectClosed: what comes while a connection is closed is not read afterwards.
func TestConnectClosed(t *testing.T) {
	eager := server(t, func(conn *net.TCPConn) {
		for b := make([]byte, 1<<10); ; {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	})
	overEach(t, connecting(eager), func(t *testing.T, c *Client) {
		for range 50 {
			conn := connected(t, c)
			reading := make(chan struct{})
			go func() {
				defer close(reading)
				_, _ = io.CopyN(io.Discard, conn, 1<<20)
			}()
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
			<-reading
			<-conn.Done()
			if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Fatalf("%d, %v", n, err)
			}
		}
	})
}

func TestConnectDeadlines(t *testing.T) {
	mute := server(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	overEach(t, connecting(mute), func(t *testing.T, c *Client) {
		conn := connected(t, c)
		_ = conn.SetDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read: %v", err)
		}
		for range 2 { // it stays
			if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("another read: %v", err)
			}
		}
		_ = conn.SetDeadline(time.Time{})
		if _, err := conn.Write(make([]byte, ConnectWindow)); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		if conn.SetDeadline(time.Now()) == nil {
			t.Error("a closed connection takes a deadline")
		}
	})
}

func TestConnectRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	overEach(t, connecting(l.Addr().String()), func(t *testing.T, c *Client) {
		_, err := c.Connect(testContext(t), 80)
		wantError(t, err, CodeFailed, "nothing listens there")
	})
	ctx, cancel := context.WithCancel(testContext(t))
	silent := pipeClient(t, func(conn net.Conn) {
		_, _ = ReadLine(bufio.NewReader(conn), MaxLine)
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	})
	if _, err := silent.Connect(ctx, 80); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An agent that breaks the protocol ends the connection, and costs no more than a window.
func TestConnectHostileAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		send func(*FrameWriter)
		code Code
	}{
		"more than the window": {func(w *FrameWriter) {
			for range 2*ConnectWindow/connectFrame + 1 {
				_ = w.WriteFrame(StreamStdout, make([]byte, connectFrame))
			}
		}, CodeTooLarge},
		"a large frame": {func(w *FrameWriter) { _ = w.WriteFrame(StreamStdout, make([]byte, connectFrame+1)) }, CodeTooLarge},
		"more after the end": {func(w *FrameWriter) {
			_ = w.WriteControl(Control{Type: "end"})
			_ = w.WriteFrame(StreamStdout, []byte("x"))
		}, CodeTooLarge},
		"another stream":            {func(w *FrameWriter) { _ = w.WriteFrame(StreamStderr, []byte("x")) }, CodeBadRequest},
		"what was not sent":         {func(w *FrameWriter) { _ = w.WriteControl(Control{Type: "ack", Bytes: 1}) }, CodeBadRequest},
		"less than nothing":         {func(w *FrameWriter) { _ = w.WriteControl(Control{Type: "ack", Bytes: -1}) }, CodeBadRequest},
		"a control that is none":    {func(w *FrameWriter) { _ = w.WriteFrame(StreamControl, []byte("[]")) }, CodeBadRequest},
		"a reset for no reason":     {func(w *FrameWriter) { _ = w.WriteControl(Control{Type: "reset"}) }, CodeGone},
		"the end of the connection": {func(*FrameWriter) {}, CodeGone},
	} {
		t.Run(name, func(t *testing.T) {
			c := unixClient(t, func(conn net.Conn) {
				_, _ = ReadLine(bufio.NewReader(conn), MaxLine)
				_ = WriteLine(conn, ConnectResult{Address: "127.0.0.1:80", Window: ConnectWindow})
				tt.send(NewFrameWriter(conn))
			})
			conn := connected(t, c)
			<-conn.Done()
			_, err := conn.Write([]byte("x"))
			wantError(t, err, tt.code, "")
		})
	}
	c := unixClient(t, func(conn net.Conn) {
		_, _ = ReadLine(bufio.NewReader(conn), MaxLine)
		_ = WriteLine(conn, ConnectResult{Address: "x", Window: 1})
	})
	_, err := c.Connect(testContext(t), 80)
	wantError(t, err, CodeInternal, "window")
}

// Many small pieces take little more than their bytes.
func TestConnectSmallPieces(t *testing.T) {
	sent := make(chan struct{})
	c := unixClient(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		_, _ = ReadLine(in, MaxLine)
		_ = WriteLine(conn, ConnectResult{Address: "x", Window: ConnectWindow})
		w := NewFrameWriter(conn)
		for range 20_000 {
			_ = w.WriteFrame(StreamStdout, []byte("x"))
		}
		_ = w.WriteControl(Control{Type: "end"})
		close(sent)
		_, _ = io.Copy(io.Discard, in)
	})
	conn := connected(t, c)
	<-sent
	if text, err := io.ReadAll(conn); err != nil || len(text) != 20_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if cap(conn.queue) > 64 {
		t.Errorf("there was room for %d pieces", cap(conn.queue))
	}
}
