package sshagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/paddock-dev/paddock/egress"
	known "github.com/paddock-dev/paddock/egress/knownhosts"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// world is a served agent of an operator with two keys, and hosts: git is open and known, closed
// is known, evil is neither, and other is known at a port that no rule opens.
type world struct {
	t                              *testing.T
	path                           string
	git, closed, evil, other, gone ssh.Signer
	keys                           []ssh.PublicKey // the operator's: the first may be used
	mu                             sync.Mutex
	records                        []egress.Record
	table                          *egress.Table
}

func signer(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, private
}

func table(rules ...policy.NetworkRule) *egress.Table {
	return egress.NewTable(policy.Network{Mode: policy.NetworkAllow, Allow: rules})
}

// newWorld serves an agent; change sees the options before.
func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "s"), table: table(policy.NetworkRule{Host: "git.test", Ports: []policy.Port{22}})}
	for _, s := range []*ssh.Signer{&w.git, &w.closed, &w.evil, &w.other, &w.gone} {
		*s, _ = signer(t)
	}
	ring := agent.NewKeyring()
	for range 2 {
		s, private := signer(t)
		if err := ring.Add(agent.AddedKey{PrivateKey: private, Comment: "/home/me/.ssh/key"}); err != nil {
			t.Fatal(err)
		}
		w.keys = append(w.keys, s.PublicKey())
	}
	here, there := net.Pipe()
	go func() { _ = agent.ServeAgent(ring, there) }()
	line := func(host string, s ssh.Signer) string { return knownhosts.Line([]string{host}, s.PublicKey()) + "\n" }
	text := line("git.test", w.git) + line("closed.test", w.closed) + line("[git.test]:2222", w.other) + line("git.test", w.gone) + "@revoked * " + strings.TrimPrefix(line("x", w.gone), "x ")
	o := Options{
		Agent: here, Keys: []string{ssh.FingerprintSHA256(w.keys[0])}, Hosts: known.Parse([]byte(text)),
		Rules: func() *egress.Table { w.mu.Lock(); defer w.mu.Unlock(); return w.table },
		Record: func(r egress.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.records = append(w.records, r)
		},
	}
	if change != nil {
		change(&o)
	}
	l, err := net.Listen("unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		New(o).Serve(ctx, l)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = there.Close()
	})
	return w
}

func (w *world) last() egress.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.records) == 0 {
		return egress.Record{}
	}
	return w.records[len(w.records)-1]
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	for {
		conn, err := net.Dial("unix", w.path)
		if errors.Is(err, syscall.EAGAIN) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			w.t.Error(err)
			return nil
		}
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
		w.t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// call sends a request, and returns the answer; nil if the connection was closed.
func call(conn net.Conn, request []byte) []byte {
	if writeMessage(conn, request) != nil {
		return nil
	}
	answer, err := readMessage(conn)
	if err != nil {
		return nil
	}
	return answer
}

func fields(kind byte, of any) []byte { return append([]byte{kind}, ssh.Marshal(of)...) }

var session = bytes.Repeat([]byte{7}, 32)

// bind returns a request that binds a connection to a session, signed over signed.
func bind(t *testing.T, host ssh.Signer, session, signed []byte, forwards bool) []byte {
	t.Helper()
	signature, err := host.Sign(rand.Reader, signed)
	if err != nil {
		t.Fatal(err)
	}
	return extension(binding{host.PublicKey().Marshal(), session, ssh.Marshal(*signature), forwards})
}

func extension(b binding) []byte {
	return append(fields(msgExtension, struct{ Name string }{bindExtension}), ssh.Marshal(b)...)
}

// signLogin returns a request to sign a login.
func signLogin(session []byte, key ssh.PublicKey, change func(*login, *signRequest)) []byte {
	l := login{Session: session, Type: 50, User: "git", Service: "ssh-connection", Method: "publickey", Signed: true, Algorithm: key.Type(), Key: key.Marshal()}
	r := signRequest{Key: key.Marshal()}
	if change != nil {
		change(&l, &r)
	}
	r.Data = ssh.Marshal(l)
	return fields(msgSign, r)
}

