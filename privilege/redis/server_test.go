package redis

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server is a Redis server of the test's own, in a directory of its own. What
// it has acknowledged outlives its death.
type server struct {
	t    testing.TB
	args []string
	url  string
	cmd  *exec.Cmd
}

// start starts a server on a Unix socket, and on a port of loopback too where
// that is asked for.
func start(t testing.TB, tcp bool, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("SKIPPED ALOUD: redis-server is not installed here: make redis-deps, as root")
	}
	dir := t.TempDir()
	socket, port := filepath.Join(dir, "s"), "0"
	s := &server{t: t, url: "unix://" + socket}
	if tcp {
		port = freePort(t)
		s.url = "redis://127.0.0.1:" + port
	}
	s.args = append([]string{"--dir", dir, "--unixsocket", socket, "--unixsocketperm", "700", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}, args...)
	t.Cleanup(s.kill)
	s.start()
	return s
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts the server and waits until it says that it is ready.
func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	ready := make(chan error, 1)
	go func() {
		var said strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if strings.Contains(lines.Text(), "eady to accept connections") {
				ready <- nil
				_, _ = io.Copy(io.Discard, out)
				return
			}
		}
		ready <- fmt.Errorf("redis-server ended: %s", said.String())
	}()
	select {
	case err := <-ready:
		if err != nil {
			s.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		s.t.Fatal("redis-server is not ready after a minute")
	}
}

// kill ends the server as a crash would.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it says that it was killed
		s.cmd = nil
	}
}

func (s *server) open() *Store {
	s.t.Helper()
	store, err := Open(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = store.Close() })
	client, _ := store.(*Store) // it is nothing else
	return client
}

// set writes as another program would.
func (s *server) set(store *Store, key, field, value string) {
	s.t.Helper()
	if err := store.client.HSet(context.Background(), key, field, value).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// entry reads as another program would; "" where there is nothing.
func (s *server) entry(store *Store, key, field string) string {
	return store.client.HGet(context.Background(), key, field).Val()
}
