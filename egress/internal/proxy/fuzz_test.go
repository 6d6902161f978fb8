package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// question packs a question as resolvers send it.
func question(t testing.TB, name string, kind dnsmessage.Type, change func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if change != nil {
		change(&m)
	}
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

func testConfig(name string) *tls.Config { return &tls.Config{ServerName: name} }

// hello returns the first message of a TLS client.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	r := &helloWriter{}
	config.InsecureSkipVerify = true
	if err := tls.Client(r, config).Handshake(); err == nil {
		t.Fatal("a handshake without a peer succeeded")
	}
	return r.Bytes()
}

type helloWriter struct {
	net.Conn
	bytes.Buffer
}

func (w *helloWriter) Read([]byte) (int, error)         { return 0, io.EOF }
func (w *helloWriter) Write(p []byte) (int, error)      { return w.Buffer.Write(p) }
func (w *helloWriter) Close() error                     { return nil }
func (w *helloWriter) SetWriteDeadline(time.Time) error { return nil }

// FuzzDNS checks that each answer is one: to the same question, of a size that always fits, and
// with an address only for names that rules open.
func FuzzDNS(f *testing.F) {
	table := egress.NewTable(policy.Network{Mode: policy.NetworkAllow, Allow: []policy.NetworkRule{{Host: "api.test"}, {Host: "*.wild.test"}}})
	for _, name := range []string{"api.test.", "a.wild.test.", "wild.test.", "evil.test.", "2.0.64.127.in-addr.arpa."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR} {
			f.Add(question(f, name, kind, nil))
		}
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		r := &resolver{names: newNames(netip.MustParsePrefix("127.64.0.0/10")), table: func() *egress.Table { return table }, deny: func(egress.Record) {}}
		answer := r.answer(packet)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil {
			t.Fatal(err)
		}
		if len(answer) > 1024 || !m.Response || m.Truncated || !bytes.Equal(answer[:2], packet[:2]) {
			t.Errorf("the answer has %d bytes: %v", len(answer), m.GoString())
		}
		for _, a := range m.Answers {
			if a.Header.Type != dnsmessage.TypeA {
				continue
			}
			name := strings.ToLower(m.Questions[0].Name.String())
			if name != "api.test." && !strings.HasSuffix(name, ".wild.test.") {
				t.Errorf("%q has an address", name)
			}
		}
	})
}

// FuzzHello checks that all that is read is sent on, and what is accepted has a name.
func FuzzHello(f *testing.F) {
	for _, name := range []string{"api.test", "evil.test", ""} {
		config := testConfig(name)
		config.CurvePreferences = []tls.CurveID{tls.X25519} // a short one
		data := hello(f, config)
		f.Add(data, uint8(1))
		f.Add(data, uint8(100))
	}
	f.Add([]byte("SSH-2.0-OpenSSH_9.9\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, first uint8) {
		start := data[:min(int(first), len(data))]
		conn := &textConn{Reader: bytes.NewReader(data[len(start):])}
		_, read, err := readHello(conn, start, time.Minute)
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(conn.Reader)
		if !bytes.Equal(append(read, rest...), data) || conn.written > 0 {
			t.Errorf("%d bytes were read of %d, and %d are left; %d were written", len(read), len(data), len(rest), conn.written)
		}
	})
}

// textConn is a connection that has a text.
type textConn struct {
	net.Conn
	io.Reader
	written int
}

func (c *textConn) Read(p []byte) (int, error)      { return c.Reader.Read(p) }
func (c *textConn) SetReadDeadline(time.Time) error { return nil }
func (c *textConn) Write(p []byte) (int, error) {
	c.written += len(p)
	return len(p), nil
}

// FuzzRequest checks that net/http, as one of the servers behind, understands a request that is
// sent on as it was understood here.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
		"GET http://api.test/x?y HTTP/1.1\r\nHost: api.test:80\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: evil.test\r\nTransfer-Encoding : chunked\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	to := target{name: "api.test", port: 80}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		var lines []string
		for budget := mostHead; ; {
			line, err := readLine(in, &budget)
			if err != nil {
				return
			}
			if line == "" {
				break
			}
			lines = append(lines, line)
		}
		r, refusal := parseRequest(lines)
		if refusal == nil {
			refusal = checkHost(r.host, to)
		}
		if refusal != nil {
			if refusal.status < 400 || refusal.reason == "" {
				t.Errorf("the refusal is %+v", refusal)
			}
			return
		}
		got, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(r.head), in)))
		if err != nil {
			return // it is for the host to refuse it
		}
		host, _, _ := strings.Cut(strings.ToLower(got.Host), ":")
		if strings.TrimSuffix(host, ".") != "api.test" {
			t.Errorf("the host sees %q in %q", got.Host, r.head)
		}
		chunked := len(got.TransferEncoding) > 0
		if chunked != r.chunked || !chunked && got.ContentLength != r.length {
			t.Errorf("the host sees a body of %d, chunked %v in %q", got.ContentLength, chunked, r.head)
		}
		if again, refusal := parseRequest(strings.Split(strings.TrimSuffix(string(r.head), "\r\n\r\n"), "\r\n")); refusal != nil || !bytes.Equal(again.head, r.head) {
			t.Errorf("what is sent on is read differently: %q", r.head)
		}
	})
}

// FuzzBody checks that what is sent on as a chunked body is one, and where it ends.
func FuzzBody(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n"))
	f.Add([]byte("5;x=y\r\nhello\r\n0\r\nSum: 1\r\nHost: evil.test\r\n\r\n"))
	f.Add([]byte("0\r\n\r\n"))
	f.Add([]byte("-1\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		var out bytes.Buffer
		fw := &forwarding{in: in, up: &out}
		err := fw.sendBody(&httpRequest{chunked: true})
		if refusal := (*httpError)(nil); err != nil && !errors.As(err, &refusal) && !errors.Is(err, io.EOF) && !errors.Is(err, errInside) {
			t.Errorf("the error is %v", err)
		}
		if err != nil {
			return
		}
		head := "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		whole := bufio.NewReader(io.MultiReader(strings.NewReader(head), &out, strings.NewReader("END")))
		r, err := http.ReadRequest(whole)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Errorf("the host does not understand what is sent on of %q: %v", data, err)
		}
		if rest, _ := io.ReadAll(whole); string(rest) != "END" {
			t.Errorf("the host sees %q after the body", rest)
		}
	})
}

// FuzzRequestLine checks that rules that are accepted mean what they say.
func FuzzRequestLine(f *testing.F) {
	for _, line := range []string{
		`{"op":"show"}`, `{"op":"log","after":3,"follow":true}`,
		`{"op":"set","network":{"mode":"allow","allow":[{"host":"api.test","ports":[443]}],"deny":[{"host":"x.test"}],"limits":{"connections":3,"bytes_out":"1GiB"}}}`,
		`{"op":"set","network":"allow"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, network, err := parseRequestLine(line)
		if err != nil || r.Op != egress.OpSet || egress.Check(network) != nil {
			return
		}
		table := egress.NewTable(network)
		for _, rule := range network.Allow {
			for _, port := range table.Ports() {
				if d := table.Name(rule.Host, port); d.Open && d.Rule == "" {
					t.Errorf("%s is open without a rule", rule.Host)
				}
			}
		}
	})
}