// signFile returns a request to sign for a namespace.
func signFile(namespace string, key ssh.PublicKey) []byte {
	data := append([]byte(signatureMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{namespace, "", "sha512", make([]byte, 64)})...)
	return fields(msgSign, signRequest{Key: key.Marshal(), Data: data})
}

// TestRefused has what commands could ask for. Each of them is refused, and says why.
func TestRefused(t *testing.T) {
	type ask func(w *world) [][]byte // all but the last are done
	good := func(w *world) []byte { return bind(w.t, w.git, session, session, false) }
	tests := []struct {
		name string
		ask  ask
		want string // a part of the reason
	}{
		{"a login without a session", func(w *world) [][]byte { return [][]byte{signLogin(session, w.keys[0], nil)} }, "bound to no session"},
		{"a session of an unknown host", func(w *world) [][]byte { return [][]byte{bind(w.t, w.evil, session, session, false)} }, "for no host that a rule opens"},
		{"a session of a host that no rule opens", func(w *world) [][]byte { return [][]byte{bind(w.t, w.closed, session, session, false)} }, "for no host that a rule opens"},
		{"a session of a host's port that no rule opens", func(w *world) [][]byte { return [][]byte{bind(w.t, w.other, session, session, false)} }, "for no host that a rule opens"},
		{"a session of a revoked key", func(w *world) [][]byte { return [][]byte{bind(w.t, w.gone, session, session, false)} }, "for no host that a rule opens"},
		{"a forged signature", func(w *world) [][]byte {
			return [][]byte{bind(w.t, w.git, session, []byte("another session of 32 bytes here"), false)}
		}, "has not signed the session"},
		{"the key of one host with the signature of another", func(w *world) [][]byte {
			signature, _ := w.evil.Sign(rand.Reader, session)
			return [][]byte{extension(binding{w.git.PublicKey().Marshal(), session, ssh.Marshal(*signature), false})}
		}, "has not signed the session"},
		{"a session that leads further", func(w *world) [][]byte { return [][]byte{bind(w.t, w.git, session, session, true)} }, "forwards the agent"},
		{"a session of a wrong length", func(w *world) [][]byte { return [][]byte{bind(w.t, w.git, []byte("x"), []byte("x"), false)} }, "its session is invalid"},
		{"the same session again", func(w *world) [][]byte { return [][]byte{good(w), good(w)} }, "has one already"},
		{"a session after another", func(w *world) [][]byte {
			next := bytes.Repeat([]byte{8}, 32)
			return [][]byte{good(w), bind(w.t, w.git, next, next, false)}
		}, "has one already"},
		{"a login after a session that was refused", func(w *world) [][]byte { return [][]byte{signLogin(session, w.keys[0], nil)} }, "bound to no session"},
		{"a login for another session", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(bytes.Repeat([]byte{9}, 32), w.keys[0], nil)}
		}, "another session"},
		{"a login that names another key", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(l *login, _ *signRequest) { l.Key = w.keys[1].Marshal() })}
		}, "names another key"},
		{"a login that is bound to another host", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(l *login, _ *signRequest) {
				l.Method, l.Rest = "publickey-hostbound-v00@openssh.com", ssh.Marshal(struct{ K []byte }{w.evil.PublicKey().Marshal()})
			})}
		}, "another host's key"},
		{"a login by another method", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(l *login, _ *signRequest) { l.Method = "hostbased" })}
		}, "neither a login"},
		{"a login to another service", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(l *login, _ *signRequest) { l.Service = "x" })}
		}, "neither a login"},
		{"a login with bytes after it", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(l *login, _ *signRequest) { l.Rest = []byte("x") })}
		}, "neither a login"},
		{"a login with a key that is not named", func(w *world) [][]byte { return [][]byte{good(w), signLogin(session, w.keys[1], nil)} }, "may not be used"},
		{"a login with a key that the agent does not have", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.evil.PublicKey(), nil)}
		}, "may not be used"},
		{"unknown flags", func(w *world) [][]byte {
			return [][]byte{good(w), signLogin(session, w.keys[0], func(_ *login, r *signRequest) { r.Flags = 64 })}
		}, "unknown flags"},
		{"something else to sign", func(w *world) [][]byte {
			return [][]byte{good(w), fields(msgSign, signRequest{Key: w.keys[0].Marshal(), Data: []byte("a certificate, say")})}
		}, "neither a login"},
		{"a signature for git", func(w *world) [][]byte { return [][]byte{good(w), signFile("git", w.keys[0])} }, "not allowed"},
		{"a signature for files", func(w *world) [][]byte { return [][]byte{signFile("file", w.keys[0])} }, `namespace "file"`},
		{"a signature for mail", func(w *world) [][]byte { return [][]byte{signFile("email", w.keys[0])} }, `namespace "email"`},
		{"a signature for nothing", func(w *world) [][]byte { return [][]byte{signFile("", w.keys[0])} }, `namespace ""`},
		{"half a request to sign", func(w *world) [][]byte { return [][]byte{{msgSign, 0, 0, 0, 9, 1}} }, "cannot be read"},
		{"half an extension", func(w *world) [][]byte { return [][]byte{{msgExtension, 0, 0, 0, 9, 1}} }, "cannot be read"},
		{"half a session", func(w *world) [][]byte { b := good(w); return [][]byte{b[:len(b)-20]} }, "cannot be read"},
		{"another extension", func(*world) [][]byte { return [][]byte{fields(msgExtension, struct{ N string }{"query"})} }, "for an extension"},
		{"adding a key", func(*world) [][]byte { return [][]byte{{17, 1, 2, 3}} }, "adds a key"},
		{"adding a key with constraints", func(*world) [][]byte { return [][]byte{{25}} }, "adds a key"},
		{"removing a key", func(*world) [][]byte { return [][]byte{{18}} }, "removes keys"},
		{"removing all keys", func(*world) [][]byte { return [][]byte{{19}} }, "removes keys"},
		{"a smartcard", func(*world) [][]byte { return [][]byte{{20}} }, "smartcard"},
		{"locking", func(*world) [][]byte { return [][]byte{{22, 0, 0, 0, 0}} }, "locks or unlocks"},
		{"unlocking", func(*world) [][]byte { return [][]byte{{23, 0, 0, 0, 0}} }, "locks or unlocks"},
		{"an old request", func(*world) [][]byte { return [][]byte{{1}} }, "has the number 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			conn := w.dial()
			requests := tt.ask(w)
			for _, request := range requests[:len(requests)-1] {
				if answer := call(conn, request); len(answer) == 0 || answer[0] != msgSuccess {
					t.Fatalf("before: %v, %+v", answer, w.last())
				}
			}
			if answer := call(conn, requests[len(requests)-1]); !bytes.Equal(answer, []byte{msgFailure}) {
				t.Errorf("the answer is %v", answer)
			}
			if r := w.last(); r.Kind != egress.KindDenied || r.Rule != egress.RuleSSHAgent || !strings.Contains(r.Reason, tt.want) {
				t.Errorf("the record is %+v, want %q", r, tt.want)
			}
			// The connection goes on.
			if answer := call(conn, []byte{msgList}); len(answer) == 0 || answer[0] != msgIdentities {
				t.Errorf("after it: %v", answer)
			}
		})
	}
}

