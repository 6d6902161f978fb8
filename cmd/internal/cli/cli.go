package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
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
	a.addPrivilegesFlag(root)
	a.addAuditFlag(root)
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
	privileges string // where they are kept, as a flag says
	audit      string // what becomes of operations that cannot be put on record
	unchanged  error  // why this could not become paddock-server
	// runsNothing says that the operation runs no command that its caller names.
	runsNothing bool
}

func (a *App) root(args []string) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "paddock",
		Short: "An agent sandbox runtime: run commands inside real walls",
		Long: `Paddock runs commands in sandboxes that the kernel keeps: a workspace that they
may change, a read-only system around it, and no network unless it is given.`,
		Example:           "  paddock run -- make test\n  paddock doctor",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch ops := op.Table(); {
			case len(args) > 0:
			case version:
				return a.call(ops[slices.IndexFunc(ops, func(o op.Op) bool { return o.Name == "version" })], []byte("{}"), false)
			default:
				return cmd.Help()
			}
			hint := "to run it in a sandbox: paddock run -- " + args[0]
			if near := nearestCommand(cmd, args[0]); near != "" {
				hint = "did you mean " + near + "? " + hint
			}
			return &paddock.Error{Message: "cannot do " + strconv.Quote(args[0]) + ": there is no such command", Hint: hint}
		},
	}
	root.Flags().BoolVar(&version, "version", false, "say which Paddock this is, as paddock version does")
	root.SetFlagErrorFunc(FlagError)
	a.addCommands(root, op.Table(), args)
	root.AddCommand(completionCommand())
	root.InitDefaultHelpCmd()
	refuseUnknownTopics(root)
	group(root)
	return root
}

// command renders an operation. withFlags is false where the command will not
// be used: most of a start would go into flags.
func (a *App) command(o op.Op, withFlags bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:     o.CLI[len(o.CLI)-1],
		Short:   o.Summary,
		Long:    o.Doc,
		Example: o.Examples,
		Args:    cobra.ArbitraryArgs,
	}
	if o.Alias != "" {
		cmd.Aliases = []string{o.Alias}
	}
	if !withFlags {
		cmd.RunE = func(*cobra.Command, []string) error { return nil } // listed in help texts
		return cmd
	}
	in := AddFlags(cmd, strings.Join(o.CLI, " "), o.Fields())
	help := "print one JSON object instead of text"
	if o.Streams.Lines {
		help = "read and print JSON objects, one a line"
	}
	asJSON := cmd.Flags().Bool("json", false, help)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		input, err := in.Encode(args)
		if err != nil {
			return err
		}
		return a.call(o, input, *asJSON)
	}
	return cmd
}

// call runs the operation and prints what it answers.
func (a *App) call(o op.Op, input []byte, asJSON bool) error {
	if a.program.OpenRedis == nil && stores.IsRemote(a.where()) {
		a.unchanged = becomeServer() // what needs no privilege goes on all the same
	}
	a.runsNothing = !o.Streams.Out || o.Hints.ReadOnly
	env, err := a.Env()
	if err != nil {
		return err
	}
	d := openDoor(o.Streams, asJSON)
	defer d.close()
	out, err := o.Call(d.ctx, env, input, &d.stream)
	o.NameFields(err, input, FlagName)
	if gone := context.Cause(d.ctx); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
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

// checkArgs refuses what JSON cannot carry: encoding would replace the bytes
// in silence, and another command would run than the one asked for.
func checkArgs(args []string) error {
	for i, arg := range args {
		if !utf8.ValidString(arg) {
			return &policy.FieldError{Field: "argument " + strconv.Itoa(i+1), Value: arg, Reason: "it is not valid UTF-8"}
		}
	}
	return nil
}
