//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/server/mcp"
	"github.com/paddock-dev/paddock/wire"
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
var everyday = []string{"network", "allow", "allow-from", "publish", "ro", "rw", "unprotect", "env", "env-pass", "memory", "cpus"}

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
server ends, and everything that it started, but for sandboxes of the tool
sandbox_create: the next server finds them (see paddock list).

Tools work in a sandbox over the workspace, which starts with the first call and
stays until the end. A model may ask only for what the operator gives: this workspace
and the mounts, network, limits, commands and backend that flags or --spec name.
Without --spec, a project's file of the workspace that you trust is read once, at the
start (paddock trust); over HTTP it is not.
Sandboxes that it makes have the same bounds. All flags of "paddock run" that describe a
sandbox work here, also those that are not listed below.

Fewer tools are easier to choose from: --profile run has one-shot commands,
workspace (default) has one sandbox that stays, and full has everything.

Answers are text. --structured adds structured content and output schemas, for
clients that read fields; models then pay for both.`

// addMCP completes the command that serves models.
func addMCP(app *cli.App, cmd *cobra.Command) {
	cmd.Long = mcpDoc
	cmd.Example = `  # what a client's configuration starts
  paddock mcp --workspace ~/src/app

  # with two hosts by name, and a directory beside the workspace
  paddock mcp --allow api.example.com --allow '*.example.org' --ro ~/go/pkg/mod

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

// explain reports why the server cannot start, also to a client that has started it.
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

// gcPercent allows some 16 MiB of garbage: reading a message makes much of it, and otherwise
// a call would wait for the collector.
const gcPercent = 400

// serveStdio serves until standard input ends, or a signal asks for the end.
func (f *mcpFlags) serveStdio(named bool) error {
	f.app.Own = f.own()
	opts, err := f.options(named)
	if err != nil {
		return err
	}
	if f.project != "" {
		if err := f.stayInProject(&opts); err != nil {
			return err
		}
	}
	env, err := opts.Env("")
	if err != nil {
		return err
	}
	opts.Env = func(string) (*op.Env, error) { return env, nil }
	server, err := newServer(opts)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	f.serving = true
	if term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintln(os.Stderr, "paddock: waiting for a client on standard input; paddock mcp install --client NAME sets one up")
	}
	return server.ServeStdio(ctx, os.Stdin, os.Stdout)
}

func newServer(opts mcp.Options) (*mcp.Server, error) {
	debug.SetGCPercent(gcPercent)
	return mcp.New(opts)
}

// options returns the server that the flags ask for: the local user's, whose models
// have the operator's spec as their ceiling.
func (f *mcpFlags) options(named bool) (mcp.Options, error) {
	opts, err := f.serverOptions()
	if err != nil {
		return opts, err
	}
	env, err := f.app.Env()
	if err != nil {
		return opts, err
	}
	spec, err := f.operatorSpec(env, named)
	if err != nil {
		return opts, err
	}
	linked, err := paddock.LinkWorktree(context.Background(), spec, env.Options)
	if err != nil {
		return opts, err
	}
	opts.Env = func(string) (*op.Env, error) {
		env, err := f.modelEnv(spec, opts.Logger)
		for _, m := range linked.Mounts[len(spec.Mounts):] {
			env.Repository = m.Source
		}
		return env, err
	}
	return opts, nil
}