// TestSigned: what is allowed is signed, in each of its forms, and is on record.
func TestSigned(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Sign = true })
	conn := w.dial()
	answer := call(conn, []byte{msgList})
	var listed struct {
		Type    byte
		Keys    uint32
		Blob    []byte
		Comment string
	}
	if err := ssh.Unmarshal(answer, &listed); err != nil || listed.Keys != 1 || !bytes.Equal(listed.Blob, w.keys[0].Marshal()) || strings.Contains(listed.Comment, "/") {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	verified := func(request []byte, want egress.Record) {
		t.Helper()
		r, err := parseSign(request[1:])
		if err != nil {
			t.Fatal(err)
		}
		var signed struct {
			Type      byte
			Signature []byte
		}
		var signature ssh.Signature
		if err := errors.Join(ssh.Unmarshal(call(conn, request), &signed), ssh.Unmarshal(signed.Signature, &signature)); err != nil || signed.Type != msgSignature {
			t.Fatalf("%+v, %v, %+v", signed, err, w.last())
		}
		if err := w.keys[0].Verify(r.Data, &signature); err != nil {
			t.Error(err)
		}
		want.Kind, want.Key = egress.KindSSH, ssh.FingerprintSHA256(w.keys[0])
		if got := w.last(); got != want {
			t.Errorf("the record is %+v, want %+v", got, want)
		}
	}
	verified(signFile("git", w.keys[0]), egress.Record{Reason: "signed for git"})
	if answer := call(conn, bind(t, w.git, session, session, false)); !bytes.Equal(answer, []byte{msgSuccess}) {
		t.Fatalf("%v, %+v", answer, w.last())
	}
	in := egress.Record{Host: "git.test", Port: 22, Rule: "git.test", Reason: "signed in as git"}
	verified(signLogin(session, w.keys[0], nil), in)
	verified(signLogin(session, w.keys[0], func(l *login, _ *signRequest) {
		l.Method, l.Rest = "publickey-hostbound-v00@openssh.com", ssh.Marshal(struct{ K []byte }{w.git.PublicKey().Marshal()})
	}), in)

	// Another connection cannot use the same session.
	again := w.dial()
	if answer := call(again, bind(t, w.git, session, session, false)); !bytes.Equal(answer, []byte{msgFailure}) || !strings.Contains(w.last().Reason, "another connection") {
		t.Errorf("%v, %+v", answer, w.last())
	}
	if answer := call(again, signLogin(session, w.keys[0], nil)); !bytes.Equal(answer, []byte{msgFailure}) || !strings.Contains(w.last().Reason, "another connection") {
		t.Errorf("%v, %+v", answer, w.last())
	}
	// Rules that change hold for connections that are bound.
	w.mu.Lock()
	w.table = table()
	w.mu.Unlock()
	if answer := call(conn, signLogin(session, w.keys[0], nil)); !bytes.Equal(answer, []byte{msgFailure}) || !strings.Contains(w.last().Reason, "no host that a rule opens") {
		t.Errorf("%v, %+v", answer, w.last())
	}
}

