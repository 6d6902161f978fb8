package main

import (
	"github.com/spf13/cobra"
)

// installFlags are what the set-up of a client is told.
type installFlags struct {
	client, scope, name, workspace, profile, spec, command string
	print, force                                           bool
}

// installCommand sets up a client of the door for models.
func (a *app) installCommand() *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use:   "install --client NAME",
		Short: "Set up a client: write the configuration that starts the server",
		Long: `Write into a client's configuration what makes it start "paddock mcp", or print
that. What is there stays as it is, comments too; where the server is there
already nothing is written, and another of its name is left alone without --force.
A file that cannot be edited safely is left alone, and what to add is printed.

  claude-code  .mcp.json here; with --scope user the command for it is printed
  codex        config.toml in $CODEX_HOME or ~/.codex; with --scope project
               .codex/config.toml here, which codex reads in projects it trusts
  vscode       .vscode/mcp.json here; with --scope user the command is printed`,
		Example: `  paddock mcp install --client claude-code
  paddock mcp install --client codex --workspace ~/src/app --profile full
  paddock mcp install --client vscode --print`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return f.install()
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.client, "client", "", "the client: claude-code, codex or vscode, as `NAME`")
	flags.BoolVar(&f.print, "print", false, "print what would be there, and write nothing")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`DIR` that models may change (default: where the client is started)")
	flags.StringVar(&f.profile, "profile", "", "which tools: run, workspace or full, as `NAME` (default: workspace)")
	flags.StringVar(&f.spec, "spec", "", "the `FILE` with the spec of the sandbox")
	flags.StringVar(&f.scope, "scope", "", "project or user, as `SCOPE` (default: project, for codex user)")
	flags.StringVar(&f.name, "name", "paddock", "what the client calls the server, `NAME`")
	flags.StringVar(&f.command, "command", "", "the `PROGRAM` to start (default: this one)")
	flags.BoolVar(&f.force, "force", false, "replace another server of the same name")
	return cmd
}