// serverOptions returns the options that do not depend on who asks.
func (f *mcpFlags) serverOptions() (mcp.Options, error) {
	profile, err := cli.ParseProfile(f.profile)
	if err != nil {
		return mcp.Options{}, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return mcp.Options{}, &policy.FieldError{Field: "--log-level", Value: f.logLevel, Reason: "unknown level", Hint: "debug, info, warn or error"}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return mcp.Options{Profile: profile, Budget: f.budget, Structured: f.structured, Logger: log, Version: wire.Build}, nil
}

// modelEnv returns the environment of a model's operations: the local user's, but without the
// variables of this process and without that user's privileges, below the ceiling of the
// operator's spec.
func (f *mcpFlags) modelEnv(spec policy.Spec, log *slog.Logger) (*op.Env, error) {
	env, err := f.app.Env()
	if err != nil {
		return nil, err
	}
	ceiling, err := spec.Ceiling()
	if err != nil {
		return nil, err
	}
	ceiling.Idle, ceiling.Lifetime = policy.MaxLasting, policy.MaxLasting // no spec says them, and it is the user's own
	env.LookupEnv, env.Default, env.Ceiling = nil, &spec, ceiling
	env.Principal = privilege.ModelOf(env.Principal)
	env.Warn = func(err error) { log.Warn(err.Error()) }
	return env, nil
}

// operatorSpec returns the spec of the sandbox that models get: the settings of the spec file
// and of the flags, over the workspace. Errors name flags, and keys of the spec file.
func (f *mcpFlags) operatorSpec(env *op.Env, named bool) (spec policy.Spec, err error) {
	var file *specfile.File
	if f.spec != "" {
		text, err := readOwn(f.spec)
		if err != nil {
			return spec, &policy.FieldError{Field: "--spec", Value: f.spec, Reason: hostpath.Reason(err), Hint: hostpath.Hint(err)}
		}
		if file, err = specfile.Parse(f.spec, text); err != nil {
			return spec, err
		}
		spec = file.Spec
	}
	input, err := f.sandbox.Encode(nil)
	if err != nil {
		return spec, err
	}
	defer func() {
		op.LocateFields(err, input, file)
		op.NameFields(op.SpecFields(), err, input, cli.FlagName)
	}()
	if dir, ok := f.projectDir(named); ok && file == nil {
		spec, file, err = op.ProjectOver(context.Background(), env, dir, input)
	} else {
		spec, err = op.SpecOver(context.Background(), env, spec, input)
	}
	if err != nil {
		return spec, err
	}
	if named || spec.Workspace.Source == "" && spec.Backend != policy.BackendWrapper {
		flag, dir := "--workspace", f.workspace
		if f.project != "" {
			flag = "--project"
		}
		if !named {
			dir, err = currentDir()
		}
		if err == nil {
			dir, err = existingDir(flag, dir)
		}
		if err != nil {
			return spec, err
		}
		spec.Workspace.Source = dir
	}
	if spec, err = op.AllowFrom(context.Background(), env, spec, input); err != nil {
		return spec, err
	}
	return op.OperatorSpec(spec)
}

// projectDir returns the workspace whose project's file the server reads, once, at its start.
// A server that listens reads none, since others than this user connect to it.
func (f *mcpFlags) projectDir(named bool) (dir string, ok bool) {
	if f.http.address != "" {
		return "", false
	}
	if dir = f.workspace; !named {
		var err error
		if dir, err = currentDir(); err != nil {
			return "", false // reported where it is needed
		}
	}
	return dir, dir != ""
}

// currentDir returns the current directory as a workspace. Clients start servers in unexpected
// directories: a home, or all of the system, is a workspace only if a flag names it.
func currentDir() (string, error) {
	dir, err := hostpath.Getwd()
	if err != nil {
		return "", &policy.FieldError{Field: "--workspace", Reason: "there is no current directory: " + err.Error(), Hint: "name a directory: --workspace DIR"}
	}
	if why := hostpath.Unasked(dir); why != "" {
		return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: "the current directory " + why + ": models should not change that unasked",
			Hint: "name a directory: --workspace DIR, or this one, if you mean it: --workspace " + policy.ShellWord(dir)}
	}
	return dir, nil
}

// existingDir returns the absolute path of the directory that a flag names.
func existingDir(flag, dir string) (string, error) {
	if dir == "" {
		return "", &policy.FieldError{Field: flag, Reason: "it is empty", Hint: "name a directory, or leave it out for the current one"}
	}
	abs, err := hostpath.Abs(dir)
	if err != nil {
		return "", &policy.FieldError{Field: flag, Value: dir, Reason: err.Error()}
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", &policy.FieldError{Field: flag, Value: dir, Reason: "it is not a directory", Hint: "make it first"}
	}
	return abs, nil
}

// stayInProject offers no tools if the client was started outside of the project, since a
// client may apply its user's configuration everywhere. Inside, the server refuses to work
// until the user has looked at files that commands made for clients to obey ([hold]).
func (f *mcpFlags) stayInProject(opts *mcp.Options) error {
	dir, err := hostpath.Getwd()
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	project, err := filepath.EvalSymlinks(f.project)
	if err != nil {
		return err
	}
	if _, in := hostpath.Within(dir, project); in {
		h, err := openHold(project)
		if err != nil {
			return err
		}
		opts.Hold, opts.Planted = h.check, h.planted
		return h.checkRecord()
	}
	opts.Ops = []op.Op{}
	opts.Instructions = "This server works in " + project + " alone, and offers no tools here. To have it here: paddock mcp install"
	return nil
}

// own returns the files that flags name. Models must not change these, since the next start
// reads them.
func (f *mcpFlags) own() []backend.OwnFile {
	var own []backend.OwnFile
	for _, file := range []backend.OwnFile{
		{Path: f.spec, What: "the operator's spec", Field: "--spec"},
		{Path: f.http.tlsCert, What: "the certificate", Field: "--tls-cert"},
		{Path: f.http.tlsKey, What: "the key of the certificate", Field: "--tls-key", Hidden: true},
	} {
		if named, ok := hostpath.OwnNamed(file.Path); ok && file.Path != "" {
			file.Path = named.Path
			own = append(own, file)
		}
	}
	return own
}

// readOwn reads a file that the command line names, to which no link leads that
// commands of a sandbox could have made.
func readOwn(name string) ([]byte, error) {
	const most = 1 << 20
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return hostpath.ReadNamed(context.Background(), state, name, most)
}

// untilSignal returns a context that ends with the first INT, TERM or HUP; the second
// one has its default effect. A write to a closed output is an error, not a signal.
func untilSignal() (context.Context, context.CancelFunc) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancel(errors.New("a signal asked for the end"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
