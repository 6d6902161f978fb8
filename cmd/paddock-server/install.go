package main

import (
	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock/cmd/internal/cli"
)

// installFlags are what the set-up of a client is told.
type installFlags struct {
	client, scope, name, workspace, profile, spec, command string
	print, force, ask, exclusive                           bool
	takesBack                                              bool       // uninstall: the workspace need not be there any more
	sandbox                                                *cli.Input // flags for the server
}

// installCommand sets up a client of the door for models.
func installCommand() *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use:   "install --client NAME",
		Short: "Set up a client: write the configuration that starts the server",
		Long: `Add "paddock mcp" to a client's configuration, or print what to add. The rest of the
file stays as it is, comments too. A server that is there already is not written
again, and another one of its name is only replaced with --force. Where a file
cannot be edited safely, what to add is printed.

  claude-code  your ~/.claude.json, for this project alone, and approved; with
               --scope project .mcp.json here, for a team
  codex        your ~/.codex/config.toml ($CODEX_HOME), for this project alone, and
               approved; with --scope user for all; with --scope project
               .codex/config.toml here, which codex reads in projects it trusts
  cursor       .cursor/mcp.json here; with --scope user ~/.cursor/mcp.json
  gemini       your ~/.gemini/settings.json, for this project alone, and approved; with
               --scope user for all; with --scope project .gemini/settings.json here
  vscode       .vscode/mcp.json here; with --scope user the command is printed
  any other    --print prints what most of them read

Approved means that the model uses the tools without asking, which clients that run
without a person need. Only the default profile is approved, without a network,
without a spec, and with nothing writable but the workspace. Clients approve a server
by its name, so an approved one gets a random name, which no project's file can give
to another program. --ask leaves the approval out; "paddock mcp uninstall" takes
everything back.

Flags of "paddock run" that describe a sandbox are handed on to the server.

The client's own tools for commands and edits stay, and work outside of the sandbox.
--exclusive turns them off in this project (claude-code, codex and gemini), where the
client is started in its directory, and prints what holds in one below.`,
		Example: `  paddock mcp install --client claude-code
  paddock mcp install --client codex --workspace ~/src/app --exclusive
  paddock mcp install --client vscode --profile full
  paddock mcp install --print`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			return f.install()
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.common(cmd)
	flags.BoolVar(&f.ask, "ask", false, "leave the approval out: the client asks before the model uses a tool")
	flags.BoolVar(&f.exclusive, "exclusive", false, "turn the client's own tools for commands and edits off, in this project")
	flags.BoolVar(&f.print, "print", false, "print what would be there, and write nothing")
	flags.StringVar(&f.profile, "profile", "", "which tools: run, workspace or full, as `NAME` (default: workspace)")
	flags.StringVar(&f.spec, "spec", "", "the `FILE` with the spec of the sandbox")
	f.sandbox = sandboxFlags(cmd)
	flags.StringVar(&f.command, "command", "", "the `PROGRAM` to start (default: this one)")
	flags.BoolVar(&f.force, "force", false, "replace another server of the same name")
	return cmd
}

// common adds the flags that say which server of which client is meant.
func (f *installFlags) common(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.client, "client", "", "the client: claude-code, codex, cursor, gemini or vscode, as `NAME`")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`DIR` that models may change (default: where the client is started; for this project alone: the current directory)")
	flags.StringVar(&f.scope, "scope", "", "local (yours, this project alone), project or user, as `SCOPE` (default: local where the client has it, else project)")
	flags.StringVar(&f.name, "name", "", "what the client calls the server, `NAME` (default: paddock, or a name made up)")
}

// uninstallCommand takes back what installCommand's does.
func uninstallCommand() *cobra.Command {
	f := &installFlags{takesBack: true}
	cmd := &cobra.Command{
		Use:   "uninstall --client NAME",
		Short: "Take back what install has written",
		Long: `Take the server out of a client's configuration, its approval, and what --exclusive
has written: yours for this project, and the project's. What --scope user wrote
serves other projects too, and is taken back with --scope user. A restriction that
install has not written, or has no record of, stays and is printed.`,
		Example: `  paddock mcp uninstall --client claude-code
  paddock mcp uninstall --client codex --scope user`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			return f.uninstall()
		},
	}
	cmd.Flags().SortFlags = false
	f.common(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "take it out, too, where the server of this name is another program's")
	return cmd
}
