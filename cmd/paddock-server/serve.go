package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/server/mcp"
	"github.com/paddock-dev/paddock/wire"
)

// gcPercent lets some 16 MiB of garbage be: reading a message makes much of it,
// and a call would wait for its collection.
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

// options is the server that the flags ask for: the local user's, whose models
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

// serverOptions is what does not depend on who asks.
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

// modelEnv is what the operations of a model find: the local user's environment,
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

// own are the files that the server was told of, which its models must not change:
// it would start anew with what they wrote.
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

// untilSignal is a context that ends with the first INT, TERM or HUP; the second
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
