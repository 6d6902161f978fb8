package stdiomux

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both gives two sides that are joined by two pipes.
func both(t *testing.T) (*Listener, *Dialer) {
	t.Helper()
	hereIn, thereOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	thereIn, hereOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen(thereIn, thereOut)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Dial(hereIn, hereOut)
	if err != nil {
		t.Fatal(err)
	}
	return ln, d
}

// joined gives both ends of a connection.
func joined(t *testing.T) (conn, other net.Conn) {
	t.Helper()
	ln, d := both(t)
	t.Cleanup(func() { d.Close() })
	conn, err := d.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if other, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return conn, other
}

// echo serves until there is nothing more to accept, and gives the reason.
func echo(ln net.Listener) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return ended
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != text {
		t.Errorf("got %q, %v, want %q", buf, err, text)
	}
}

func TestManyConnections(t *testing.T) {
	ln, d := both(t)
	ended := echo(ln)
	var conns []net.Conn
	for range 50 {
		conn, err := d.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i, conn := range conns {
		say(t, conn, string(rune('a'+i)))
		conn.Close()
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("after the pipes' end Accept gives %v", err)
	}
}

// A closed listener takes no more, and what is open goes on.
func TestCloseKeepsWhatIsOpen(t *testing.T) {
	ln, d := both(t)
	ended := echo(ln)
	conn, err := d.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say(t, conn, "before")
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener gives %v", err)
	}
	say(t, conn, "after")
	conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.DialContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dialling without time gives %v", err)
	}
	d.Close()
}

// Closing a connection ends what waits in it, whatever the other side does.
func TestCloseEndsWaiting(t *testing.T) {
	for name, wait := range map[string]func(net.Conn) error{
		"read":  func(conn net.Conn) error { _, err := conn.Read(make([]byte, 1)); return err },
		"write": func(conn net.Conn) error { _, err := conn.Write(make([]byte, 1<<20)); return err }, // more than the window
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := joined(t)
			ended := make(chan error)
			go func() { ended <- wait(conn) }()
			conn.Close()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it succeeded")
				}
			case <-time.After(closeTimeout / 2):
				t.Error("it still waits")
				t.Log(<-ended)
			}
		})
	}
}

// A writer of more than the reader takes finishes its write, and can still read an earlier answer.
func TestCloseDropsWhatIsWritten(t *testing.T) {
	conn, other := joined(t)
	go func() {
		_, _ = other.Read(make([]byte, 1))
		_, _ = io.WriteString(other, "refused")
		other.Close()
	}()
	if n, err := conn.Write(make([]byte, 1<<20)); err != nil { // more than the window
		t.Errorf("%d bytes are written: %v", n, err)
	}
	if said, err := io.ReadAll(conn); err != nil || string(said) != "refused" {
		t.Errorf("the answer is %q, %v", said, err)
	}
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read of a closed connection gives %v", err)
	}
}

// The errors are those of other connections: who looks for them does not know of yamux.
func TestErrors(t *testing.T) {
	conn, other := joined(t)
	_ = conn.SetDeadline(time.Unix(1, 0))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read out of time gives %v", err)
	}
	if _, err := conn.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) { // more than the window
		t.Errorf("a write out of time gives %v", err)
	}
	_ = conn.SetDeadline(time.Time{})
	other.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a read after the other side's close gives %v", err)
	}
	conn.Close()
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write to a closed connection gives %v", err)
	}
}

// Whoever is told that the pipe is broken gives its connections up.
func TestBroken(t *testing.T) {
	hereIn, thereOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	thereIn, hereOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer thereIn.Close()
	d, err := Dial(hereIn, hereOut)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	conn, err := d.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := thereOut.Write(Broken); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection of a broken pipe reads")
	}
	thereOut.Close()
}
