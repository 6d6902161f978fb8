// Package cli is the command line that paddock and paddock-server share. It is one door
// to package op: its commands, flags and JSON output are renderings of the table of
// operations, so there is nothing to find here but how a terminal speaks. What it
// writes follows these rules:
//
//   - Standard output holds what was asked for and nothing else: the output of
//     a command, a report, or with --json one object on one line.
//   - Errors go to standard error, one line each: "paddock: cannot …: …", and
//     where there is something to do about it "paddock: hint: …".
//   - The exit status is the command's own; 124 it timed out, 125 Paddock could
//     not do it, 126 the command cannot be executed, 127 it does not exist,
//     128+N signal N ended it. A standard output that nobody reads any more is
//     128+13, in silence.
//
// A start must be fast: flags are built for the command at hand alone, and nothing is
// done before main. What a program links beyond that, its main passes in a [Program].
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
)

// Program holds what paddock-server links and paddock does not, because it would make
// each start slower. The zero value is paddock, which becomes paddock-server where it
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
	root := a.root(args)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		status := report(os.Stderr, err)
		if a.runsNothing && (status == statusNotFound || status == statusNotExecutable) {
			return statusFailed // those two tell of a command
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
	status     int    // where nothing failed
	privileges string // the value of --privileges
	audit      string // the value of --audit
	noServer   error  // why this could not become paddock-server
	// runsNothing reports that the operation runs no command that its caller names.
	runsNothing bool
}

// call runs the operation and prints its result.
func (a *App) call(o op.Op, input []byte, asJSON bool) error {
	if a.program.OpenRedis == nil && stores.IsRemote(a.where()) {
		a.noServer = becomeServer() // what needs no privilege goes on all the same
	}
	a.runsNothing = !o.Streams.Out || o.Hints.ReadOnly
	env, err := a.Env()
	if err != nil {
		return err
	}
	c := openConsole(o.Streams, asJSON)
	defer c.close()
	out, err := o.Call(c.ctx, env, input, &c.stream)
	o.NameFields(err, input, FlagName)
	if gone := context.Cause(c.ctx); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	out = op.RenderHints(out, op.FlagHint)
	if s, ok := out.(op.Statuser); ok {
		a.status = s.ExitStatus()
	}
	if !asJSON || o.Streams.Lines {
		return o.Render(os.Stdout, out)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	return nil
}
