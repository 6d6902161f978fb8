package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type ShellAttachInput struct {
	op.InNamed
	ShellID    string          `json:"shell_id,omitempty" flag:"shell" arg:"ID" help:"which of its shells; if there is none of this id, it is opened (default: main)" max:"64"`
	Watch      bool            `json:"watch,omitempty" flag:"watch" help:"only look at a shell that is open: nothing is typed, and ctrl-c ends the looking"`
	DetachKeys string          `json:"detach_keys,omitempty" flag:"detach-keys" arg:"KEYS" help:"the keys, one after the other, that leave the shell running (default: ctrl-p,ctrl-q)" max:"256"`
	Cwd        osstring.String `json:"cwd,omitempty" flag:"cwd" arg:"DIR" help:"the directory of a shell that is opened, relative to the workspace or absolute (default: the workspace)" max:"4096"`
	Env        op.Variables    `json:"env,omitempty" flag:"env" short:"e" arg:"K=V" help:"set an environment variable in a shell that is opened (may be repeated)" secret:"env"`
	SecretEnv  []string        `json:"secret_env,omitempty" flag:"secret-env" arg:"KEY" help:"pass this secret (paddock secret set) as an environment variable to a shell that is opened (may be repeated)" max:"64"`
}

type ShellAttachOutput struct {
	ShellState
	Detached bool `json:"detached"`         // the shell goes on
	Closed   bool `json:"closed,omitempty"` // somebody else has closed it
}

