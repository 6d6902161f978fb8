package proxy

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/paddock-dev/paddock/egress"
)

// exchange sends a packet over UDP, and reads the answer.
func (e *env) exchange(packet []byte) dnsmessage.Message {
	e.t.Helper()
	conn, err := net.Dial("udp", e.dns.String())
	if err != nil {
		e.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write(packet); err != nil {
		e.t.Fatal(err)
	}
	answer := make([]byte, 1<<16)
	n, err := conn.Read(answer)
	if err != nil {
		e.t.Fatal(err)
	}
	return parseAnswer(e.t, answer[:n])
}

func parseAnswer(t testing.TB, packet []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		t.Fatal(err)
	}
	if !m.Response || m.Truncated || m.ID != 4711 || len(packet) > 512 {
		t.Errorf("the answer has %d bytes and the header %+v", len(packet), m.Header)
	}
	return m
}

func TestNames(t *testing.T) {
	e := start(t, nil, "api.test", "*.wild.test", "db:other", "!no.wild.test")
	long := strings.Repeat("a.", 110) + "wild.test." // at the bound of what fits
	for _, tt := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers int
	}{
		{"api.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"Api.TEST.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"api.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"api.test.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 0},
		{"api.test.", dnsmessage.TypeALL, dnsmessage.RCodeSuccess, 0},
		{"api.test.", 65, dnsmessage.RCodeSuccess, 0}, // HTTPS
		{"a.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"a.b.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{long, dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{long, dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"db.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"no.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"xapi.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"www.api.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"api.test.evil.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"c2VjcmV0.tunnel.test.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, 0},
		{"localhost.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"1.2.3.4.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"0x7f.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"017700000001.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"api.test\x00.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"x@api.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"\x1b[2J.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"\u0430pi.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0}, // a Cyrillic letter
		{".", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"4.3.2.1.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, 0},
	} {
		m := e.exchange(question(t, tt.name, tt.kind, nil))
		if m.RCode != tt.code || len(m.Answers) != tt.answers || len(m.Authorities) != 1-tt.answers || len(m.Additionals) > 0 {
			t.Errorf("%q %v: %v", tt.name, tt.kind, m.GoString())
		}
		if len(m.Questions) != 1 || m.Questions[0].Name.String() != tt.name {
			t.Errorf("%q is not repeated as it was asked for: %v", tt.name, m.Questions)
		}
	}
	if asked := e.hosts.questions(); len(asked) > 0 {
		t.Errorf("the host was asked for %q", asked)
	}
	for host, reason := range map[string]string{
		"no.wild.test": "because", "wild.test": "no rule opens it", "c2vjcmv0.tunnel.test": "no rule opens it",
		`\u0430pi.test`:     "cannot be the name",
		`\x1b[2J.wild.test`: "cannot be the name", `api.test\x00.wild.test`: "cannot be the name",
	} {
		e.wants(0, egress.KindDenied, host, reason)
	}

	// The same name has the same address, also in another case; another name has another.
	one, err := e.lookup("api.test.")
	if err != nil {
		t.Fatal(err)
	}
	two, err := e.lookup("API.Test.")
	if err != nil {
		t.Fatal(err)
	}
	other, err := e.lookup("db.")
	if err != nil {
		t.Fatal(err)
	}
	if one != two || one == other {
		t.Errorf("the addresses are %v, %v, %v", one, two, other)
	}
	b := one.As4()
	m := e.exchange(question(t, fmt.Sprintf("%d.%d.%d.%d.IN-ADDR.arpa.", b[3], b[2], b[1], b[0]), dnsmessage.TypePTR, nil))
	if len(m.Answers) != 1 || m.Answers[0].Body.(*dnsmessage.PTRResource).PTR.String() != "api.test." {
		t.Errorf("the name of an address: %v", m.GoString())
	}
}

func TestPackets(t *testing.T) {
	e := start(t, nil, "api.test")
	ask := question(t, "api.test.", dnsmessage.TypeA, nil)
	withOPT := func(version uint32) func(*dnsmessage.Message) {
		return func(m *dnsmessage.Message) {
			var h dnsmessage.ResourceHeader
			_ = h.SetEDNS0(4096, 0, true)
			h.TTL |= version << 16
			m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
		}
	}
	m := e.exchange(question(t, "api.test.", dnsmessage.TypeA, withOPT(0)))
	if len(m.Answers) != 1 || len(m.Additionals) != 1 || m.Additionals[0].Header.Class != 1232 || m.Additionals[0].Header.TTL != 0 {
		t.Errorf("with EDNS: %v", m.GoString())
	}
	m = e.exchange(question(t, "api.test.", dnsmessage.TypeA, withOPT(1)))
	if len(m.Answers) != 0 || len(m.Additionals) != 1 || m.Additionals[0].Header.ExtendedRCode(m.RCode) != 16 {
		t.Errorf("with a later EDNS: %v", m.GoString())
	}
	for what, tt := range map[string]struct {
		packet []byte
		code   dnsmessage.RCode
	}{
		"two questions": {question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), dnsmessage.RCodeFormatError},
		"no question":   {question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = nil }), dnsmessage.RCodeFormatError},
		"an update":     {question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.OpCode = 5 }), dnsmessage.RCodeNotImplemented},
		"cut":           {ask[:20], dnsmessage.RCodeFormatError},
		"header alone":  {ask[:12], dnsmessage.RCodeFormatError},
		"a loop":        {append(ask[:12:12], 0xc0, 12, 0, 1, 0, 1), dnsmessage.RCodeFormatError},
		"a label with a dot": {append(ask[:12:12], 8, 'a', 'p', 'i', '.', 't', 'e', 's', 't', 0, 0, 1, 0, 1),
			dnsmessage.RCodeFormatError},
		"two OPT": {question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { withOPT(0)(m); withOPT(0)(m) }), dnsmessage.RCodeFormatError},
	} {
		if m := e.exchange(tt.packet); m.RCode != tt.code || len(m.Answers) > 0 {
			t.Errorf("%s: %v", what, m.GoString())
		}
	}
	// What is no question has no answer: the next packet that has one is the next question's.
	conn, err := net.Dial("udp", e.dns.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response, m.ID = true, 1 })
	for _, packet := range [][]byte{{}, {1, 2, 3}, answer, make([]byte, 60_000), ask} {
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 1<<16)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint16(buffer) == 0 { // the one of zeros
			continue
		}
		if m := parseAnswer(t, buffer[:n]); len(m.Answers) != 1 {
			t.Errorf("after packets that are no questions: %v", m.GoString())
		}
		return
	}
}

