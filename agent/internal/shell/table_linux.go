// Package shell serves interactive shells. Each has its own terminal, and its output is
// stored and read by position.
package shell

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// Table holds the shells that were opened and not closed yet.
type Table struct {
	box   *core.Sandbox
	state core.StateDir // of records

	mu   sync.Mutex
	byID map[string]*shell // nil while the shell is being opened or closed
}

// New returns a table of shells that keep their records in state.
func New(box *core.Sandbox, state core.StateDir) *Table {
	return &Table{box: box, state: state}
}

// shellID reads the id of a request.
func shellID(id string) (string, error) {
	if id = strings.TrimSpace(id); id == "" {
		return "", core.BadField("shell_id", "shell_id is required")
	}
	return id, nil
}

// reserve reserves an id for a shell that is being opened.
func (t *Table) reserve(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.byID[id]; taken {
		return &wire.Error{Code: wire.CodeExists, Object: id, Message: "shell " + core.PyRepr(id) + " already exists"}
	}
	if len(t.byID) >= maxShells {
		return &wire.Error{Code: wire.CodeBusy, Message: "cannot open the shell: 32 are open", Hint: "close shells with close_shell, including those that have ended"}
	}
	if t.byID == nil {
		t.byID = map[string]*shell{}
	}
	t.byID[id] = nil
	return nil
}

// put stores the shell of an id, or frees the id if sh is nil.
func (t *Table) put(id string, sh *shell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh == nil {
		delete(t.byID, id)
		return
	}
	t.byID[id] = sh
}

// find returns the shell that a request names.
func (t *Table) find(name string) (*shell, error) {
	id, err := shellID(name)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if sh := t.byID[id]; sh != nil {
		return sh, nil
	}
	return nil, noShell(id)
}

func noShell(id string) error {
	return &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "shell " + core.PyRepr(id) + " does not exist"}
}

// remove removes a shell for a caller that closes it. If several callers do this at
// once, all but one get an error. The id stays reserved until the shell has ended.
func (t *Table) remove(name string) (*shell, error) {
	sh, err := t.find(name)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := sh.summary.ShellID
	if t.byID[id] != sh {
		return nil, noShell(id)
	}
	t.byID[id] = nil
	return sh, nil
}

// Open starts a shell on a new terminal.
func (t *Table) Open(q *wire.OpenShellRequest) (*wire.Shell, error) {
	id, err := shellID(q.ShellID)
	if err != nil {
		return nil, err
	}
	if !core.StateName(id) {
		return nil, core.BadField("shell_id", "shell_id is invalid")
	}
	cwd, dir, err := t.box.WorkingDirectory(string(q.Cwd))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if q.Cols < 1 || q.Cols > math.MaxUint16 || q.Rows < 1 || q.Rows > math.MaxUint16 {
		return nil, core.BadField("cols", "cols and rows must be from 1 to 65535")
	}
	if err := t.reserve(id); err != nil {
		return nil, err
	}
	sh, err := t.start(id, q, cwd, dir)
	t.put(id, sh)
	if err != nil {
		return nil, err
	}
	r := sh.describe()
	return &r, nil
}

// command returns the interactive shell of a request: bash if it is installed.
func (t *Table) command(q *wire.OpenShellRequest, dir string) (*clone.Command, *wire.Error) {
	own, werr := core.CommandEnv(q.Env)
	if werr != nil {
		return nil, werr
	}
	env := map[string]string{"TERM": "xterm-256color"}
	maps.Copy(env, t.box.Env)
	maps.Copy(env, map[string]string{"PS1": "pyro$ ", "PROMPT_COMMAND": ""})
	env["PWD"] = dir
	maps.Copy(env, own)
	c := &clone.Command{Path: "/bin/sh", Argv: []string{"/bin/sh", "-i"}, Dir: dir, Umask: 0o022, TTY: true, Rlimits: t.box.Rlimits(nil), Env: core.AsList(env)}
	if bash, err := core.LookPath("bash", core.SearchPath(t.box.Env), dir); err == nil {
		c.Path, c.Argv = bash, []string{bash, "--noprofile", "--norc", "-i"}
	}
	return c, nil
}