func (ShellAttachInput) Desc() op.Desc {
	return op.Desc{
		Name: "shell_attach", CLI: []string{"shell"},
		Summary: "Use a shell in a persistent sandbox",
		Doc: `Connect this terminal to a shell in a sandbox of "paddock create". The shell is opened if
there is none of its id, and lasts until it exits, "paddock shell close" or the end of
its sandbox: ctrl-p ctrl-q leaves it running, as does the end of this terminal. The next
"paddock shell" of the sandbox first shows what the shell has printed, as far as that
is kept: the last MiB.

Several terminals can use one shell at a time: each shows everything, and the size is
that of the last one that changed. --watch only looks.`,
		Examples: `  paddock shell web
  # a second shell, and somebody who looks at it
  paddock shell web --shell build
  paddock shell web --shell build --watch
  # its shells, and the end of one
  paddock shell list web
  paddock shell close web build`,
		Local: true, Hints: op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

// Do attaches, until the shell or the sandbox ends, or the caller detaches.
func (in ShellAttachInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out ShellAttachOutput, err error) {
	id, err := op.NameOr("shell_id", cmp.Or(in.ShellID, "main"), false)
	keys, kerr := pressed(strings.Split(cmp.Or(in.DetachKeys, "ctrl-p,ctrl-q"), ","))
	if kerr != nil {
		kerr = &policy.FieldError{Field: "detach_keys", Value: in.DetachKeys, Reason: "unknown key", Hint: "name keys such as ctrl-a and f12, with commas between them; letters alone cannot be used"}
	}
	if err := errors.Join(err, kerr, in.Env.Check(), op.CheckGiven("cwd", in.Cwd)); err != nil {
		return out, err
	}
	if in.Sandbox != "" && !in.Watch && (stream.Terminal == nil || !stream.Typed || stream.Stdout == nil) {
		return out, &paddock.Error{Message: "cannot use a shell: standard input and output are not a terminal",
			Hint: "paddock exec " + policy.ShellWord(in.Sandbox) + " -- CMD runs one command, and --watch shows what a shell prints"}
	}
	err = in.With(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		a := &attachment{sandbox: h, id: id, stream: stream, types: !in.Watch}
		if in.Watch {
			return a.run(ctx, nil, &out)
		}
		if err := h.Unruled("open a shell"); err != nil {
			return err
		}
		if err := in.open(ctx, env, a); err != nil {
			return err
		}
		return a.run(ctx, []byte(keys), &out)
	})
	if err != nil {
		return out, err
	}
	if out.Closed && !out.Detached {
		_, err = fmt.Fprintf(stream.Stderr, "\npaddock: shell %s was closed\n", text.Escape(id))
	}
	if out.Detached && !in.Watch {
		name := policy.ShellWord(in.Sandbox)
		if id != "main" {
			name += " --shell " + policy.ShellWord(id)
		}
		_, err = fmt.Fprintf(stream.Stderr, "\npaddock: the shell still runs: paddock shell %s attaches to it again\n", name)
	}
	return out, err
}

// open opens the shell, unless it runs. One that has ended is closed first.
func (in ShellAttachInput) open(ctx context.Context, env *op.Env, a *attachment) error {
	rows, cols, err := a.stream.Terminal.Size()
	if err != nil {
		return err
	}
	if rows == 0 || cols == 0 { // the terminal does not know
		rows, cols = 30, 120
	}
	q := wire.OpenShellRequest{ShellID: a.id, Cwd: in.Cwd, Rows: int64(rows), Cols: int64(cols)}
	always := map[string]string{"PS1": in.Sandbox + ":$PWD$ "}
	if term, ok := env.Lookup("TERM"); ok {
		always["TERM"] = term
	}
	q.Env, q.SecretEnv = registry.Environ(in.Env, always), in.SecretEnv
	if err := a.sandbox.CheckSecrets(ctx, in.SecretEnv); err != nil {
		return err
	}
	for {
		err := beginShell(ctx, a.sandbox, q)
		if taken := (*wire.Error)(nil); err == nil || !errors.As(err, &taken) || taken.Code != wire.CodeExists {
			return registry.Refusal("open shell "+a.id, err)
		}
		list, err := wire.Call(ctx, a.sandbox.Client(), wire.ListShells, wire.ListShellsRequest{})
		if err != nil {
			return registry.Refusal("list the shells", err)
		}
		i := slices.IndexFunc(list.Shells, func(s wire.Shell) bool { return s.ShellID == a.id })
		switch {
		case i < 0: // it is being opened or closed
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		case list.Shells[i].State == registry.Running:
			a.resize(ctx)
			return nil
		default:
			if _, err := wire.Call(ctx, a.sandbox.Client(), wire.CloseShell, wire.ShellRequest{ShellID: a.id}); err != nil && !errors.Is(err, paddock.ErrNotFound) {
				return registry.Refusal("close shell "+a.id, err)
			}
		}
	}
}

// attachment connects a terminal to a shell.
type attachment struct {
	sandbox *registry.Sandbox
	id      string
	stream  *op.Stream
	types   bool // else it only looks
}

var errDetached = errors.New("detached")

// run copies both ways until the shell ends or the caller detaches. Without keys nothing is typed.
func (a *attachment) run(ctx context.Context, keys []byte, out *ShellAttachOutput) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go a.handleSignals(ctx, cancel)
	if a.types {
		restore, err := a.stream.Terminal.Raw()
		if err != nil {
			return err
		}
		defer restore()
	}
	last, next, err := a.read(ctx, 0, 0)
	if err == nil {
		_, err = io.WriteString(a.stream.Stdout, queries().ReplaceAllString(last.Output, can))
	}
	if err == nil && a.types {
		go a.typeKeys(ctx, &keySequence{keys: keys}, cancel)
	}
	for err == nil && (last.State == registry.Running || last.Output != "") {
		var more *wire.ReadShellResult
		if more, next, err = a.read(ctx, next, time.Minute); err == nil {
			last = more
			_, err = io.WriteString(a.stream.Stdout, last.Output)
		}
	}
	if last != nil {
		out.ShellState = shellState(a.sandbox, last.Shell)
	}
	if err == nil && last.ExitCode != nil && *last.ExitCode < 0 { // it may be one that is being closed
		_, _, err = a.read(ctx, next, 0)
	}
	if gone := (*wire.Error)(nil); last != nil && errors.As(err, &gone) && gone.Code == wire.CodeNotFound {
		hangUp := -1 // what closing sends
		out.State, out.ExitCode, out.Closed, err = "stopped", cmp.Or(out.ExitCode, &hangUp), true, nil
	}
	if errors.Is(context.Cause(ctx), errDetached) {
		out.Detached = true
		return nil
	}
	return registry.Refusal("read shell "+a.id, err)
}

// read reads what the shell has printed from a cursor on. Without any it waits.
func (a *attachment) read(ctx context.Context, from int64, wait time.Duration) (*wire.ReadShellResult, int64, error) {
	r, err := wire.Call(ctx, a.sandbox.Client(), wire.ReadShell, wire.ReadShellRequest{ShellID: a.id, Cursor: from, WaitMS: wait.Milliseconds()})
	if err != nil {
		return nil, from, err
	}
	if r.DroppedChars > 0 {
		_, err = fmt.Fprintf(a.stream.Stderr, "paddock: %d characters before this are no longer kept\r\n", r.DroppedChars)
	}
	return &r, r.NextCursor, err
}