// askTCP asks over a connection, and returns the number of addresses in the answer.
func (e *env) askTCP(conn net.Conn, packet []byte) (int, error) {
	e.t.Helper()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
		return 0, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return 0, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0, err
	}
	return len(parseAnswer(e.t, answer).Answers), nil
}

func TestNamesOverTCP(t *testing.T) {
	e := start(t, nil, "api.test")
	conn := e.dial(e.dns.Addr().String(), e.dns.Port())
	packet := question(t, "api.test.", dnsmessage.TypeA, func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		_ = h.SetEDNS0(4096, 0, false)
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{
			Options: []dnsmessage.Option{{Code: 12, Data: make([]byte, 60<<10)}}, // padding
		}}}
	})
	for range 3 {
		if answers, err := e.askTCP(conn, packet); answers != 1 || err != nil {
			t.Errorf("over TCP there are %d answers, %v", answers, err)
		}
	}
	if s := e.State(); s.Connections != 0 || s.Denied != 0 {
		t.Errorf("the state is %+v", s)
	}
	// Only there: the port elsewhere is a port as any other.
	e.mustNotOpen("127.0.0.1", e.dns.Port())
	e.wants(0, egress.KindDenied, "127.0.0.1", "no rule opens this address")
}

func TestTooManyDNSConnections(t *testing.T) {
	e := start(t, nil, "api.test")
	address, packet := e.dns.Addr().String(), question(t, "api.test.", dnsmessage.TypeA, nil)
	var open []net.Conn
	for range mostDNSConns {
		conn := e.dial(address, e.dns.Port())
		if answers, err := e.askTCP(conn, packet); answers != 1 || err != nil {
			t.Fatalf("connection %d: %d answers, %v", len(open), answers, err)
		}
		open = append(open, conn)
	}
	e.mustNotOpen(address, e.dns.Port())
	if _, err := e.lookup("api.test."); err != nil {
		t.Error("over UDP:", err)
	}
	// What is no question ends a connection, and makes room for another.
	if _, err := e.askTCP(open[0], nil); err == nil {
		t.Error("an empty packet is answered")
	}
	for end := time.Now().Add(time.Minute); ; {
		conn, err := e.tryDial(address, e.dns.Port())
		if err == nil {
			_, err = e.askTCP(conn, packet)
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("there is no room for another connection:", err)
		}
	}
}

func TestTooManyNames(t *testing.T) {
	e := start(t, nil, "*.wild.test")
	for i := range mostNames {
		if m := parseAnswer(t, e.resolver.answer(question(t, fmt.Sprintf("n%d.wild.test.", i), dnsmessage.TypeA, nil))); len(m.Answers) != 1 {
			t.Fatalf("name %d: %v", i, m.GoString())
		}
	}
	if m := e.exchange(question(t, "more.wild.test.", dnsmessage.TypeA, nil)); m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("one name too many: %v", m.GoString())
	}
	e.wants(0, egress.KindDenied, "more.wild.test", "more than 4096 different names")
	if _, err := e.lookup("n0.wild.test."); err != nil {
		t.Error("a name that has an address:", err)
	}
	// Denials in a row are counted in one record.
	before := e.State()
	for range 100 {
		e.resolver.answer(question(t, "evil.test.", dnsmessage.TypeA, nil))
	}
	r := e.wants(before.Last, egress.KindDenied, "evil.test", "no rule opens it")
	if after := e.State(); r.Count != 100 || after.Denied != before.Denied+100 || after.Last != before.Last+1 {
		t.Errorf("the record is %+v, the state was %+v and is %+v", r, before, after)
	}
	// One that somebody has read does not change any more.
	e.resolver.answer(question(t, "evil.test.", dnsmessage.TypeA, nil))
	if r := e.wants(r.Seq, egress.KindDenied, "evil.test", "no rule opens it"); r.Count != 0 {
		t.Errorf("the record is %+v", r)
	}
}
