// Package session has the operations on sessions: a session is a shell that keeps its state
// between commands. "paddock session" reads commands for one as lines of text or JSON.
package session

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// SessionInput is the input of the operation session, whose session ends with the call.
type SessionInput struct{ SessionFields }

type SessionOutput struct {
	Status   int   `json:"status"` // of the last command
	Commands int64 `json:"commands"`
}

// ExitStatus returns the last command's status, or the shell's if a command has ended it.
func (out SessionOutput) ExitStatus() int { return out.Status }

// mainSession is the id of the session that the flags describe.
const mainSession = "main"

const sessionDoc = `A session is a shell that stays, in a sandbox: its directory, variables,
functions and options persist from one command to the next. It has no terminal: for
programs that need one use a shell (shell_open). It lives until session_close, until
its sandbox ends, or until the server or command that keeps it ends.`

func (SessionInput) Desc() op.Desc {
	return op.Desc{
		Name:    "session",
		CLI:     []string{"session"},
		Summary: "Keep a shell in a sandbox, and run commands in it",
		Doc: sessionDoc + `

Each line of standard input is a command; the next is read when it has ended. A line
that ends in "\" continues on the next one. At a terminal there is a prompt. The end
of input ends the session, and so does a command that ends the shell. SIGINT
interrupts the running command. SIGTERM, SIGHUP and SIGQUIT end the session, as
SIGINT does while it opens; a second one while the session is ending skips the rest
of its shutdown commands.

Without --workspace the session has an empty workspace, which is removed at its end.
Of a command's output 100 lines are kept (--max-output-lines), and a command may take
30 seconds (--command-timeout); then it is ended with everything it has started, and
the shell stays if that is possible.

With --json each line is a JSON object, and so is each answer. {"command": "…"} runs a
command, and {"restart": true} starts a new shell; "stdin", "timeout",
"max_output_lines" and "max_output_bytes" can be added. "text" in the answer is for a
model. With "op" a line calls an operation by its name: session_open, session_run,
session_restart, session_close or session_list, with that operation's own fields.
"id" is repeated in the answer.

Exit status: the last command's, with --json 0; 125 Paddock could not open the session.`,
		Examples: `  # a shell that stays
  paddock session -w ~/src/app

  # for programs
  printf '%s\n' '{"command": "cd /tmp; x=1"}' '{"command": "pwd; echo $x"}' | paddock session --json`,
		Local:   true,
		Opens:   true,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true, Lines: true, Interrupts: true},
	}
}

// Do opens the session and runs the lines of standard input in it.
func (in SessionInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out SessionOutput, err error) {
	if stream.Stdin == nil || stream.Stdout == nil {
		return out, &paddock.Error{Message: "cannot keep a session: this door has no live streams"}
	}
	own := *env
	own.Sessions = &registry.Sessions{}
	left := leftovers{next: env.Planted}
	own.Planted = left.add
	key, err := own.Sessions.Reserve(own.PrincipalName(), mainSession)
	if err != nil {
		return out, err
	}
	t := &talk{env: &own, stream: stream, run: op.Of[SessionRunInput]()}
	hurry, now := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(ctx)
	stop := t.watch(ctx, cancel, now)
	err = t.keep(ctx, in.SessionFields, key)
	t.phase.Store(closing)
	err = errors.Join(err, own.Sessions.CloseWithin(hurry))
	stop()
	err = errors.Join(err, left.tell(stream.Stderr))
	if status := int(t.signaled.Load()); status != 0 {
		t.status = status
	}
	return SessionOutput{t.status, t.commands}, err
}

// Render writes nothing: the session has written its output already.
func (SessionOutput) Render(io.Writer) error { return nil }

// leftovers collects the changes that the sandboxes of a session have left, until its end.
type leftovers struct {
	next func(op.Planted)
	mu   sync.Mutex
	list []op.Planted
}

func (l *leftovers) add(p op.Planted) {
	if l.next != nil {
		l.next(p)
	}
	if !p.Late {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, p)
	}
}

