package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/op/table"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// execute runs the program and returns its exit status.
func execute(args []string) int {
	a := &app{}
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

// app is one run of the program.
type app struct {
	status     int               // where nothing failed
	privileges string            // where they are kept, as a flag says
	audit      string            // what becomes of operations that cannot be put on record
	own        []backend.OwnFile // files that flags name and that are in use until the end
	// runsNothing says that the operation runs no command that its caller names.
	runsNothing bool
	serving     bool // a client has been answered by the server for models
}

func (a *app) root(args []string) *cobra.Command {
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
			switch ops := table.All(); {
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
	root.SetFlagErrorFunc(flagError)
	a.addCommands(root, table.All(), args)
	root.AddCommand(completionCommand())
	root.InitDefaultHelpCmd()
	refuseUnknownTopics(root)
	group(root)
	return root
}

// command renders an operation. withFlags is false where the command will not
// be used: most of a start would go into flags.
func (a *app) command(o op.Op, withFlags bool) *cobra.Command {
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
	in := newInput(o)
	in.addFlags(cmd)
	help := "print one JSON object instead of text"
	if o.Streams.Lines {
		help = "read and print JSON objects, one a line"
	}
	asJSON := cmd.Flags().Bool("json", false, help)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		input, err := in.encode(args)
		if err != nil {
			return err
		}
		return a.call(o, input, *asJSON)
	}
	return cmd
}

// call runs the operation and prints what it answers.
func (a *app) call(o op.Op, input []byte, asJSON bool) error {
	a.becomeRedis()
	a.runsNothing = !o.Streams.Out || o.Hints.ReadOnly
	env, err := a.env()
	if err != nil {
		return err
	}
	d := openDoor(o.Streams, asJSON)
	defer d.close()
	out, err := o.Call(d.ctx, env, input, &d.stream)
	o.NameFields(err, input, flagName)
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
