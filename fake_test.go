package paddock

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/egresstest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// fakeBackend builds no wall: its agent is a goroutine that plays commands
// (see play). What it was asked is kept for tests to look at.
type fakeBackend struct {
	t        *testing.T
	mu       sync.Mutex
	spec     policy.Spec
	requests []wire.ExecRequest
	signals  []string
	stops    int
	proved   bool
	id       string // empty: fake
	iso      policy.Isolation
	rules    []string // what hello says of redaction
	egress   *egresstest.Process
}

func (f *fakeBackend) Name() string { return "linux" }

func (f *fakeBackend) Probe(context.Context) backend.Report {
	return backend.Report{Backend: "linux", Usable: true}
}

func (f *fakeBackend) Plan(_ context.Context, req backend.Request) (*confine.Plan, error) {
	return &confine.Plan{Workspace: req.Spec.Workspace.Source}, nil
}

func (f *fakeBackend) Start(_ context.Context, req backend.Request) (backend.Sandbox, error) {
	f.spec = req.Spec
	ln, err := net.Listen("unix", filepath.Join(f.t.TempDir(), "a"))
	if err != nil {
		return nil, err
	}
	s := &fakeSandbox{fake: f, ln: ln, done: make(chan struct{})}
	go s.serve()
	return s, nil
}

// asked is the last request.
func (f *fakeBackend) asked() wire.ExecRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}

type fakeSandbox struct {
	fake  *fakeBackend
	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
	done  chan struct{}
}

func (s *fakeSandbox) ID() string {
	if s.fake.id != "" {
		return s.fake.id
	}
	return "fake"
}
func (s *fakeSandbox) Isolation() policy.Isolation {
	i := s.fake.iso
	i.Backend = "fake"
	if s.fake.egress != nil {
		i.Network, i.Egress = policy.NetworkAllow, s.fake.spec.Network.Egress("gateway")
	}
	return i
}

func (s *fakeSandbox) Egress() *egress.Client {
	if s.fake.egress == nil {
		return nil
	}
	return s.fake.egress.Client()
}

func (s *fakeSandbox) Done() <-chan struct{} { return s.done }

func (s *fakeSandbox) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-s.done:
		return nil, backend.ErrGone
	default:
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.ln.Addr().String())
}

func (s *fakeSandbox) Stop(context.Context, time.Duration) (backend.Death, error) {
	s.fake.mu.Lock()
	s.fake.stops++
	s.fake.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.ln.Close()
	for _, c := range s.conns {
		_ = c.Close()
	}
	close(s.done)
	return backend.Death{Proved: s.fake.proved}, nil
}

func (s *fakeSandbox) serve() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		go s.answer(conn)
	}
}

func (s *fakeSandbox) answer(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	line, err := wire.ReadLine(br, wire.MaxLine)
	if err != nil {
		return
	}
	if head, err := wire.HeadOf(line); err == nil && head.Action == wire.Hello.Name {
		_ = wire.WriteLine(conn, wire.HelloResult{Version: wire.Version, Redaction: s.fake.rules})
		return
	}
	if head, err := wire.HeadOf(line); err == nil && head.Action == wire.Connect.Name {
		s.connect(conn, br, line)
		return
	}
	var req wire.ExecRequest
	if err := wire.DecodeRequest(line, &req); err != nil {
		_ = wire.WriteLine(conn, err)
		return
	}
	s.fake.mu.Lock()
	s.fake.requests = append(s.fake.requests, req)
	s.fake.mu.Unlock()
	p := &player{fake: s.fake, argv: req.Argv, out: wire.NewFrameWriter(conn), frames: wire.NewFrameReader(br, wire.MaxFrame)}
	switch req.Argv[0] {
	case "missing":
		_ = wire.WriteLine(conn, &wire.Error{Message: "cannot execute missing: no such file", Code: wire.CodeNotFound})
		return
	case "forbidden":
		_ = wire.WriteLine(conn, &wire.Error{Message: "cannot execute forbidden: permission denied", Code: wire.CodeNotExecutable, Hint: "chmod +x"})
		return
	}
	if wire.WriteLine(conn, wire.ExecStarted{ID: "1", Streaming: true, StdinWindow: wire.StdinWindow}) == nil {
		p.play()
	}
}

