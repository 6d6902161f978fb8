// Package sshagent lets commands of a sandbox use the SSH agent of its operator, within narrow
// bounds. It serves the agent's protocol on a socket inside, and asks the operator's agent over
// a connection that was made for it.
//
//	server := sshagent.New(options)
//	server.Serve(ctx, listener)
//
// Commands can list the keys that they may use, and have two things signed. One is a login to a
// host: the connection must have been bound to the session before
// ("session-bind@openssh.com"), with a signature of the host's key, and the host must be one
// that a rule opens and of which known_hosts has this key. The other is a signature of git's, if
// that is allowed. Everything else is refused and recorded: what cannot be read, other
// extensions, changes of the agent, and sessions that lead further on.
package sshagent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/egress/knownhosts"
)

// Options say what a [Server] allows.
type Options struct {
	// Agent is the connection to the operator's agent.
	Agent net.Conn
	// Keys are the fingerprints of the keys that may be used; nil: all.
	Keys []string
	// Sign allows signatures of git's.
	Sign bool
	// Hosts has the keys of hosts that are known.
	Hosts *knownhosts.File
	// Rules returns the rules that hold at the moment.
	Rules func() *egress.Table
	// Record records each use (KindSSH) and each refusal (KindDenied).
	Record func(egress.Record)

	// What follows is for tests alone.

	// MessageTimeout is the time for a request from its first byte, IdleTimeout that
	// between two, AnswerTimeout that for the operator's agent, which may ask a person.
	MessageTimeout, IdleTimeout, AnswerTimeout time.Duration
}

const (
	mostConns    = 32
	mostSessions = 1024
	mostKeys     = 256
)

// Server serves the agent's protocol.
type Server struct {
	o     Options
	agent agent.ExtendedAgent
	slots chan struct{}

	mu       sync.Mutex
	sessions [][sha256.Size]byte // that connections were bound to, the last ones
}

// New returns a server that is not serving.
func New(o Options) *Server {
	if o.MessageTimeout == 0 {
		o.MessageTimeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 5 * time.Minute
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = 2 * time.Minute
	}
	return &Server{o: o, agent: agent.NewClient(o.Agent), slots: make(chan struct{}, mostConns)}
}

