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
	"syscall"

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

// gcPercent lets some 16 MiB of garbage collect: reading a message makes much of it,
// and a call would wait for the collector.
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
		return mcp.Options{}, &policy.FieldError{Field: "--log-level", Value: f.logLevel, Reason: "there is no such level", Hint: "debug, info, warn or error"}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return mcp.Options{Profile: profile, Budget: f.budget, Structured: f.structured, Logger: log, Version: wire.Build}, nil
}

// modelEnv returns what the operations of a model find: the local user's environment,
// without that of its process and without that user's privileges, below the
// ceiling of the operator's spec.
func (f *mcpFlags) modelEnv(spec policy.Spec, log *slog.Logger) (*op.Env, error) {
	env, err := f.app.Env()
	if err != nil {
		return nil, err
	}
	ceiling, err := spec.Ceiling()
	if err != nil {
		return nil, err
	}
	env.LookupEnv, env.Default, env.Ceiling = nil, &spec, ceiling
	env.Principal = privilege.ModelOf(env.Principal)
	env.Warn = func(err error) { log.Warn(err.Error()) }
	return env, nil
}

// operatorSpec returns the sandbox that models are given: the spec's settings, and the
// flags', over the workspace. Errors name flags, and keys of the spec's file.
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
	if spec, err = op.SpecOver(context.Background(), env, spec, input); err != nil {
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
	return op.OperatorSpec(spec)
}

// currentDir returns the current directory as a workspace. Clients start servers in odd
// places: a home, or all of the system, is a workspace only if a flag names it.
func currentDir() (string, error) {
	dir, err := hostpath.Getwd()
	if err != nil {
		return "", &policy.FieldError{Field: "--workspace", Reason: "there is no current directory: " + err.Error(), Hint: "name a directory: --workspace DIR"}
	}
	if why := hostpath.Unasked(dir); why != "" {
		return "", &policy.FieldError{Field: "--workspace", Value: dir, Reason: "the current directory " + why + ": models should not change that unasked",
			Hint: "name a directory: --workspace DIR"}
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

// stayInProject offers no tools if the client was started outside of the project: a
// user's configuration that a client obeys everywhere serves this project alone.
// Inside, the server does nothing while the user has to look at what commands have made.
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

// own returns the files that flags name. Models must not change these: the next start
// would obey what they wrote.
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
// one has its default effect. A write that nobody reads is an error, not a signal.
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