// Read returns output from a cursor on. Without new output it waits as long as the
// request says.
func (t *Table) Read(ctx context.Context, q *wire.ReadShellRequest) (*wire.ReadShellResult, error) {
	s, err := t.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if q.WaitMS < 0 || q.MaxChars < 0 {
		return nil, core.BadField("max_chars", "max_chars and wait_ms must not be negative")
	}
	if q.WaitMS > 0 {
		wait := min(time.Duration(min(q.WaitMS, maxShellWait.Milliseconds()))*time.Millisecond, maxShellWait)
		ctx, cancel := context.WithTimeout(ctx, wait)
		s.awaitOutput(ctx, q.Cursor+1)
		cancel()
		if q.MaxChars > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), moreOutput)
			s.awaitOutput(ctx, q.Cursor+q.MaxChars)
			cancel()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text, at := s.output.Read(q.Cursor, q.MaxChars)
	next := at + int64(utf8.RuneCount(text))
	return &wire.ReadShellResult{Shell: s.redactedSummary(), Cursor: at, NextCursor: next, Output: string(text),
		Truncated: next < s.output.End(), DroppedChars: max(0, at-max(0, q.Cursor))}, nil
}

// Write writes to a shell's terminal.
func (t *Table) Write(q *wire.WriteShellRequest) (*wire.WriteShellResult, error) {
	sh, err := t.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if !sh.isRunning() {
		return nil, sh.notRunning()
	}
	newline := q.AppendNewline == nil || *q.AppendNewline
	text := q.Input
	if newline {
		text += "\n"
	}
	switch err := sh.input.put([]byte(text)); {
	case errors.Is(err, errNoTerminal):
		id := sh.describe().ShellID
		return nil, &wire.Error{Code: wire.CodeConflict, Object: id, Message: "shell " + id + " transport is unavailable"}
	case err != nil:
		return nil, err
	}
	return &wire.WriteShellResult{Shell: sh.describe(), InputLength: int64(utf8.RuneCountInString(q.Input)), AppendNewline: newline}, nil
}

func (s *shell) notRunning() error {
	id := s.describe().ShellID
	return &wire.Error{Code: wire.CodeConflict, Object: id, Message: "shell " + id + " is not running"}
}

// shellSignals are the signals that a client can send to a shell's job.
var shellSignals = map[string]unix.Signal{"HUP": unix.SIGHUP, "INT": unix.SIGINT, "TERM": unix.SIGTERM, "KILL": unix.SIGKILL}

// Signal sends a signal to the job in the foreground of a shell.
func (t *Table) Signal(q *wire.SignalShellRequest) (*wire.SignalShellResult, error) {
	if _, err := shellID(q.ShellID); err != nil {
		return nil, err
	}
	name := strings.ToUpper(strings.TrimSpace(q.Signal))
	sig, ok := shellSignals[name]
	if !ok {
		return nil, core.BadField("signal", "signal must be one of: HUP, INT, TERM, KILL")
	}
	sh, err := t.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if !sh.isRunning() || t.box.SignalJob(sh.process, sig) != nil {
		return nil, sh.notRunning()
	}
	return &wire.SignalShellResult{Shell: sh.describe(), Signal: name}, nil
}

// Resize changes the size of a shell's terminal.
func (t *Table) Resize(q *wire.ResizeShellRequest) (*wire.Shell, error) {
	sh, err := t.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if q.Cols < 1 || q.Cols > math.MaxUint16 || q.Rows < 1 || q.Rows > math.MaxUint16 {
		return nil, core.BadField("cols", "cols and rows must be from 1 to 65535")
	}
	if !sh.isRunning() || spawn.Resize(sh.stdio.Terminal, wire.TTY{Rows: uint16(q.Rows), Cols: uint16(q.Cols)}) != nil {
		return nil, sh.notRunning()
	}
	sh.mu.Lock()
	sh.summary.Cols, sh.summary.Rows = q.Cols, q.Rows
	r := sh.redactedSummary()
	sh.mu.Unlock()
	sh.save()
	return &r, nil
}

// Close ends a shell and its whole tree, by SIGHUP first.
func (t *Table) Close(q *wire.ShellRequest) (*wire.CloseShellResult, error) {
	sh, err := t.remove(q.ShellID)
	if err != nil {
		return nil, err
	}
	r := sh.close()
	sh.removeRecord()
	t.put(r.ShellID, nil)
	return r, nil
}

// List returns all shells, by id, including those that have ended.
func (t *Table) List(*wire.ListShellsRequest) (*wire.ListShellsResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &wire.ListShellsResult{Shells: []wire.Shell{}}
	for _, id := range slices.Sorted(maps.Keys(t.byID)) {
		if sh := t.byID[id]; sh != nil {
			r.Shells = append(r.Shells, sh.describe())
		}
	}
	return r, nil
}
