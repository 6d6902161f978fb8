// Package session serves sessions. A session is a shell that runs one command after
// another; each command starts with the state that the one before has left. script.go
// has the lines that are sent to the shell, shell_linux.go its process and channels,
// run_linux.go the course of one command, and record.go the recorded output.
package session

import (
	"context"
	"encoding/base64"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// maxStdin bounds the standard input of a command in a session, in bytes.
const maxStdin = 8 << 20

// Table holds the sessions that were opened and not closed yet.
type Table struct {
	box *core.Sandbox

	mu      sync.Mutex
	byID    map[string]*session // nil while the session is being opened or closed
	sigchld chan os.Signal      // gets SIGCHLD when a shell stops; only in use while byID has entries
}

// New returns a table without sessions.
func New(box *core.Sandbox) *Table { return &Table{box: box} }

func (t *Table) reserve(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.byID[id]; taken {
		return &wire.Error{Code: wire.CodeExists, Object: id, Message: "session " + core.PyRepr(id) + " already exists"}
	}
	if len(t.byID) >= wire.MaxSessions {
		return &wire.Error{Code: wire.CodeBusy, Message: "cannot open the session: 32 are open", Hint: "close one with close_session"}
	}
	if t.byID == nil {
		t.byID = map[string]*session{}
	}
	if len(t.byID) == 0 {
		t.sigchld = make(chan os.Signal, 1)
		signal.Notify(t.sigchld, unix.SIGCHLD)
		go t.resumeShells(t.sigchld)
	}
	t.byID[id] = nil
	return nil
}

// put stores a session under an id, or frees the id if one is nil.
func (t *Table) put(id string, one *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one != nil {
		t.byID[id] = one
		return
	}
	delete(t.byID, id)
	if len(t.byID) == 0 {
		signal.Stop(t.sigchld)
		close(t.sigchld)
	}
}

func (t *Table) find(id string) (*session, error) {
	if id = strings.TrimSpace(id); id == "" {
		return nil, core.BadField("session_id", "session_id is required")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[id]; one != nil {
		return one, nil
	}
	return nil, &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "session " + core.PyRepr(id) + " does not exist"}
}

// remove removes a session for a caller that closes it. If several callers do this at
// once, all but one get an error. The id stays reserved until the session has ended.
func (t *Table) remove(id string) (*session, error) {
	one, err := t.find(id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[one.request.SessionID] != one {
		return nil, &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "session " + core.PyRepr(id) + " does not exist"}
	}
	t.byID[one.request.SessionID] = nil
	return one, nil
}

func (t *Table) all() (list []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(t.byID)) {
		if one := t.byID[id]; one != nil {
			list = append(list, one)
		}
	}
	return list
}

// resumeShells continues shells that have stopped themselves: no other process can.
func (t *Table) resumeShells(sigchld <-chan os.Signal) {
	for range sigchld {
		for _, s := range t.all() {
			s.mu.Lock()
			h := s.shell
			s.mu.Unlock()
			if h != nil {
				t.box.Reaper.Resume(h.process)
			}
		}
	}
}

// checkSession refuses invalid requests.
func checkSession(q *wire.OpenSessionRequest) error {
	q.SessionID = strings.TrimSpace(q.SessionID)
	switch {
	case q.SessionID == "":
		return core.BadField("session_id", "session_id is required")
	case !core.StateName(q.SessionID):
		return core.BadField("session_id", "session_id is invalid")
	case q.ShellCommand != nil && len(q.ShellCommand) == 0, len(q.ShellCommand) > 0 && q.ShellCommand[0] == "":
		return core.BadField("shell_command", "Shell command must contain at least one argument.")
	}
	for _, text := range slices.Concat(q.ShellCommand, q.StartupCommands, q.ShutdownCommands) {
		if strings.IndexByte(text, 0) >= 0 {
			return core.BadField("command", "cannot open the session: a command must not contain a NUL byte")
		}
	}
	for name, v := range map[string]float64{"command_timeout": q.CommandTimeout, "startup_timeout": q.StartupTimeout, "termination_timeout": q.TerminationTimeout} {
		if !(v > 0 && v <= math.MaxInt32) {
			return core.BadField(name, name+" must be above 0 and at most 2147483647")
		}
	}
	return checkOutput(q.MaxOutputLines, q.MaxOutputBytes, 1)
}

func checkOutput(lines, size, least int64) error {
	switch {
	case lines < least:
		return core.BadField("max_output_lines", "max_output_lines must be positive.")
	case size < 0 || size > wire.MaxSessionOutput:
		return core.BadField("max_output_bytes", "max_output_bytes must be positive, and at most 2097152")
	}
	return nil
}

