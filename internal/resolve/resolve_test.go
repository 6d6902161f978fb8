package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server answers questions from a table of names and types; names that are
// missing there do not exist.
func server(t *testing.T, table map[string][]string) uint16 {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte("noise"), from) // which is no answer
			if m := reply(b[:n], table); m != nil {
				_, _ = conn.WriteTo(m, from)
			}
		}
	}()
	return uint16(conn.LocalAddr().(*net.UDPAddr).Port)
}

func reply(question []byte, table map[string][]string) []byte {
	var labels []string
	at := header
	for question[at] != 0 {
		labels = append(labels, string(question[at+1:at+1+int(question[at])]))
		at += 1 + int(question[at])
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	addrs, known := table[strings.Join(labels, ".")]
	m := append([]byte(nil), question...)
	m[2] |= isAnswer
	switch {
	case !known:
		m[3] |= noName
	case len(addrs) == 1 && addrs[0] == "fails":
		m[3] |= 2
	case len(addrs) == 1 && addrs[0] == "silent":
		return nil
	case len(addrs) == 1 && addrs[0] == "broken":
		m[7] = 9
	default:
		// The name stands for another one first.
		m = append(m, 0xc0, header, 0, 5, 0, 1, 0, 0, 0, 1, 0, 3, 1, 'x', 0)
		count := 1
		for _, text := range addrs {
			addr := netip.MustParseAddr(text)
			if addr.Is4() == (kind == typeA) {
				m = append(m, 1, 'x', 0, 0, byte(kind), 0, 1, 0, 0, 0, 1, 0, byte(len(addr.AsSlice())))
				m = append(m, addr.AsSlice()...)
				count++
			}
		}
		m[7] = byte(count)
	}
	return m
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := files{
		hosts: write("hosts", "# names\n10.1.1.1 Box box.lan # mine\n\nfd00::1 box\nrubbish box\n"),
		conf:  write("conf", "; servers\nnameserver 127.0.0.1\nsearch corp.example. lan\noptions ndots:2 rotate\n"),
		port: server(t, map[string][]string{
			"db.corp.example": {"10.2.2.2"}, "both.example.org": {"fd00::3", "10.3.3.3"}, "six.example.org": {"fd00::4"},
			"a.b.c": {"10.4.4.4"}, "bad.example.org": {"fails"}, "odd.example.org": {"broken"},
		}),
	}
	for _, tt := range []struct {
		host, want string
		v4         bool
	}{
		{"127.0.0.2", "[127.0.0.2]", true},
		{"::ffff:1.2.3.4", "[1.2.3.4]", true},
		{"::1", "[::1]", false},
		{"::1", `cannot find the host "::1": it has no address that could be used`, true},
		{"BOX", "[10.1.1.1 fd00::1]", false},
		{"box.lan.", "[10.1.1.1]", true},
		{"localhost", "[127.0.0.1 ::1]", false},
		{"web.localhost", "[127.0.0.1]", true},
		{"db", "[10.2.2.2]", true},
		{"both.example.org", "[10.3.3.3 fd00::3]", false},
		{"six.example.org", "[fd00::4]", false},
		{"a.b.c", "[10.4.4.4]", true},
		{"nobody", `cannot find the host "nobody": no name server knows it`, false},
		{"bad.example.org", `cannot find the host "bad.example.org": the name server failed`, true},
		{"odd.example.org.", `cannot find the host "odd.example.org.": the answer of the name server makes no sense`, true},
		{"a..b.", `cannot find the host "a..b.": it is no host name`, true},
		{strings.Repeat("x", 64), `cannot find the host "` + strings.Repeat("x", 64) + `": it is no host name`, true},
	} {
		addrs, err := f.lookup(t.Context(), tt.host, tt.v4)
		got := fmt.Sprint(addrs)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s, v4 %v: got %s, want %s", tt.host, tt.v4, got, tt.want)
		}
	}
}

// A name server that is silent is waited for no longer than the caller has.
func TestLookupEnds(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte("nameserver 127.0.0.1"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := files{os.DevNull, conf, server(t, map[string][]string{"a.b": {"silent"}})}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if addrs, err := f.lookup(ctx, "a.b", true); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, %v", addrs, err)
	}
}

func TestDial(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	conn, err := Dial(t.Context(), "localhost", port, true)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// Whatever a name server says, reading it ends and takes no more than it has.
func FuzzAddresses(f *testing.F) {
	q, _ := question(7, "a.example.org", typeA)
	f.Add(reply(q, map[string][]string{"a.example.org": {"10.0.0.1"}}))
	f.Add(append(append([]byte(nil), q...), 0xc0))
	f.Fuzz(func(_ *testing.T, m []byte) {
		if len(m) >= len(q) {
			_, _ = addresses(m, len(q), typeA)
		}
	})
}
