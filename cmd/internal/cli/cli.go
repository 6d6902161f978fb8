// Package cli is the command line that paddock and paddock-server share. It is one door
// to package op: its commands, flags and JSON output are renderings of the table of
// operations. This package only adds how they appear in a terminal. What it prints
// follows these rules:
//
//   - Standard output has only the result: the output of a command, a report,
//     or with --json one object on one line.
//   - Errors go to standard error, one line each: "paddock: cannot …: …", and
//     if something can be done about it "paddock: hint: …".
//   - The exit status is the command's own; 124 it timed out, 125 Paddock could
//     not do it, 126 the command cannot be executed, 127 it does not exist,
//     128+N signal N ended it. If the reader of standard output has closed it, it is
//     128+13, without a message.
//
// A start must be fast: flags are only built for the command that runs, and no package does
// work before main. Code that only one program links is passed by its main in a [Program].
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
)

// Program holds what paddock-server links and paddock does not, because it would make
// each start slower. The zero value is paddock, which becomes paddock-server when it
// needs one of these.
type Program struct {
	// MCP completes the command "mcp" with its text, flags, subcommands and action.
	MCP func(*App, *cobra.Command)
	// OpenRedis opens the store of privileges at the URL of a Redis server.
	OpenRedis func(url string) (privilege.Store, error)
}

// Main runs the command line and returns its exit status.
func Main(args []string, p Program) int {
	a := &App{program: p}
	if len(args) > 0 && args[0] == paddock.EndVerb {
		return a.endKept(args[1:])
	}
	root := a.root(args)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		status := report(os.Stderr, err)
		if a.runsNothing && (status == statusNotFound || status == statusNotExecutable) {
			return statusFailed // those two are about a command
		}
		return status
	}
	return a.status
}

// App is one run of the command line.
type App struct {
	// Own are files that flags name and that are in use until the end.
	Own []backend.OwnFile

	program    Program
	status     int    // if nothing failed
	privileges string // the value of --privileges
	audit      string // the value of --audit
	noServer   error  // why this could not become paddock-server
	// runsNothing reports that the operation runs no command that its caller names.
	runsNothing bool
}

// endKept ends a sandbox that outlived its creator: its keeper has executed this program.
func (a *App) endKept(args []string) int {
	a.audit = auditBestEffort
	env, err := a.Env()
	if err == nil {
		err = env.EndKept(args)
	}
	if err != nil {
		return report(os.Stderr, err)
	}
	return 0
}

// call runs the operation and prints its result.
func (a *App) call(o op.Op, input []byte, asJSON bool) error {
	if a.program.OpenRedis == nil && stores.IsRemote(a.where()) {
		a.noServer = becomeServer() // operations that need no privilege work without it
	}
	a.runsNothing = !o.Streams.Out || o.Hints.ReadOnly
	env, err := a.Env()
	if err != nil {
		return err
	}
	c := openConsole(o, asJSON)
	defer c.close()
	c.showProgress(o, env, input, asJSON)
	out, err := o.Call(c.ctx, env, input, &c.stream)
	c.progress.clear()
	o.NameFields(err, input, FlagName)
	by := (*op.InterruptedError)(nil)
	switch gone := context.Cause(c.ctx); {
	case gone == nil:
	case !errors.As(gone, &by), err == context.Canceled: //nolint:errorlint // which says no more
		return gone
	case errors.As(err, &by): // a question had no answer
		return err
	case err != nil:
		return errors.Join(gone, err)
	}
	if errors.Is(err, paddock.ErrClosedLayer) && !o.Opens {
		if status, ran := openClosed(); ran {
			a.status = status
			return nil
		}
	}
	if err != nil && (!o.Each || out == nil) {
		return err
	}
	return errors.Join(err, a.show(o, out, asJSON))
}

// show prints the result of an operation.
func (a *App) show(o op.Op, out any, asJSON bool) error {
	out = op.RenderHints(out, op.FlagHint)
	if s, ok := out.(op.Statuser); ok {
		a.status = s.ExitStatus()
	}
	if !asJSON || o.Streams.Lines {
		err := o.Render(os.Stdout, out)
		if r, ok := out.(op.Remarker); ok && err == nil {
			err = r.Remark(os.Stderr)
		}
		return err
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	return nil
}

// The exit statuses of this program's own failures.
const (
	statusTimedOut      = 124
	statusFailed        = 125
	statusNotExecutable = 126
	statusNotFound      = 127
	statusSignal        = 128 // plus the signal's number
)

// report prints what went wrong and returns the exit status for it.
func report(w io.Writer, err error) int {
	// No process reads our own standard output or error output any more. Other pipes and sockets
	// break, too.
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) && errors.Is(failed, syscall.EPIPE) && (failed.Path == os.Stdout.Name() || failed.Path == os.Stderr.Name()) {
		return statusSignal + int(syscall.SIGPIPE)
	}
	for _, one := range op.Flatten(err) {
		fmt.Fprintf(w, "paddock: %s\n", oneLine(one.Error()))
		if hint := op.FlagHint(op.HintOf(one)); hint != "" {
			fmt.Fprintf(w, "paddock: hint: %s\n", oneLine(hint))
		}
	}
	if i := (*interrupted)(nil); errors.As(err, &i) {
		return statusSignal + int(i.signal)
	}
	if i := (*op.InterruptedError)(nil); errors.As(err, &i) {
		return statusSignal + i.Number
	}
	switch {
	case errors.Is(err, paddock.ErrTimeout):
		return statusTimedOut
	case errors.Is(err, paddock.ErrNotFound):
		return statusNotFound
	case errors.Is(err, paddock.ErrNotExecutable):
		return statusNotExecutable
	default:
		return statusFailed
	}
}

// oneLine returns a text as one line that a terminal can print: it may name files of commands.
func oneLine(s string) string {
	return text.Escape(strings.NewReplacer("\n", "; ", "\t", " ").Replace(strings.TrimSpace(s)))
}

// interrupted is the end of a run by a signal that came once too often.
type interrupted struct{ signal syscall.Signal }

// Error returns what became of the sandbox.
func (i *interrupted) Error() string {
	return "interrupted: what was started was ended (" + i.signal.String() + ", three times)"
}
