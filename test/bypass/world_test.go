//go:build linux

package bypass

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// The world is a network namespace in which every address is local: whatever anybody connects
// to is answered there, with a mark. This is its process.

// resolverAt is where this host asks for names.
const resolverAt = "198.51.100.2"

// addresses are those of names outside. Names that are not in it have that of evil.test. Those
// for documentation would not do: codex takes them for local ones.
var addresses = map[string]string{
	"api.test": "203.0.114.10", "other.test": "203.0.114.30", "drop.test": "203.0.114.40", "new.test": "203.0.114.50",
	"loop.test": "127.0.0.1", "own.test": hostAt, "private.test": "10.1.2.3", "metadata.test": "169.254.169.254",
	"keys.test": "203.0.114.80", "stand.test": "203.0.114.81", "narrow.test": "203.0.114.82",
}

const (
	hostAt = "198.51.100.1" // of this host, towards the world
	evilAt = "203.0.114.66"
)

// zone answers questions for names, and knows which were asked for.
type zone struct {
	mu     sync.Mutex
	asked  map[string]bool
	rebind int
}

// answer returns the answer to a packet with one question.
func (z *zone) answer(packet []byte) []byte {
	var labels []string
	at := 12
	for at < len(packet) && packet[at] != 0 && int(packet[at]) < 64 && at+1+int(packet[at]) < len(packet) {
		labels = append(labels, string(packet[at+1:at+1+int(packet[at])]))
		at += 1 + int(packet[at])
	}
	if at+5 > len(packet) || packet[at] != 0 {
		return nil
	}
	name, kind := strings.ToLower(strings.Join(labels, ".")), binary.BigEndian.Uint16(packet[at+1:])
	to := addresses[name]
	z.mu.Lock()
	z.asked[name] = true
	if name == "rebind.test" && kind == 1 {
		to = []string{"203.0.114.70", "127.0.0.1"}[z.rebind%2]
		z.rebind++
	}
	z.mu.Unlock()
	if to == "" {
		to = evilAt
	}
	out := append([]byte{packet[0], packet[1], 0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, packet[12:at+5]...)
	if kind == 1 || kind == 16 || kind == 65 {
		out[7] = 1
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, net.ParseIP(to).To4()...)
	}
	return out
}

func (z *zone) wasAsked(name string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked[strings.ToLower(name)]
}

// certificate makes one for any name.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "of the world"}, DNSNames: []string{"*.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// serveWorld serves at every address until standard input ends.
func serveWorld() error {
	z := &zone{asked: map[string]bool{}}
	cert, err := certificate()
	if err != nil {
		return err
	}
	listen := func(port string) (l net.Listener) {
		if err == nil {
			l, err = net.Listen("tcp4", "0.0.0.0:"+port)
		}
		return l
	}
	packets := func(at string) (p net.PacketConn) {
		if err == nil {
			p, err = net.ListenPacket("udp4", at)
		}
		return p
	}
	web, plain, ssh, names := listen("443"), listen("80"), listen("22"), listen("53")
	quic, lookups := packets("0.0.0.0:443"), packets("0.0.0.0:53")
	if err != nil {
		return err
	}
	serveTLS(web, cert, "")
	each(plain, func(conn net.Conn) { servePlain(conn, z) })
	each(ssh, func(conn net.Conn) { _, _ = io.WriteString(conn, "mark: a banner") })
	each(names, func(conn net.Conn) {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, packet); err == nil {
			answer := z.answer(packet)
			_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}
	})
	eachPacket(quic, func([]byte) []byte { return []byte("mark: a datagram") })
	eachPacket(lookups, z.answer)
	fmt.Println(base64.StdEncoding.EncodeToString(cert.Certificate[0])) // it is ready
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// each handles the connections of a listener.
func each(l net.Listener, handle func(net.Conn)) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
}

func eachPacket(p net.PacketConn, handle func([]byte) []byte) {
	go func() {
		buffer := make([]byte, 65536)
		for {
			n, from, err := p.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := handle(buffer[:n]); answer != nil {
				_, _ = p.WriteTo(answer, from)
			}
		}
	}()
}

// serveTLS answers requests over TLS with a mark, and text that is not TLS too.
func serveTLS(l net.Listener, cert tls.Certificate, who string) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "mark:%s %s %s for %s at %s %v\n", who, r.Method, r.TLS.ServerName, r.Host, r.Context().Value(http.LocalAddrContextKey), r.Header)
	})
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	server := &http.Server{Handler: handler, TLSConfig: config, Protocols: protocols}
	inner := &handed{addr: l.Addr(), conns: make(chan net.Conn)}
	go func() { _ = server.Serve(inner) }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(conn)
				if first, err := r.Peek(1); err == nil && first[0] != 22 {
					_, _ = io.WriteString(conn, "mark:"+who+" not TLS")
					_ = conn.Close()
					return
				}
				secure := tls.Server(&peeked{conn, r}, config)
				_ = secure.SetDeadline(time.Now().Add(time.Minute))
				if err := secure.Handshake(); err != nil {
					_ = conn.Close()
					return
				}
				_ = secure.SetDeadline(time.Time{})
				if !echoes(secure) {
					inner.conns <- secure
				}
			}()
		}
	}()
}

type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

type handed struct {
	addr  net.Addr
	conns chan net.Conn
}

func (h *handed) Accept() (net.Conn, error) { return <-h.conns, nil }
func (h *handed) Close() error              { return nil }
func (h *handed) Addr() net.Addr            { return h.addr }

// servePlain answers with everything that came, as a server would that reads too much into it.
// It upgrades to an echo.
func servePlain(conn net.Conn, z *zone) {
	got := received(conn, upgrades)
	if upgrades(got) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		_, rest, _ := bytes.Cut(got, []byte("\r\n\r\n"))
		_, _ = conn.Write(rest)
		_, _ = io.Copy(conn, conn)
		return
	}
	body := fmt.Sprintf("mark:%q", got)
	if _, rest, ok := strings.Cut(string(got), "/asked?"); ok {
		name, _, _ := strings.Cut(rest, " ")
		if body = "mark:never asked"; z.wasAsked(name) {
			body = "mark:asked"
		}
	}
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// upgrades reports whether a whole head asks for a WebSocket.
func upgrades(got []byte) bool {
	return bytes.Contains(got, []byte("/ws ")) && bytes.Contains(got, []byte("\r\n\r\n"))
}