// tell writes the findings for workspaces that still exist.
func (l *leftovers) tell(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.list {
		if _, err := os.Lstat(p.Workspace); err == nil {
			if err := p.Warn(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// The phases of a session. Signals mean something else in each.
const (
	opening int32 = iota
	opened
	closing
)

// keep opens the session that the flags describe, and runs lines in it.
func (t *talk) keep(ctx context.Context, in SessionFields, key registry.SessionKey) error {
	k, err := openSession(ctx, t.env, SessionOpenInput{SessionFields: in}, key)
	t.env.Sessions.Put(key, k)
	switch {
	case t.signaled.Load() != 0: // a signal has ended the session while it opened
		return nil
	case err != nil:
		return err
	}
	t.phase.Store(opened)
	if err := op.TellLost(t.stream.Stderr, k.Sandbox.Isolation()); err != nil {
		return err
	}
	return t.all(ctx)
}

// talk is the state of the exchange of lines.
type talk struct {
	env      *op.Env
	stream   *op.Stream
	run      op.Op
	phase    atomic.Int32
	running  atomic.Bool
	signaled atomic.Int32 // the exit status because of a signal, 0 if there was none
	status   int
	commands int64
	over     bool
	held     string // the lines so far of a command that continues
}

// all runs lines until there are no more, the shell has ended, or a signal ends the session.
func (t *talk) all(ctx context.Context) error {
	lines := make(chan line)
	go readLines(t.stream.Stdin, lines, ctx.Done())
	for !t.over {
		if err := t.prompt(); err != nil {
			return err
		}
		select {
		case l := <-lines:
			if err := t.line(ctx, l); err != nil || l.err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// watch handles signals until stop is called, which also calls cancel and now.
func (t *talk) watch(ctx context.Context, cancel, now func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case name := <-t.stream.Signals:
				t.signal(ctx, name, cancel, now)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done; cancel(); now() }
}

// signal handles a signal: INT interrupts the running command, others end the session. Startup
// and shutdown commands may hang, so INT ends the session while it opens, and any signal ends it
// at once while it closes.
func (t *talk) signal(ctx context.Context, name string, cancel, now func()) {
	number := map[string]int32{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGTERM": 15}[name]
	switch phase := t.phase.Load(); {
	case number == 0:
	case phase == closing:
		now()
	case name == "SIGINT" && phase == opened:
		if t.running.Load() {
			for _, k := range t.env.Sessions.Of(t.env.PrincipalName()) { // only one runs a command
				_ = k.Shell.Interrupt(ctx) // the command's answer shows the effect
			}
		}
	default:
		t.signaled.Store(op.StatusSignal + number)
		cancel()
	}
}

func (t *talk) prompt() error {
	if t.stream.Terminal == nil || t.stream.Lines {
		return nil
	}
	prompt := "$ "
	if t.held != "" {
		prompt = "> "
	}
	_, err := io.WriteString(t.stream.Stdout, prompt)
	return err
}

// line handles one line, or the end of input. Lines that end in a backslash are collected,
// and the shell joins them.
func (t *talk) line(ctx context.Context, l line) error {
	if l.err != nil && t.held == "" {
		return l.end()
	}
	text := t.held + l.text
	t.held = ""
	if slashes := len(text) - len(strings.TrimRight(text, `\`)); l.err == nil && slashes%2 == 1 && !t.stream.Lines {
		if len(text) > op.MaxInput {
			return fmt.Errorf("cannot read the next command: it is longer than %d bytes", op.MaxInput)
		}
		t.held = text + "\n"
		return nil
	}
	if err := t.take(ctx, text); err != nil || l.err == nil {
		return err
	}
	return l.end()
}

// take runs one complete line.
func (t *talk) take(ctx context.Context, text string) error {
	t.commands++
	t.running.Store(true)
	defer t.running.Store(false)
	if t.stream.Lines {
		return t.answer(ctx, []byte(text))
	}
	return t.command(ctx, text)
}

// command runs a line as a command, and prints the output.
func (t *talk) command(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	input, err := json.Marshal(osstring.Map{"session_id": mainSession, "command": text})
	if err != nil {
		return err
	}
	res, err := t.run.Call(ctx, t.env, input, nil)
	out, ok := res.(SessionRunOutput)
	switch {
	case ctx.Err() != nil: // the session has been ended
		return nil //nolint:nilerr // see above
	case err != nil || !ok:
		return err
	}
	switch {
	case out.TimedOut:
		t.status = op.StatusTimedOut
	case out.ExitCode != nil && *out.ExitCode < 0:
		t.status = op.StatusSignal - *out.ExitCode
	case out.ExitCode != nil:
		t.status = *out.ExitCode
	}
	t.over = out.ShellEnded
	return t.print(out)
}

// print writes the output of a command, and notes about it.
func (t *talk) print(out SessionRunOutput) error {
	for _, c := range append(out.Late, out.Chunks...) {
		w := t.stream.Stdout
		if c.Stream == "stderr" {
			w = t.stream.Stderr
		}
		if _, err := io.WriteString(w, c.Data); err != nil {
			return err
		}
	}
	note := func(format string, args ...any) {
		_, _ = fmt.Fprintf(t.stream.Stderr, "paddock: "+format+"\n", args...)
	}
	if out.TimedOut {
		note("%s", strings.TrimPrefix(out.Text, "Error: "))
	}
	if out.TruncatedByLines || out.TruncatedByBytes {
		note("output truncated (observed %d lines, %d bytes)", out.TotalLines, out.TotalBytes)
	}
	if out.Note != "" {
		note("%s", out.Note)
	}
	denials, status := out.denied()
	return output.TellDenials(t.stream.Stderr, op.RenderHints(denials, op.FlagHint), status)
}

// line is one line of input, or the error that ended the input.
type line struct {
	text string
	err  error
}

// end returns the error of a session whose input has ended.
func (l line) end() error {
	if errors.Is(l.err, io.EOF) {
		return nil
	}
	return fmt.Errorf("cannot read the next command: %w", l.err)
}

// readLines sends lines until the input ends or done is closed.
func readLines(r io.Reader, lines chan<- line, done <-chan struct{}) {
	in := bufio.NewReader(r)
	for {
		text, err := readLine(in)
		if err == nil || text != "" {
			select {
			case lines <- line{text: text}:
			case <-done:
				return
			}
		}
		if err != nil {
			select {
			case lines <- line{err: err}:
			case <-done:
			}
			return
		}
	}
}

// readLine reads a line of at most [MaxInput] bytes.
func readLine(in *bufio.Reader) (string, error) {
	var text bytes.Buffer
	for {
		part, err := in.ReadSlice('\n')
		if text.Len()+len(part) > op.MaxInput {
			return "", fmt.Errorf("the line is longer than %d bytes", op.MaxInput)
		}
		text.Write(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimSuffix(text.String(), "\n"), err
		}
	}
}

// sessionError is the answer to a line that failed.
type sessionError struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Status string          `json:"status"` // error
	Text   string          `json:"text"`
	Error  string          `json:"error"`
	Hint   string          `json:"hint,omitempty"`
}

// maxEcho bounds the id of a line, in bytes.
const maxEcho = 1 << 10

// answer handles a line of JSON and writes the answer.
func (t *talk) answer(ctx context.Context, text []byte) error {
	id, o, out, err := t.ask(ctx, text)
	if ctx.Err() != nil {
		err = &paddock.Error{Message: "cannot continue: the session is ending"}
	}
	if err != nil {
		return t.write(sessionError{ID: id, Status: "error", Text: err.Error(), Error: err.Error(), Hint: lineHint(o, op.HintOf(err))})
	}
	answer, err := withID(id, op.RenderHints(out, op.FlagHint))
	if err != nil {
		return err
	}
	return t.write(answer)
}

// lineHint renders a hint for a line of JSON: it names fields of the line's operation, and flags of
// the session.
func lineHint(o op.Op, hint string) string {
	return policy.RenderHint(hint, func(path string) string {
		if o.Name != "" && slices.ContainsFunc(o.Fields(), func(f op.Field) bool { return f.JSON == path }) {
			return path
		}
		return op.FlagFor(path)
	})
}

// ask calls the operation that a line of JSON names, and returns it.
func (t *talk) ask(ctx context.Context, text []byte) (id json.RawMessage, o op.Op, out any, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, o, nil, &paddock.Error{Message: "cannot read the request: it is not a JSON object on one line",
			Hint: `{"command": "…"} runs a command`}
	}
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" }) // as Call takes it
	if id = fields["id"]; len(id) > maxEcho {
		return nil, o, nil, &paddock.Error{Message: fmt.Sprintf("cannot use the id: it has more than %d bytes", maxEcho)}
	}
	delete(fields, "id")
	o, err = t.operation(fields["op"])
	if err != nil {
		return id, o, nil, err
	}
	if _, given := fields["session_id"]; !given && o.Name != "session_open" && o.Name != "session_list" {
		fields["session_id"] = json.RawMessage(`"` + mainSession + `"`)
	}
	delete(fields, "op")
	input, err := json.Marshal(fields)
	if err != nil {
		return id, o, nil, err
	}
	out, err = o.Call(ctx, t.env, input, nil)
	o.NameFields(err, input, op.JSONName)
	return id, o, out, err
}

// operation returns the operation that a line names.
func (t *talk) operation(name json.RawMessage) (op.Op, error) {
	if name == nil {
		return t.run, nil
	}
	var text string
	if json.Unmarshal(name, &text) == nil {
		for _, o := range []op.Op{op.Of[SessionOpenInput](), t.run, op.Of[SessionRestartInput](), op.Of[SessionCloseInput](), op.Of[SessionListInput]()} {
			if o.Name == text {
				return o, nil
			}
		}
	}
	return op.Op{}, &paddock.Error{Message: "unknown operation in op",
		Hint: "session_open, session_run, session_restart, session_close or session_list"}
}

// withID adds an id to an answer.
func withID(id json.RawMessage, out any) (any, error) {
	if id == nil {
		return out, nil
	}
	text, err := json.Marshal(out) // an object that is never empty
	if err != nil {
		return nil, err
	}
	return json.RawMessage(`{"id":` + string(id) + "," + string(text[1:])), nil
}

func (t *talk) write(answer any) error {
	enc := json.NewEncoder(t.stream.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(answer)
}