// Open starts the shell of a new session and runs the startup commands in it.
func (t *Table) Open(ctx context.Context, q *wire.OpenSessionRequest) (*wire.Session, error) {
	if err := checkSession(q); err != nil {
		return nil, err
	}
	env, secrets, werr := t.box.WithSecrets(q.Env, q.SecretEnv)
	if werr != nil {
		return nil, werr
	}
	q.Env = env // also of the shells that a restart makes
	hidden, werr := t.box.Redactor(slices.Concat(q.RedactValues, secrets), q.Redaction)
	if werr != nil {
		return nil, werr
	}
	if err := t.reserve(q.SessionID); err != nil {
		return nil, err
	}
	s := &session{box: t.box, request: q, redactor: hidden, turn: make(chan struct{}, 1), stop: make(chan struct{}, 1)}
	s.summary = wire.Session{SessionID: q.SessionID, ShellCommand: q.ShellCommand, StartedAt: *core.Now(), Settings: settings(q)}
	if err := s.start(ctx); err != nil {
		t.put(q.SessionID, nil)
		return nil, err
	}
	s.release()
	t.put(q.SessionID, s)
	return s.describe(), nil
}

// settings returns the times and bounds of a session.
func settings(q *wire.OpenSessionRequest) wire.SessionSettings {
	return wire.SessionSettings{CommandTimeout: q.CommandTimeout, RestartTime: q.StartupTimeout * float64(1+len(q.StartupCommands)),
		CloseTime: q.TerminationTimeout + q.CommandTimeout*float64(len(q.ShutdownCommands)), MaxOutputLines: q.MaxOutputLines, MaxOutputBytes: q.MaxOutputBytes}
}

// Run runs one command in a session, after those that were sent before it.
func (t *Table) Run(ctx context.Context, q *wire.RunSessionRequest) (*wire.RunSessionResult, error) {
	s, err := t.find(q.SessionID)
	if err != nil {
		return nil, err
	}
	if err := checkRun(q); err != nil {
		return nil, err
	}
	stdin := []byte(q.Stdin)
	if q.Encoding == "base64" {
		if stdin, err = base64.StdEncoding.DecodeString(q.Stdin); err != nil {
			return nil, core.BadField("stdin", "stdin must be base64")
		}
	}
	if len(stdin) > maxStdin {
		return nil, core.BadField("stdin", "stdin must have at most 8388608 bytes")
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	return s.run(ctx, q, stdin)
}

func checkRun(q *wire.RunSessionRequest) error {
	switch {
	case strings.IndexByte(string(q.Command), 0) >= 0:
		return core.BadField("command", "cannot run the command: it must not contain a NUL byte")
	case !(q.Timeout >= 0 && q.Timeout <= math.MaxInt32):
		return core.BadField("timeout", "timeout must be from 0 to 2147483647")
	case q.Encoding != "" && q.Encoding != "base64":
		return core.BadField("encoding", `encoding must be "base64" or absent`)
	case q.MaxTailBytes < 0 || q.MaxTailBytes > wire.MaxSessionOutput:
		return core.BadField("max_tail_bytes", "max_tail_bytes must be from 0 to 2097152")
	}
	return checkOutput(q.MaxOutputLines, q.MaxOutputBytes, 0)
}

// Interrupt ends the command that runs in a session, and keeps the shell.
func (t *Table) Interrupt(q *wire.SessionRequest) (*wire.InterruptSessionResult, error) {
	s, err := t.find(q.SessionID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		select {
		case s.stop <- struct{}{}:
		default:
		}
	}
	return &wire.InterruptSessionResult{SessionID: q.SessionID, Interrupted: s.busy}, nil
}

// Restart starts another shell in place of the session's, without its state.
func (t *Table) Restart(ctx context.Context, q *wire.SessionRequest) (*wire.Session, error) {
	s, err := t.find(q.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	s.endShell(true)
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.summary.Restarts++
	s.mu.Unlock()
	return s.describe(), nil
}

// Close ends a session. A command that runs in it is interrupted.
func (t *Table) Close(ctx context.Context, q *wire.SessionRequest) (*wire.CloseSessionResult, error) {
	s, err := t.remove(q.SessionID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.busy {
		select {
		case s.stop <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // closing goes on if the client goes away
	_ = s.acquire(ctx)
	r := s.close(ctx)
	s.release() // callers that have waited find the session closed
	t.put(s.request.SessionID, nil)
	return r, nil
}

// List returns all sessions, by id.
func (t *Table) List(*wire.ListSessionsRequest) (*wire.ListSessionsResult, error) {
	r := &wire.ListSessionsResult{Sessions: []wire.Session{}}
	for _, s := range t.all() {
		r.Sessions = append(r.Sessions, *s.describe())
	}
	return r, nil
}
