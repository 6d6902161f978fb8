package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/paddock-dev/paddock/egress"
)

const (
	// A name keeps its address while the sandbox lives, but its rule may go.
	addressTTL = 60
	// What answers over UDP can have, for clients that ask (RFC 6891). All fit into 512.
	udpPayload = 1232
	// Connections on which names are asked for.
	mostDNSConns = 32
	dnsIdle      = 10 * time.Second
)

// resolver answers questions for names from the table alone: nothing is asked elsewhere.
type resolver struct {
	names *names
	table func() *egress.Table
	deny  func(egress.Record)
}

// answer returns the answer to a packet, or nil if it is not a question.
func (r *resolver) answer(packet []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil || header.Response {
		return nil // an answer to an answer could go on for ever
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: header.ID, OpCode: header.OpCode, Response: true, Authoritative: true,
		RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}}
	question, edns, err := parseQuestion(&p)
	switch {
	case header.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	case err != nil:
		reply.RCode = dnsmessage.RCodeFormatError
	default:
		reply.Questions = []dnsmessage.Question{question}
		if edns != nil && edns.version > 0 {
			edns.code = 16 // BADVERS
		} else {
			r.resolve(&reply, question)
		}
		if edns != nil {
			var h dnsmessage.ResourceHeader
			_ = h.SetEDNS0(udpPayload, reply.RCode|edns.code, false) // fails for no code that is used here
			reply.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
		}
	}
	data, err := reply.Pack()
	if err != nil { // no name that was parsed is too long
		return nil
	}
	return data
}

// edns is what a question says about itself (RFC 6891).
type edns struct {
	version uint8
	code    dnsmessage.RCode
}

var errQuestions = errors.New("a packet must have one question")

// parseQuestion returns the only question of a packet, whose header has been read.
func parseQuestion(p *dnsmessage.Parser) (dnsmessage.Question, *edns, error) {
	questions, err := p.AllQuestions()
	if err == nil && len(questions) != 1 {
		err = errQuestions
	}
	if err == nil {
		err = p.SkipAllAnswers()
	}
	if err == nil {
		err = p.SkipAllAuthorities()
	}
	if err != nil {
		return dnsmessage.Question{}, nil, err
	}
	var found *edns
	for {
		h, err := p.AdditionalHeader()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return questions[0], found, nil
		case err != nil:
			return questions[0], nil, err
		case h.Type == dnsmessage.TypeOPT && found != nil:
			return questions[0], nil, errors.New("a packet must have one OPT record")
		case h.Type == dnsmessage.TypeOPT:
			found = &edns{version: uint8(h.TTL >> 16)}
		}
		if err := p.SkipAdditional(); err != nil {
			return questions[0], nil, err
		}
	}
}

// resolve answers a question.
func (r *resolver) resolve(reply *dnsmessage.Message, q dnsmessage.Question) {
	written := q.Name.String()
	if name, ok := r.reverse(written); ok && q.Type == dnsmessage.TypePTR {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: addressTTL},
			Body:   &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(name + ".")},
		}}
		return
	}
	decision := egress.Decision{Reason: "it cannot be the name of a host"}
	name, ok := egress.CanonicalName(written)
	if ok && q.Class != dnsmessage.ClassINET {
		ok, decision.Reason = false, "its class is not IN"
	}
	if ok {
		decision = r.table().Known(name)
	} else {
		name = strings.TrimSuffix(written, ".")
	}
	if !decision.Open {
		reply.RCode = dnsmessage.RCodeNameError
		reply.Authorities = noAnswer()
		// Nobody reaches a host by asking for the name of an address.
		if q.Type != dnsmessage.TypePTR {
			r.deny(egress.Record{Host: name, Rule: decision.Rule, Reason: decision.Reason})
		}
		return
	}
	if q.Type != dnsmessage.TypeA {
		reply.Authorities = noAnswer()
		return
	}
	address, ok := r.names.address(name)
	if !ok {
		reply.RCode = dnsmessage.RCodeServerFailure
		r.deny(egress.Record{Host: name, Rule: decision.Rule, Reason: "more than " + strconv.Itoa(mostNames) + " different names were asked for"})
		return
	}
	reply.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: addressTTL},
		Body:   &dnsmessage.AResource{A: address.As4()},
	}}
}

// reverse returns the name for which the address of a question such as 2.0.18.198.in-addr.arpa.
// stands.
func (r *resolver) reverse(question string) (string, bool) {
	rest, ok := strings.CutSuffix(strings.ToLower(question), ".in-addr.arpa.")
	if !ok {
		return "", false
	}
	address, err := netip.ParseAddr(rest)
	if err != nil || !address.Is4() {
		return "", false
	}
	b := address.As4()
	return r.names.name(netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}))
}

// noAnswer says how long clients may remember that there is no answer: not at all, since rules
// are replaced.
func noAnswer() []dnsmessage.Resource {
	root := dnsmessage.MustNewName(".")
	return []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET},
		Body:   &dnsmessage.SOAResource{NS: root, MBox: root, Serial: 1, Refresh: 60, Retry: 60, Expire: 60},
	}}
}

// serveUDP answers packets until the socket is closed.
func (r *resolver) serveUDP(socket *net.UDPConn) error {
	packet := make([]byte, 1<<16)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(packet)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no error of one packet ends the service
			continue
		}
		if reply := r.answer(packet[:n]); reply != nil {
			_, _ = socket.WriteToUDPAddrPort(reply, from) // who asked may be gone
		}
	}
}

// dnsConns are the connections on which names are asked for.
type dnsConns struct {
	mu   sync.Mutex
	open int
}

// serve answers the questions of a connection, and closes it.
func (d *dnsConns) serve(ctx context.Context, r *resolver, conn *net.TCPConn) {
	d.mu.Lock()
	full := d.open >= mostDNSConns
	if !full {
		d.open++
	}
	d.mu.Unlock()
	if full {
		reset(conn)
		return
	}
	defer func() {
		d.mu.Lock()
		d.open--
		d.mu.Unlock()
	}()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { reset(conn) })()
	for {
		_ = conn.SetDeadline(time.Now().Add(dnsIdle))
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, packet); err != nil {
			return
		}
		reply := r.answer(packet)
		if reply == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}
