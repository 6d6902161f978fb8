package agent

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/wire"
)

// TestPassSockets: the host side gets unbound sockets, one for UDP and then TCP sockets; where it
// does not listen, the agent says what is needed.
func TestPassSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := passSockets(wire.GuestPassage{Path: path, Sockets: 3}); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sockets, next, err := confine.ReceiveFiles(file, 3)
	if err != nil || next != '\n' || len(sockets) != 3 {
		t.Fatalf("%v, %q, %v", sockets, next, err)
	}
	for i, fd := range sockets {
		want := unix.SOCK_STREAM
		if i == 0 {
			want = unix.SOCK_DGRAM
		}
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); kind != want {
			t.Errorf("socket %d is of type %d, %v", i, kind, err)
		}
		_ = unix.Close(fd)
	}
	_ = l.Close()
	err = passSockets(wire.GuestPassage{Path: path, Sockets: 1})
	var hint core.HintError
	if !errors.As(err, &hint) || !strings.Contains(hint.Hint, "virtual machine") || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("without a listener: %v", err)
	}
}