// TestRSA: the flags that say how an RSA key signs reach the agent.
func TestRSA(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	defer there.Close()
	go func() { _ = agent.ServeAgent(ring, there) }()
	w := newWorld(t, func(o *Options) {
		_ = o.Agent.Close()
		o.Agent, o.Keys = here, nil
	})
	conn := w.dial()
	call(conn, bind(t, w.git, session, session, false))
	for flags, want := range map[uint32]string{2: ssh.KeyAlgoRSASHA256, 4: ssh.KeyAlgoRSASHA512} {
		answer := call(conn, signLogin(session, public, func(_ *login, r *signRequest) { r.Flags = flags }))
		if !bytes.Contains(answer, []byte(want)) {
			t.Errorf("flags %d: %q, %+v", flags, answer, w.last())
		}
	}
}

// TestBroken: what is no message ends the connection, and no other one.
func TestBroken(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MessageTimeout, o.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond })
	for _, tt := range []struct{ name, send, want string }{
		{"oversized", "\x00\x00\x80\x01\x0b", "longer than 32KiB"},
		{"far oversized", "\xff\xff\xff\xff\x0b", "longer than 32KiB"},
		{"empty", "\x00\x00\x00\x00", "empty"},
		{"half of a length", "\x00\x00", "timeout"},
		{"half of a message", "\x00\x00\x00\x09\x0b", "timeout"},
		{"nothing", "", ""},
	} {
		conn := w.dial()
		if _, err := io.WriteString(conn, tt.send); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %q, %v", tt.name, rest, err)
		}
		if r := w.last(); !strings.Contains(r.Reason, tt.want) {
			t.Errorf("%s: the record is %+v", tt.name, r)
		}
	}
	cut := w.dial()
	if _, err := io.WriteString(cut, "\x00\x00\x00\x09\x0b"); err != nil {
		t.Fatal(err)
	}
	_ = cut.Close()
	testkit.Eventually(t, "a message that is cut is on record", func() bool { return strings.Contains(w.last().Reason, "unexpected EOF") })
	if answer := call(w.dial(), []byte{msgList}); len(answer) == 0 || answer[0] != msgIdentities {
		t.Errorf("after all of them: %v", answer)
	}
}

