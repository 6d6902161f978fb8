package agent

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// shells are those that were opened and not closed yet.
type shells struct {
	mu   sync.Mutex
	byID map[string]*shell // nil while one is being opened
}

// shellID reads the id of a request.
func shellID(id string) (string, error) {
	if id = strings.TrimSpace(id); id == "" {
		return "", badField("shell_id", "shell_id is required")
	}
	return id, nil
}

// take reserves an id for a shell that is being opened.
func (s *shells) take(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.byID[id]; taken {
		return &wire.Error{Code: wire.CodeExists, Object: id, Message: "shell " + pyRepr(id) + " already exists"}
	}
	if len(s.byID) >= maxShells {
		return &wire.Error{Code: wire.CodeBusy, Message: "cannot open the shell: 32 are open", Hint: "close_shell frees one, also where it has ended"}
	}
	if s.byID == nil {
		s.byID = map[string]*shell{}
	}
	s.byID[id] = nil
	return nil
}

// put keeps the shell that has an id now, or frees the id where there is none.
func (s *shells) put(id string, sh *shell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh == nil {
		delete(s.byID, id)
		return
	}
	s.byID[id] = sh
}

// find gives the shell that a request names.
func (s *shells) find(name string) (*shell, error) {
	id, err := shellID(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.byID[id]; sh != nil {
		return sh, nil
	}
	return nil, noShell(id)
}

func noShell(id string) error {
	return &wire.Error{Code: wire.CodeNotFound, Object: id, Message: "shell " + pyRepr(id) + " does not exist"}
}

// remove takes a shell out; only one of those who close it at once does.
func (s *shells) remove(name string) (*shell, error) {
	sh, err := s.find(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := sh.summary.ShellID
	if s.byID[id] != sh {
		return nil, noShell(id)
	}
	s.byID[id] = nil // the id is free when the shell has ended
	return sh, nil
}

func (a *Agent) openShell(q *wire.OpenShellRequest) (*wire.Shell, error) {
	id, err := shellID(q.ShellID)
	if err != nil {
		return nil, err
	}
	if !stateName(id) {
		return nil, badField("shell_id", "shell_id is invalid")
	}
	cwd, dir, err := a.workingDirectory(string(q.Cwd))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if q.Cols < 1 || q.Cols > math.MaxUint16 || q.Rows < 1 || q.Rows > math.MaxUint16 {
		return nil, badField("cols", "cols and rows must be from 1 to 65535")
	}
	if err := a.shells.take(id); err != nil {
		return nil, err
	}
	sh, err := a.startShell(id, q, cwd, dir)
	a.shells.put(id, sh)
	if err != nil {
		return nil, err
	}
	r := sh.describe()
	return &r, nil
}

// workingDirectory opens the cwd of a shell: what begins there begins in what
// was found, whatever takes its place meanwhile.
func (a *Agent) workingDirectory(text string) (filePath, beneath.Dir, error) {
	p, werr := parsePath(text)
	if werr != nil {
		return p, beneath.None, werr
	}
	dir, err := a.files.Walk(p.names)
	if err != nil {
		return p, beneath.None, fileError("open", p, err)
	}
	return p, dir, nil
}

// shellCommand is the interactive shell of a request: bash where there is one.
func (a *Agent) shellCommand(q *wire.OpenShellRequest, dir string) (*clone.Command, *wire.Error) {
	own, werr := commandEnv(q.Env)
	if werr != nil {
		return nil, werr
	}
	env := map[string]string{"TERM": "xterm-256color"}
	maps.Copy(env, a.env)
	maps.Copy(env, map[string]string{"PS1": "pyro$ ", "PROMPT_COMMAND": ""})
	env["PWD"] = dir
	maps.Copy(env, own)
	c := &clone.Command{Path: "/bin/sh", Argv: []string{"/bin/sh", "-i"}, Dir: dir, Umask: 0o022, TTY: true, Rlimits: a.rlimits(nil), Env: asList(env)}
	if bash, err := lookPath("bash", searchPath(a.env), dir); err == nil {
		c.Path, c.Argv = bash, []string{bash, "--noprofile", "--norc", "-i"}
	}
	return c, nil
}

// asList is an environment as a program gets it.
func asList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

func (a *Agent) readShell(ctx context.Context, q *wire.ReadShellRequest) (*wire.ReadShellResult, error) {
	sh, err := a.shells.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if q.WaitMS < 0 || q.MaxChars < 0 {
		return nil, badField("max_chars", "max_chars and wait_ms must not be negative")
	}
	return sh.look(ctx, q), nil
}

func (a *Agent) writeShell(q *wire.WriteShellRequest) (*wire.WriteShellResult, error) {
	sh, err := a.shells.find(q.ShellID)
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

// shellSignals are those that a shell's job can be sent.
var shellSignals = map[string]unix.Signal{"HUP": unix.SIGHUP, "INT": unix.SIGINT, "TERM": unix.SIGTERM, "KILL": unix.SIGKILL}

func (a *Agent) signalShell(q *wire.SignalShellRequest) (*wire.SignalShellResult, error) {
	if _, err := shellID(q.ShellID); err != nil {
		return nil, err
	}
	name := strings.ToUpper(strings.TrimSpace(q.Signal))
	sig, ok := shellSignals[name]
	if !ok {
		return nil, badField("signal", "signal must be one of: HUP, INT, TERM, KILL")
	}
	sh, err := a.shells.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if !sh.isRunning() || a.signal(sh.process, sig) != nil {
		return nil, sh.notRunning()
	}
	return &wire.SignalShellResult{Shell: sh.describe(), Signal: name}, nil
}

func (a *Agent) resizeShell(q *wire.ResizeShellRequest) (*wire.Shell, error) {
	sh, err := a.shells.find(q.ShellID)
	if err != nil {
		return nil, err
	}
	if q.Cols < 1 || q.Cols > math.MaxUint16 || q.Rows < 1 || q.Rows > math.MaxUint16 {
		return nil, badField("cols", "cols and rows must be from 1 to 65535")
	}
	if !sh.isRunning() || resize(sh.stdio.terminal, wire.TTY{Rows: uint16(q.Rows), Cols: uint16(q.Cols)}) != nil {
		return nil, sh.notRunning()
	}
	sh.mu.Lock()
	sh.summary.Cols, sh.summary.Rows = q.Cols, q.Rows
	r := sh.told()
	sh.mu.Unlock()
	sh.save()
	return &r, nil
}

func (a *Agent) closeShell(q *wire.ShellRequest) (*wire.CloseShellResult, error) {
	sh, err := a.shells.remove(q.ShellID)
	if err != nil {
		return nil, err
	}
	r := sh.close()
	sh.forget()
	a.shells.put(r.ShellID, nil)
	return r, nil
}

func (a *Agent) listShells(*wire.ListShellsRequest) (*wire.ListShellsResult, error) {
	a.shells.mu.Lock()
	defer a.shells.mu.Unlock()
	r := &wire.ListShellsResult{Shells: []wire.Shell{}}
	for _, id := range slices.Sorted(maps.Keys(a.shells.byID)) {
		if sh := a.shells.byID[id]; sh != nil {
			r.Shells = append(r.Shells, sh.describe())
		}
	}
	return r, nil
}
