//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/cmd/internal/cli"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
	"github.com/paddock-dev/paddock/server/httpd"
	"github.com/paddock-dev/paddock/server/mcp"
)

// httpFlags are the flags of a server that listens.
type httpFlags struct {
	address           string
	tlsCert, tlsKey   string
	insecure, noAuth  bool
	hosts, origins    []string
	sessions, perUser int
}

const httpDoc = `

With --http it listens at an address instead, for many clients, at the path /mcp.
Each sends a bearer token (paddock token create), which names its principal and what
that may have. Principals do not see each other's sandboxes. A principal's default
sandbox lives as long as the server; others outlive it, and end when the principal
has no token any more. Loopback addresses are plain HTTP; others need
--tls-cert and --tls-key. INT or TERM ends what is in flight, then the server.`

func (f *httpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	cmd.Long += httpDoc
	cmd.Example += `

  # for clients with tokens, on this host
  paddock token create agent:ann --workspace ~/src/app
  paddock mcp --http 127.0.0.1:8765`
	flags.StringVar(&f.address, "http", "", "listen at `ADDR`, 127.0.0.1:8765 or unix:///PATH, instead of standard input")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "speak TLS with the certificates in this PEM `FILE`")
	flags.StringVar(&f.tlsKey, "tls-key", "", "the PEM `FILE` with the key of --tls-cert")
	flags.BoolVar(&f.insecure, "insecure-no-tls", false, "listen without TLS where others than this host can connect")
	flags.BoolVar(&f.noAuth, "no-auth", false, "ask for no token: every process of this host may use --workspace as you")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "also accept requests for this host `NAME`, for example a proxy's (may be repeated)")
	flags.StringArrayVar(&f.origins, "allow-origin", nil, "let pages of this `ORIGIN`, such as https://app.example, send requests from a browser (may be repeated)")
	flags.IntVar(&f.sessions, "max-sessions", 0, "`N` sessions at most, of all principals (default 1024)")
	flags.IntVar(&f.perUser, "max-sessions-each", 0, "`N` sessions at most of each principal (default 64)")
}

// on reports whether the server listens.
func (f *httpFlags) on(cmd *cobra.Command) bool { return cmd.Flags().Changed("http") }

// check rejects flags that would have no effect.
func (f *httpFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if !f.on(cmd) {
		for _, name := range []string{"tls-cert", "tls-key", "insecure-no-tls", "no-auth", "allow-host", "allow-origin", "max-sessions", "max-sessions-each"} {
			if changed(name) {
				return &policy.FieldError{Field: "--" + name, Reason: "it is for a server that listens", Hint: "give --http ADDR too"}
			}
		}
		return nil
	}
	for _, field := range op.SpecFields() {
		if name := field.Flag; changed(name) && !f.noAuth {
			hint := "paddock token create NAME --spec FILE, or --no-auth"
			if name == "workspace" {
				hint = "paddock token create NAME --workspace DIR, or --no-auth"
			}
			return &policy.FieldError{Field: "--" + name, Reason: "each token says it for its principal", Hint: hint}
		}
	}
	for _, name := range []string{"max-sessions", "max-sessions-each"} {
		if n, err := cmd.Flags().GetInt(name); changed(name) && (err != nil || n < 1 || n > 1<<16) {
			return &policy.FieldError{Field: "--" + name, Value: cmd.Flag(name).Value.String(), Reason: "it is not from 1 to 65536"}
		}
	}
	if slices.Contains(f.hosts, "") || slices.Contains(f.hosts, "*") {
		return &policy.FieldError{Field: "--allow-host", Reason: "it is not a name", Hint: "name the host that clients ask for"}
	}
	return nil
}

// reached adds to an error that commands reach an address what to do about it.
func reached(at net.Addr, err error) error {
	e := (*paddock.ReachedError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	command := "paddock "
	if e.State != "" {
		command = "PADDOCK_STATE_DIR=" + policy.ShellWord(e.State) + " " + command
	}
	stop := ", end it: " + command + "stop " + e.ID
	why, hint := e.Error()+", and its commands could do all that the server does", "listen at another port, take the port from it: "+command+"network set "+e.ID+" --none"
	switch {
	case e.Err != nil:
		why, hint = e.Error(), "listen at another address"+stop
	case e.Shared, e.Dir != "":
		hint = "listen at a Unix socket outside of what its commands see" + stop
	}
	return &policy.FieldError{Field: "--http", Value: at.String(), Reason: why, Hint: hint + ", or leave --no-auth out"}
}

// serveHTTP serves at an address until a signal asks for the end.
func (f *mcpFlags) serveHTTP(named bool) error {
	f.app.Own = f.own()
	var opts mcp.Options
	var store *token.Store
	var err error
	if f.http.noAuth {
		opts, err = f.options(named)
	} else {
		opts, store, err = f.tokenOptions()
	}
	if err != nil {
		return err
	}
	server, err := newServer(opts)
	if err != nil {
		return err
	}
	h := f.http
	guard, err := httpd.Listen(httpd.Options{
		Address: h.address, TLSCert: h.tlsCert, TLSKey: h.tlsKey, ReadFile: readOwn,
		InsecureNoTLS: h.insecure, NoAuth: h.noAuth, AllowHosts: h.hosts, AllowOrigins: h.origins,
		Tokens: store, Log: opts.Logger,
		Handler: server.Handler(), As: mcp.WithPrincipal, Forget: server.Forget, Close: server.Close,
		Limits: httpd.Limits{Sessions: h.sessions, SessionsEach: h.perUser},
	})
	if err != nil {
		return errors.Join(err, server.Close())
	}
	forget, err := paddock.RecordServer(paddock.Options{}, guard.Addr(), h.noAuth)
	if err != nil {
		return errors.Join(err, guard.Close(), server.Close())
	}
	defer forget()
	ctx, stop := untilSignal()
	defer stop()
	if h.noAuth {
		if err := paddock.RefuseReached(ctx, paddock.Options{}, guard.Addr()); err != nil {
			return errors.Join(reached(guard.Addr(), err), guard.Close(), server.Close())
		}
	}
	fmt.Fprintf(os.Stderr, "paddock: listening on %s\n", guard.URL())
	if h.noAuth {
		fmt.Fprintln(os.Stderr, "paddock: note: no token is needed: everybody who can connect may do what models may do for you")
	}
	if h.insecure {
		fmt.Fprintln(os.Stderr, "paddock: note: tokens cross the network in the clear, unless something before this server speaks TLS")
	}
	return guard.Serve(ctx)
}

// tokenOptions returns the options of a server for the principals of tokens: each has its own
// bounds, and the privileges that were granted to its name.
func (f *mcpFlags) tokenOptions() (mcp.Options, *token.Store, error) {
	store, err := cli.OpenTokens()
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
		env, err := f.modelEnv(bounds.Default, opts.Logger)
		if err != nil {
			return nil, err
		}
		env.Ceiling = &bounds.Ceiling
		env.Principal = &privilege.Principal{Name: principal}
		env.Tokens = nil
		env.Options.GitUser = false // it is the operator's, not the principal's
		env.Options.Toolchains = bounds.Ceiling.Holds
		return env, nil
	}
	return opts, store, nil
}
