package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// mcpFlags are what the door for models is told.
type mcpFlags struct {
	workspace  string
	project    string
	spec       string
	profile    string
	budget     int
	structured bool
	logLevel   string
	http       httpFlags
	sandbox    *input // the flags of run that describe the sandbox
}

// everyday are the flags of those that help texts list.
var everyday = []string{"network", "ro", "rw", "unprotect", "env", "env-pass", "memory", "cpus"}

// sandboxFlags adds the flags of run that describe a sandbox, but for those that the
// door has itself.
func sandboxFlags(cmd *cobra.Command) *input {
	in := &input{name: "mcp", values: map[string]any{}}
	for _, f := range op.SpecFields() {
		if f.Flag != "spec" && f.Flag != "workspace" {
			in.fields = append(in.fields, f)
		}
	}
	in.addFlags(cmd)
	for _, f := range in.fields {
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

// mcpCommand is the door for models, which is no operation itself. withFlags is
// false where it will not be used.
func (a *app) mcpCommand(withFlags bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve models over the Model Context Protocol",
		Long:  mcpDoc,
		Example: `  # what a client's configuration starts
  paddock mcp --workspace ~/src/app

  # with a network, and a directory beside the workspace
  paddock mcp --network host --ro ~/go/pkg/mod

  # with more tools, under a spec of the operator's
  paddock mcp --workspace ~/src/app --profile full --spec agents.yaml`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	if !withFlags {
		cmd.RunE = func(*cobra.Command, []string) error { return nil } // listed in help texts
		return cmd
	}
	f := &mcpFlags{}
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
	cmd.AddCommand(a.installCommand(), a.uninstallCommand())
	cmd.SetFlagErrorFunc(func(at *cobra.Command, err error) error {
		if err = flagError(at, err); at != cmd {
			return err
		}
		return a.explain(cmd, f, err)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := a.serveMCP(cmd, f, args)
		for _, e := range policy.FieldErrors(err) { // an option of the server has the name of its flag
			if name := strings.ReplaceAll(e.Field, "_", "-"); e.File == "" && e.Line == 0 && cmd.Flags().Lookup(name) != nil {
				e.Field = "--" + name
			}
		}
		return a.explain(cmd, f, err)
	}
	return cmd
}

// serveMCP serves models as the flags say.
func (a *app) serveMCP(cmd *cobra.Command, f *mcpFlags, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
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
		return a.mcpHTTP(f, named)
	}
	return a.mcp(f, named)
}

// profileOf reads a profile's name.
func (f *mcpFlags) profileOf() (op.Profile, error) {
	for _, p := range op.Profiles() {
		if p.String() == f.profile {
			return p, nil
		}
	}
	return 0, &policy.FieldError{Field: "--profile", Value: f.profile, Reason: "there is no such profile", Hint: "run, workspace or full"}
}