// TestManyConnections: connections beyond the bound wait for their turn.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, nil)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			conn := w.dial()
			if conn == nil {
				return
			}
			defer conn.Close()
			if answer := call(conn, []byte{msgList}); len(answer) == 0 || answer[0] != msgIdentities {
				t.Errorf("the answer is %v", answer)
			}
		})
	}
	all.Wait()
}

// TestSilentAgent: an operator's agent that does not answer, or answers nonsense, is a refusal.
func TestSilentAgent(t *testing.T) {
	for name, answer := range map[string]string{"silent": "", "nonsense": "\x00\x00\x00\x02\xff\xff", "huge": "\xff\xff\xff\xff", "half": "\x00\x00\x00\x09\x0c\xff\xff\xff\xff"} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			go func() {
				_, _ = there.Read(make([]byte, 100))
				_, _ = io.WriteString(there, answer)
				if name == "half" {
					_ = there.Close()
				}
			}()
			w := newWorld(t, func(o *Options) {
				_ = o.Agent.Close()
				o.Agent, o.AnswerTimeout = here, 100*time.Millisecond
			})
			if answer := call(w.dial(), []byte{msgList}); !bytes.Equal(answer, []byte{msgFailure}) || !strings.Contains(w.last().Reason, "your SSH agent") {
				t.Errorf("%v, %+v", answer, w.last())
			}
		})
	}
}

// TestSessionsAreBounded: the list of sessions that were used does not grow forever.
func TestSessionsAreBounded(t *testing.T) {
	s := New(Options{Agent: nil})
	for i := range mostSessions + 10 {
		if !s.note([]byte(strconv.Itoa(i))) {
			t.Fatalf("session %d was used before", i)
		}
	}
	if len(s.sessions) != mostSessions || s.note([]byte(strconv.Itoa(mostSessions))) {
		t.Errorf("%d sessions are kept", len(s.sessions))
	}
}

// FuzzMessages: no bytes from inside are signed, unless they ask for it in the one form, and
// none stops the server.
func FuzzMessages(f *testing.F) {
	key := bytes.Repeat([]byte("k"), 51)
	for _, message := range [][]byte{
		{msgList}, {17}, fields(msgExtension, struct{ N string }{"query"}),
		extension(binding{key, session, key, false}),
		fields(msgSign, signRequest{Key: key, Data: ssh.Marshal(login{session, 50, "git", "ssh-connection", "publickey", true, "ssh-ed25519", key, nil})}),
		fields(msgSign, signRequest{Key: key, Data: []byte("SSHSIG\x00\x00\x00\x03git")}),
	} {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			message, err := readMessage(in)
			if err != nil {
				return
			}
			if len(message) == 0 || len(message) > maxMessage {
				t.Fatalf("a message of %d bytes", len(message))
			}
			c := &client{s: &Server{o: Options{Hosts: known.Parse(nil), Rules: func() *egress.Table { return table() }}}}
			body := message[1:]
			if b, ok, err := parseExtension(body); err == nil && ok {
				if _, err := c.bind(b); err == nil {
					t.Fatal("a session of a host that is not known")
				}
			}
			if r, err := parseSign(body); err == nil {
				if record, err := c.allows(r); err == nil {
					t.Fatalf("allowed: %+v", record)
				}
				if _, login := func() (login, bool) { l, _, ok := parseLogin(r.Data); return l, ok }(); login {
					if _, file := parseSSHSIG(r.Data); file {
						t.Fatal("both a login and a signature of a file")
					}
				}
			}
		}
	})
}