// can takes the place of [queries] in output that is shown again, since they were answered when it
// was new. It keeps what is around them from forming another one.
const can = "\x18"

// queries are control sequences that a terminal answers, as if somebody typed: of device
// attributes, states, modes, colours, capabilities, the window and the clipboard. Terminals obey
// control characters within them, and take them with 8-bit introducers, too.
var queries = lazyregexp.New(strings.NewReplacer("CSI", `(?:\x1b\[|\x{9b})`, "STRING", `[^\x07\x18\x1a\x1b\x{9c}]*`, "ST", `(?:\x07|\x1b\\|\x{9c})`,
	"P", `[0-9:;<=>?\x00-\x17\x19\x1c-\x1f]*`).Replace(
	`\x05|\x1bZ|\x{9a}|CSIP[cntx]|CSIP\$P?p|CSIP>Pq|CSIP\?Pu|(?:\x1b\]|\x{9d})STRING\?ST|(?:\x1b\x50|\x{90})[+$]qSTRINGST|(?:\x1b_|\x{9f})GSTRINGST`))

// resize gives the shell's terminal the size of the caller's. A failure does not matter: the
// shell has just ended, which reading tells.
func (a *attachment) resize(ctx context.Context) {
	if rows, cols, err := a.stream.Terminal.Size(); err == nil && rows > 0 && cols > 0 {
		_, _ = wire.Call(ctx, a.sandbox.Client(), wire.ResizeShell, wire.ResizeShellRequest{ShellID: a.id, Rows: int64(rows), Cols: int64(cols)})
	}
}

// handleSignals passes changes of size on. All other signals detach.
func (a *attachment) handleSignals(ctx context.Context, detach context.CancelCauseFunc) {
	for _, name := range a.stream.EarlySignals() {
		if name != "SIGWINCH" {
			detach(errDetached)
		}
	}
	for {
		select {
		case name := <-a.stream.Signals:
			if name != "SIGWINCH" {
				detach(errDetached)
				return
			}
			if a.types {
				a.resize(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// typeKeys types what the caller types, until that has the keys that detach or ends.
func (a *attachment) typeKeys(ctx context.Context, leave *keySequence, detach context.CancelCauseFunc) {
	defer detach(errDetached)
	keys := &text.Decoder{Dst: typist{ctx, a}}
	buf := make([]byte, 4096)
	for {
		n, err := a.stream.Stdin.Read(buf)
		sent, left := leave.filter(buf[:n])
		if _, werr := keys.Write(sent); err != nil || werr != nil || left {
			return
		}
	}
}

// typist types valid UTF-8 into the shell.
type typist struct {
	ctx context.Context
	*attachment
}

// Write waits while the shell reads nothing. It never fails but at the end of the context: that the
// shell has ended is told by reading.
func (t typist) Write(p []byte) (int, error) {
	for {
		err := typeIn(t.ctx, t.sandbox, t.id, string(p))
		if full := (*paddock.Error)(nil); !errors.As(err, &full) || full.Code != wire.CodeBusy {
			return len(p), t.ctx.Err()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.ctx.Done():
			return 0, t.ctx.Err()
		}
	}
}

// keySequence finds keys in what is typed.
type keySequence struct {
	keys []byte
	met  int // of the keys
}

// filter returns what was typed without the keys, and whether it had all of them: what follows is
// dropped then. The first of the keys are held back until it is known what follows.
func (s *keySequence) filter(p []byte) (typed []byte, all bool) {
	for _, b := range p {
		if b != s.keys[s.met] {
			typed = append(typed, s.keys[:s.met]...)
			s.met = 0
		}
		if b != s.keys[s.met] {
			typed = append(typed, b)
			continue
		}
		if s.met++; s.met == len(s.keys) {
			return typed, true
		}
	}
	return typed, false
}

// ExitStatus returns the shell's own status, and 0 if the shell goes on.
func (out ShellAttachOutput) ExitStatus() int {
	switch {
	case out.Detached || out.ExitCode == nil:
		return 0
	case *out.ExitCode < 0:
		return 128 - *out.ExitCode
	}
	return *out.ExitCode
}

// Render writes nothing: what the shell prints has been written.
func (ShellAttachOutput) Render(io.Writer) error { return nil }
