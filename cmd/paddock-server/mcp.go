package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// mcpFlags are the flags of "paddock mcp".
type mcpFlags struct {
	app        *cli.App
	workspace  string
	project    string
	spec       string
	profile    string
	budget     int
	structured bool
	logLevel   string
	http       httpFlags
	sandbox    *cli.Input // the flags of run that describe the sandbox
	serving    bool       // over standard input: a client may have been answered
}

// everyday are the flags of the sandbox that help texts list.
var everyday = []string{"network", "ro", "rw", "unprotect", "env", "env-pass", "memory", "cpus"}

// sandboxFlags adds the flags of run that describe a sandbox, without those that the
// server has itself.
func sandboxFlags(cmd *cobra.Command) *cli.Input {
	fields := slices.DeleteFunc(op.SpecFields(), func(f op.Field) bool { return f.Flag == "spec" || f.Flag == "workspace" })
	in := cli.AddFlags(cmd, "mcp", fields)
	for _, f := range fields {
		cmd.Flag(f.Flag).Hidden = !slices.Contains(everyday, f.Flag)
	}
	return in
}

const mcpDoc = `Serve models over the Model Context Protocol: each operation is a tool.

The client starts this command and speaks with it over standard input and output,
one JSON message a line; logs go to standard error. When standard input ends, the
server ends, and everything that it started.

Tools work in a sandbox over the workspace, which starts with the first call and
stays until the end. A model may ask only for what the operator gives: this workspace
and the mounts, network, limits, commands and backend that flags or --spec name.
Sandboxes that it makes keep to the same. All flags of "paddock run" that describe a
sandbox work here, those too that are not listed below.

Fewer tools are easier to choose from: --profile run has one-shot commands,
workspace (default) has one sandbox that stays, and full has everything.

Answers are text. --structured adds structured content and output schemas, for
clients that read fields; models then pay for both.`

// addMCP completes the command that serves models.
func addMCP(app *cli.App, cmd *cobra.Command) {
	cmd.Long = mcpDoc
	cmd.Example = `  # what a client's configuration starts
  paddock mcp --workspace ~/src/app

  # with a network, and a directory beside the workspace
  paddock mcp --network host --ro ~/go/pkg/mod

  # with more tools, under a spec of the operator's
  paddock mcp --workspace ~/src/app --profile full --spec agents.yaml`
	f := &mcpFlags{app: app}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`DIR` that models may change (default: the current directory, unless it is or holds a home, /etc or /usr)")
	flags.StringVar(&f.project, "project", "", "as --workspace, and offer tools only to clients that were started in this `DIR`")
	flags.StringVar(&f.spec, "spec", "", "read the sandbox's spec from a YAML or JSON `FILE`; it is the most that models may ask for")
	f.sandbox = sandboxFlags(cmd)
	flags.StringVar(&f.profile, "profile", op.ProfileWorkspace.String(), "which tools: run, workspace or full, as `NAME`")
	flags.BoolVar(&f.structured, "structured", false, "add structured content to answers, and output schemas to tools")
	flags.IntVar(&f.budget, "budget", 0, "`N` characters that an answer has at most (default 40000)")
	flags.StringVar(&f.logLevel, "log-level", "warn", "what is logged to standard error: debug, info, warn or error, as `LEVEL`")
	f.http.add(cmd)
	cmd.AddCommand(installCommand(), uninstallCommand())
	cmd.SetFlagErrorFunc(func(at *cobra.Command, err error) error {
		if err = cli.FlagError(at, err); at != cmd {
			return err
		}
		return f.explain(cmd, err)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := f.run(cmd, args)
		for _, e := range policy.FieldErrors(err) { // an option of the server has the name of its flag
			if name := strings.ReplaceAll(e.Field, "_", "-"); e.File == "" && e.Line == 0 && cmd.Flags().Lookup(name) != nil {
				e.Field = "--" + name
			}
		}
		return f.explain(cmd, err)
	}
}

// explain reports why the server cannot start, to a client too where one has started it.
func (f *mcpFlags) explain(cmd *cobra.Command, err error) error {
	if f.serving || f.http.on(cmd) {
		return err
	}
	return f.app.Explain(err, f.profile)
}

// run serves models as the flags say.
func (f *mcpFlags) run(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.UnknownCommand(cmd, args[0])
	}
	if err := f.http.check(cmd); err != nil {
		return err
	}
	named := cmd.Flags().Changed("workspace")
	if f.project != "" {
		if named || f.http.on(cmd) {
			return &policy.FieldError{Field: "--project", Value: f.project, Reason: "it names the workspace, for a client that starts the server", Hint: "leave out --workspace and --http, or write --workspace alone"}
		}
		if !filepath.IsAbs(f.project) {
			return &policy.FieldError{Field: "--project", Value: f.project, Reason: "it is not absolute, and would be another project wherever a client is started", Hint: "write the whole path, or --workspace"}
		}
		f.workspace, named = f.project, true
	}
	if f.http.on(cmd) {
		return f.serveHTTP(named)
	}
	return f.serveStdio(named)
}
