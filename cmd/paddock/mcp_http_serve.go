//go:build mcp

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
	front "github.com/paddock-dev/paddock/server/httpd"
	"github.com/paddock-dev/paddock/server/mcp"
)

// mcpHTTP serves at an address until a signal asks for the end.
func (a *app) mcpHTTP(f *mcpFlags, named bool) error {
	a.own = f.own()
	var opts mcp.Options
	var store *token.Store
	var err error
	if f.http.noAuth {
		opts, err = a.mcpOptions(f, named)
	} else {
		opts, store, err = a.tokenOptions(f)
	}
	if err != nil {
		return err
	}
	server, err := newServer(opts)
	if err != nil {
		return err
	}
	guard, err := front.Listen(f.http.options(server, store, opts.Logger))
	if err != nil {
		return errors.Join(err, server.Close())
	}
	ctx, stop := untilSignal()
	defer stop()
	fmt.Fprintf(os.Stderr, "paddock: listening on %s\n", guard.URL())
	if f.http.noAuth {
		fmt.Fprintln(os.Stderr, "paddock: note: no token is asked for: whoever can connect does what you may let models do")
	}
	if f.http.insecure {
		fmt.Fprintln(os.Stderr, "paddock: note: tokens cross the network in the clear, unless something before this server speaks TLS")
	}
	return guard.Serve(ctx)
}

func (f *httpFlags) options(server *mcp.Server, store *token.Store, log *slog.Logger) front.Options {
	return front.Options{
		Address: f.address, TLSCert: f.tlsCert, TLSKey: f.tlsKey, ReadFile: readOwn,
		InsecureNoTLS: f.insecure, NoAuth: f.noAuth, AllowHosts: f.hosts, AllowOrigins: f.origins,
		Tokens: store, Log: log,
		Handler: server.Handler(), As: mcp.WithPrincipal, Forget: server.Forget, Close: server.Close,
		Limits: front.Limits{Sessions: f.sessions, SessionsEach: f.perUser},
	}
}

// tokenOptions is a server of principals that tokens let in: each with the bounds
// of its own, and with the privileges that its name was granted.
func (a *app) tokenOptions(f *mcpFlags) (mcp.Options, *token.Store, error) {
	store, err := openTokens()
	if err != nil {
		return mcp.Options{}, nil, err
	}
	opts, err := f.serverOptions()
	if err != nil {
		return mcp.Options{}, nil, err
	}
	opts.Tokens = true
	opts.Env = func(principal string) (*op.Env, error) {
		bounds, err := store.Bounds(principal)
		if err != nil {
			return nil, err
		}
		if bounds == nil {
			return nil, &paddock.Error{Message: "cannot serve " + principal + ": it has no token any more"}
		}
		env, err := a.modelEnv(bounds.Default, opts.Logger)
		if err != nil {
			return nil, err
		}
		env.Ceiling = &bounds.Ceiling
		env.Principal = &privilege.Principal{Name: principal}
		env.Tokens = nil
		env.Options.GitUser = false // it is the operator's, not the principal's
		return env, nil
	}
	return opts, store, nil
}