// Serve accepts until ctx ends, and returns when nothing is left. It closes the listener and
// the connection to the operator's agent.
func (s *Server) Serve(ctx context.Context, l net.Listener) {
	end := func() {
		_ = l.Close()
		_ = s.o.Agent.Close()
	}
	defer end() // where ctx ended before what follows was called
	defer context.AfterFunc(ctx, end)()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err == nil {
			running.Go(func() {
				defer func() { <-s.slots }()
				s.serve(ctx, conn)
			})
			continue
		}
		<-s.slots
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select { // descriptors or memory are short
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// client is a connection of a command.
type client struct {
	s     *Server
	bound *binding // the session of the connection; nil: none
	// refused says why a binding was refused.
	refused string
}

// refusal is why a request is not done.
type refusal struct {
	host   knownhosts.Host
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

// serve answers the requests of a connection until it ends.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c := &client{s: s}
	for {
		message, err := s.next(conn)
		if err == nil {
			var answer []byte
			if answer, err = c.answer(ctx, message); err == nil {
				_ = conn.SetWriteDeadline(time.Now().Add(s.o.MessageTimeout))
				if writeMessage(conn, answer) != nil {
					return
				}
				continue
			}
		} else if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		denied := (*refusal)(nil)
		if !errors.As(err, &denied) { // what follows could be anything
			s.o.Record(egress.Record{Kind: egress.KindDenied, Rule: egress.RuleSSHAgent, Reason: "a request was refused: " + err.Error()})
			return
		}
		s.o.Record(egress.Record{Kind: egress.KindDenied, Rule: egress.RuleSSHAgent, Host: denied.host.Name, Port: denied.host.Port, Reason: denied.reason})
		_ = conn.SetWriteDeadline(time.Now().Add(s.o.MessageTimeout))
		if writeMessage(conn, []byte{msgFailure}) != nil {
			return
		}
	}
}

// next reads the next request. The error of a connection that has ended, or has been idle for
// too long, between two of them is io.EOF.
func (s *Server) next(conn net.Conn) ([]byte, error) {
	_ = conn.SetReadDeadline(time.Now().Add(s.o.IdleTimeout))
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return nil, io.EOF
	}
	_ = conn.SetReadDeadline(time.Now().Add(s.o.MessageTimeout))
	message, err := readMessage(io.MultiReader(bytes.NewReader(first), conn))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return message, err
}

// answer does what a request asks for.
func (c *client) answer(ctx context.Context, message []byte) ([]byte, error) {
	switch kind, body := message[0], message[1:]; kind {
	case msgList:
		return c.list(ctx)
	case msgSign:
		return c.sign(ctx, body)
	case msgExtension:
		return c.extension(body)
	default:
		return nil, refuse("commands may only list keys and have logins signed, and the request %s", requestName(kind))
	}
}

// requestName says what a request wants.
func requestName(kind byte) string {
	switch kind {
	case 17, 25:
		return "adds a key"
	case 8, 9, 18, 19: // 8 and 9 are of SSH 1
		return "removes keys"
	case 20, 26, 21:
		return "adds or removes a smartcard"
	case 22, 23:
		return "locks or unlocks the agent"
	}
	return "has the number " + strconv.Itoa(int(kind))
}

// keys returns the keys of the operator's agent that may be used.
func (c *client) keys(ctx context.Context) ([]*agent.Key, error) {
	all, err := ask(ctx, c.s, c.s.agent.List)
	if err != nil {
		return nil, err
	}
	var keys []*agent.Key
	for _, key := range all[:min(len(all), mostKeys)] {
		if digest := fingerprint(key.Blob); digest != "" && (len(c.s.o.Keys) == 0 || slices.Contains(c.s.o.Keys, digest)) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// ask does something with the operator's agent, which may be slow.
func ask[T any](ctx context.Context, s *Server, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	var none T
	select {
	case r := <-done:
		if r.err != nil {
			return none, refuse("your SSH agent did not do it: %v", r.err)
		}
		return r.value, nil
	case <-time.After(s.o.AnswerTimeout):
		return none, refuse("your SSH agent does not answer")
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// fingerprint returns the fingerprint of a key, or of the key in a certificate.
func fingerprint(blob []byte) string {
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return ""
	}
	if certificate, ok := key.(*ssh.Certificate); ok {
		key = certificate.Key
	}
	return ssh.FingerprintSHA256(key)
}

func (c *client) list(ctx context.Context) ([]byte, error) {
	keys, err := c.keys(ctx)
	if err != nil {
		return nil, err
	}
	answer := ssh.Marshal(struct {
		Type byte
		Keys uint32
	}{msgIdentities, uint32(len(keys))})
	for _, key := range keys {
		// Comments are often paths and names of the host.
		answer = append(answer, ssh.Marshal(struct {
			Blob    []byte
			Comment string
		}{key.Blob, "paddock"})...)
	}
	c.s.o.Record(egress.Record{Kind: egress.KindSSH, Reason: "listed keys: " + strconv.Itoa(len(keys))})
	return answer, nil
}

// extension binds the connection to a session, once.
func (c *client) extension(body []byte) ([]byte, error) {
	b, ok, err := parseExtension(body)
	switch {
	case err != nil:
		return nil, refuse("the request for an extension cannot be read")
	case !ok:
		return nil, refuse("the request is for an extension")
	}
	host, err := c.bind(b)
	if err != nil {
		c.refused = err.Error()
		return nil, &refusal{host, "a session was refused: " + err.Error()}
	}
	return []byte{msgSuccess}, nil
}

func (c *client) bind(b binding) (knownhosts.Host, error) {
	switch {
	case b.Forwards:
		return knownhosts.Host{}, errors.New("it forwards the agent to another host")
	case c.bound != nil:
		return knownhosts.Host{}, errors.New("the connection has one already")
	}
	if err := b.check(); err != nil {
		return knownhosts.Host{}, err
	}
	host, err := c.s.host(b.HostKey)
	if err != nil {
		return host, err
	}
	if !c.s.note(b.Session) {
		return host, errors.New("another connection had the same session before")
	}
	c.bound = &b
	return host, nil
}

// host returns the host that has a key and that a rule opens.
func (s *Server) host(key []byte) (knownhosts.Host, error) {
	host, ok := s.o.Hosts.Find(s.o.Rules(), key)
	if !ok {
		return host, fmt.Errorf("known_hosts has the key %s %s", fingerprint(key), egress.SSHNoHost)
	}
	return host, nil
}

// note keeps a session, and reports false if it was kept before.
func (s *Server) note(session []byte) bool {
	sum := sha256.Sum256(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.sessions, sum) {
		return false
	}
	if len(s.sessions) == mostSessions {
		s.sessions = slices.Delete(s.sessions, 0, 1)
	}
	s.sessions = append(s.sessions, sum)
	return true
}

func (c *client) sign(ctx context.Context, body []byte) ([]byte, error) {
	r, err := parseSign(body)
	if err != nil {
		return nil, refuse("the request for a signature cannot be read")
	}
	record, err := c.allows(r)
	if err != nil {
		return nil, err
	}
	host := knownhosts.Host{Name: record.Host, Port: record.Port}
	key, err := ssh.ParsePublicKey(r.Key)
	if err != nil {
		return nil, &refusal{host, "the key cannot be read"}
	}
	record.Key = fingerprint(r.Key)
	keys, err := c.keys(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(keys, func(own *agent.Key) bool { return bytes.Equal(own.Blob, r.Key) }) {
		return nil, &refusal{host, "the key " + record.Key + " may not be used, or your SSH agent does not have it"}
	}
	signature, err := ask(ctx, c.s, func() (*ssh.Signature, error) {
		return c.s.agent.SignWithFlags(key, r.Data, agent.SignatureFlags(r.Flags))
	})
	if err != nil {
		return nil, err
	}
	c.s.o.Record(record)
	return ssh.Marshal(struct {
		Type      byte
		Signature []byte
	}{msgSignature, ssh.Marshal(*signature)}), nil
}

// allows returns the record of a signature that may be given.
func (c *client) allows(r signRequest) (egress.Record, error) {
	record := egress.Record{Kind: egress.KindSSH}
	if r.Flags != 0 && r.Flags != uint32(agent.SignatureFlagRsaSha256) && r.Flags != uint32(agent.SignatureFlagRsaSha512) {
		return record, refuse("the signature has the unknown flags %#x", r.Flags)
	}
	if namespace, ok := parseSSHSIG(r.Data); ok {
		switch {
		case namespace != "git":
			return record, refuse("signatures of the namespace %q are not allowed", namespace)
		case !c.s.o.Sign:
			return record, refuse(egress.SSHNoSign)
		}
		record.Reason = "signed for git"
		return record, nil
	}
	l, hostKey, ok := parseLogin(r.Data)
	switch {
	case !ok:
		return record, refuse("what is to be signed is neither a login nor a signature of git's")
	case c.bound == nil && c.refused != "":
		return record, refuse("a login was refused, as its session was before: %s", c.refused)
	case c.bound == nil:
		return record, refuse("a login was refused: the connection is bound to no session, which OpenSSH does from version 8.9 on")
	case !bytes.Equal(l.Session, c.bound.Session):
		return record, refuse("a login was refused: it is for another session than that of the connection")
	case !bytes.Equal(l.Key, r.Key):
		return record, refuse("a login was refused: it names another key than the one that signs")
	case hostKey != nil && !bytes.Equal(hostKey, c.bound.HostKey):
		return record, refuse("a login was refused: it names another host's key")
	}
	host, err := c.s.host(c.bound.HostKey) // rules can have changed
	if err != nil {
		return record, refuse("a login was refused: %v", err)
	}
	record.Host, record.Port, record.Rule, record.Reason = host.Name, host.Port, host.Rule, "signed in as "+l.User
	return record, nil
}
