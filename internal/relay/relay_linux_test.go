package relay

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// joined gives a client's connection, and the other end of what serves it.
func joined(t *testing.T) (client *net.UnixConn, server net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		Join(accepted, near)
	}()
	t.Cleanup(func() {
		_ = dialled.Close()
		_ = far.Close()
		select {
		case <-over:
		case <-time.After(10 * time.Second):
			t.Error("it does not end")
		}
	})
	return dialled.(*net.UnixConn), far
}

func TestBothWays(t *testing.T) {
	client, server := joined(t)
	text := make([]byte, 1<<20)
	_, _ = rand.Read(text)
	go func() { _, _ = io.CopyN(server, server, int64(len(text))) }()
	go func() { _, _ = client.Write(text) }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, text) {
		t.Errorf("what came back differs, %v", err)
	}
}

// A client that has finished sending gets its answer; its line is ended for it
// where the end was to do that, and only there.
func TestHalfClose(t *testing.T) {
	for sent, want := range map[string]string{"a line": "a line\n", "a line\n": "a line\n", "a line\nwith a body": "a line\nwith a body"} {
		client, server := joined(t)
		go func() {
			_, _ = io.WriteString(client, sent)
			_ = client.CloseWrite()
		}()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(server, got); err != nil || string(got) != want {
			t.Errorf("%q arrives as %q, %v", sent, got, err)
		}
		_, _ = io.WriteString(server, "answer")
		_ = server.Close()
		if answer, err := io.ReadAll(client); err != nil || string(answer) != "answer" {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

// Whoever closes, the other side sees it.
func TestHangup(t *testing.T) {
	client, server := joined(t)
	_ = client.Close()
	if n, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	client, server = joined(t)
	_ = server.Close()
	if n, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
}

// stuck is a connection to a server that answers and closes its end, and never reads.
type stuck struct {
	net.Conn
	writes chan struct{} // one is begun
	closed chan struct{}
	once   sync.Once
}

func (s *stuck) Read([]byte) (int, error) { <-s.writes; return 0, io.EOF }

func (s *stuck) Write([]byte) (int, error) {
	close(s.writes)
	<-s.closed
	return 0, net.ErrClosed
}

func (s *stuck) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// A write to a server that has closed its end does not delay Join.
func TestHangupWithoutReading(t *testing.T) {
	client, near := net.Pipe()
	server := &stuck{writes: make(chan struct{}), closed: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		Join(near, server)
	}()
	_, _ = client.Write([]byte("a body"))
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client is not told")
	}
}
