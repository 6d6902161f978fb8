package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
)

// serverName is the program beside paddock that is this same command line with all of
// [Program] linked. It is twice as large, and starts more slowly.
const serverName = "paddock-server"

// keepServer is the hint where serverName is missing.
const keepServer = "keep " + serverName + " beside paddock; make build makes both"

// becomeServer executes paddock-server in place of this program, with the same
// arguments, and returns why it could not.
func becomeServer() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return err
	}
	way, err := hostpath.NewSeen(hostpath.List(state)).TrustProgram(backend.OwnFile{Path: filepath.Join(filepath.Dir(self), serverName), What: serverName})
	if err != nil {
		return err
	}
	return &paddock.Error{Message: "cannot start " + way.Path + ": " + syscall.Exec(way.Path, os.Args, os.Environ()).Error(), Hint: keepServer}
}

// mcpCommand returns the command that serves models, which is no operation itself.
// withFlags is false if the command will not be used.
func (a *App) mcpCommand(withFlags bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "mcp [flags]",
		Short:                 "Serve models over the Model Context Protocol",
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return nil }, // listed in help texts
	}
	switch {
	case !withFlags:
	case a.program.MCP != nil:
		a.program.MCP(a, cmd)
	default:
		a.leaveToServer(cmd)
	}
	return cmd
}

// leaveToServer makes cmd become paddock-server, which alone knows the flags, also for
// help and completion.
func (a *App) leaveToServer(cmd *cobra.Command) {
	cmd.DisableFlagParsing = true
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
			return cmd.Help()
		}
		err := becomeServer()
		// A client that speaks over standard input is told why there is no server.
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.ParseErrorsAllowlist.UnknownFlags = true
		profile := flags.String("profile", op.ProfileWorkspace.String(), "")
		flags.String("http", "", "")
		if wrong := flags.Parse(args); wrong == nil && (flags.NArg() > 0 || flags.Changed("http")) {
			return err
		}
		return a.Explain(err, *profile)
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		err := becomeServer()
		fmt.Println(cmd.Short + ".")
		report(os.Stderr, fmt.Errorf("cannot list the flags: %w", err))
	})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		_ = becomeServer() // without it nothing is offered
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