// connect connects to a port of the test's own loopback.
func (s *fakeSandbox) connect(conn net.Conn, br *bufio.Reader, line []byte) {
	var req wire.ConnectRequest
	if err := wire.DecodeRequest(line, &req); err != nil {
		_ = wire.WriteLine(conn, err)
		return
	}
	inside, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(req.Port))
	if err != nil {
		_ = wire.WriteLine(conn, &wire.Error{Code: wire.CodeFailed, Errno: int(syscall.ECONNREFUSED), Message: "cannot connect to port " + strconv.Itoa(req.Port) + ": nothing listens there"})
		return
	}
	if wire.WriteLine(conn, wire.ConnectResult{Address: inside.RemoteAddr().String(), Window: wire.ConnectWindow}) == nil {
		wire.AcceptConn(conn, br).Join(inside.(*net.TCPConn))
	}
}

// player is one command as the fake agent plays it.
type player struct {
	fake   *fakeBackend
	argv   []string
	out    *wire.FrameWriter
	frames *wire.FrameReader
}

func (p *player) play() {
	switch p.argv[0] {
	case "say": // say OUT ERR STATUS
		_ = p.out.WriteFrame(wire.StreamStdout, []byte(p.argv[1]))
		_ = p.out.WriteFrame(wire.StreamStderr, []byte(p.argv[2]))
		code, _ := strconv.Atoi(p.argv[3])
		p.exit(wire.ExecResult{ExitCode: code, DurationMS: 5, DeathProved: true})
	case "ask": // ask HOST PORT RULE REASON, which is denied
		port, _ := strconv.ParseUint(p.argv[2], 10, 16)
		p.fake.egress.Add(egress.Record{Kind: egress.KindDenied, Host: p.argv[1], Port: uint16(port), Rule: p.argv[3], Reason: p.argv[4]})
		p.exit(wire.ExecResult{ExitCode: 6, DeathProved: true})
	case "cat":
		p.cat()
	case "wait": // until a signal comes
		p.waitForSignal(p.argv[1:])
	case "deaf": // never answers
		_, _ = io.Copy(io.Discard, readerOf(p.frames))
	case "late": // says itself that it timed out
		p.exit(wire.ExecResult{ExitCode: 124, TimedOut: true, SurvivorsKilled: 2, Survivors: 2, DeathProved: true})
	case "nonsense":
		p.exit(wire.ExecResult{ExitCode: 256})
	case "vanish":
	}
}

func (p *player) exit(r wire.ExecResult) {
	r.ID = "1"
	_ = p.out.WriteControl(wire.Control{Type: "exit", Result: &r})
}

func (p *player) cat() {
	for {
		stream, n, err := p.frames.Next()
		if err != nil {
			return
		}
		if stream == wire.StreamStdin {
			data, _ := io.ReadAll(p.frames.Payload())
			_ = p.out.WriteFrame(wire.StreamStdout, data)
			_ = p.out.WriteControl(wire.Control{Type: "stdin_ack", Bytes: n})
			continue
		}
		if c, err := p.frames.ReadControl(wire.MaxControl); err != nil || c.Type == "close_stdin" {
			p.exit(wire.ExecResult{DeathProved: true})
			return
		}
	}
}

// waitForSignal prints what it was told first, so that tests know it runs.
func (p *player) waitForSignal(say []string) {
	if len(say) > 0 {
		_ = p.out.WriteFrame(wire.StreamStdout, []byte(strings.Join(say, " ")))
	}
	for {
		stream, _, err := p.frames.Next()
		if err != nil {
			return
		}
		if stream != wire.StreamControl {
			continue
		}
		c, err := p.frames.ReadControl(wire.MaxControl)
		if err != nil {
			return
		}
		p.fake.mu.Lock()
		p.fake.signals = append(p.fake.signals, c.Type+c.Signal)
		p.fake.mu.Unlock()
		switch {
		case strings.HasSuffix(c.Signal, "KILL"):
			p.exit(wire.ExecResult{ExitCode: -9, Signal: "lies", DeathProved: true})
			return
		case strings.HasSuffix(c.Signal, "TERM"):
			p.exit(wire.ExecResult{ExitCode: -15, DeathProved: true})
			return
		case strings.HasSuffix(c.Signal, "PIPE"):
			p.exit(wire.ExecResult{ExitCode: -13, DeathProved: true})
			return
		}
	}
}

// readerOf reads a peer's frames without end, as a deaf command would.
func readerOf(f *wire.FrameReader) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		_, _, err := f.Next()
		return 0, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// openFake opens a sandbox without walls.
func openFake(t *testing.T, spec Spec) (*Sandbox, *fakeBackend) {
	t.Helper()
	fake := &fakeBackend{t: t, proved: true}
	agent := executable(t, t.TempDir(), "agent")
	s, err := Open(t.Context(), spec, Options{Backend: fake, Agent: agent, StateDir: t.TempDir(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, fake
}
