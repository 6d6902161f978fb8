// Package mcp is the door for models: a server of the Model Context Protocol that renders the
// table of operations. Each operation of its profile that the principal may use is a tool of
// the same name:
//
//	server, err := mcp.New(mcp.Options{
//		Env:     func(principal string) (*op.Env, error) { … },
//		Profile: op.ProfileWorkspace,
//	})
//	…
//	err = server.ServeStdio(ctx, os.Stdin, os.Stdout) // one client, until its end
//
// or, for many clients, [Server.Handler], behind a handler that authenticates requests
// ([WithPrincipal]). Each principal has its own environment, sandboxes and sessions, which live
// as long as the server and are not visible to other principals.
//
// op.Op.Call checks the input of a tool, as behind every door. An answer is a text for models,
// without control sequences for terminals, of at most [Options].Budget characters.
// [Options].Structured adds the operation's output as structured content, with unchanged names
// and contents of files; each of the two then gets half of the budget. A tool whose answer is
// fixed by a contract answers with that JSON, complete, within the contract's bounds. A failed
// operation, even one that panicked, is an answer with isError and the text "cannot …: …"; an
// unknown tool is an error of the protocol.
//
// Standard input and output belong to the protocol: no command gets them, and the server's own
// messages go to its logger.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/op/table"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// The bounds of a server.
const (
	// DefaultBudget is the default of [Options].Budget.
	DefaultBudget = 40000
	// MinBudget is the smallest budget that has room for an error and its hint.
	MinBudget = 6000
	// maxViews bounds the principals of a server.
	maxViews = 1024
	// endTime bounds how long the end of a server waits for calls.
	endTime = 20 * time.Second
)

// Options configure a server. Env is required; the rest has defaults.
type Options struct {
	// Env makes the environment of a principal, once, at its first request; "" is the client
	// on standard input. The server sets its Budget, Sandboxes, Sessions and Outputs, and
	// closes the last three.
	Env func(principal string) (*op.Env, error)
	// Profile is the set of tools. Default: all, op.ProfileFull.
	Profile op.Profile
	// Budget bounds an answer, text and structured content together, in characters. Default:
	// [DefaultBudget]; less than [MinBudget] is an error. If it is 0, answers of tools whose
	// form a contract fixes have the contract's bounds.
	Budget int
	// Structured adds structured content to each answer, and its schema to each tool. Some
	// clients show a model that instead of the text. Default: only text.
	Structured bool
	// Tokens means that principals have their own specs. Hints then name keys of a spec
	// instead of the operator's flags.
	Tokens bool
	// Logger gets the server's messages. nil: they are discarded.
	Logger *slog.Logger
	// Version is the version of this program, for clients.
	Version string
	// Instructions describe the server to models. Default: the instructions of the profile.
	Instructions string
	// Hold is called before each call. If it returns an error, that is the answer of every
	// call from then on, and everything that was started is ended. May be nil.
	Hold func() error
	// Planted is called, from any goroutine, with the files that a sandbox has left and that
	// the host would execute or obey. They are also logged. It may be nil.
	Planted func(op.Planted)
	// Ops are the operations. Default: table.All().
	Ops []op.Op
	// Extend adds tools and resources to the server of a principal, before its first client
	// connects. May be nil.
	Extend func(*sdk.Server)
}

// Server serves tools to models. Its methods are safe for concurrent use.
type Server struct {
	opts    Options
	bounded bool // Options.Budget was given
	tools   *tools
	ctx     context.Context // ends with the server
	end     context.CancelFunc

	mu     sync.Mutex
	views  map[string]*view
	closed bool
}

// New returns a server. It starts nothing before the first request.
func New(opts Options) (*Server, error) {
	if opts.Env == nil {
		return nil, errors.New("cannot make a server: Options.Env is missing")
	}
	bounded := opts.Budget != 0
	if !bounded {
		opts.Budget = DefaultBudget
	}
	if opts.Budget < MinBudget {
		return nil, &policy.FieldError{Field: "budget", Reason: "an answer has no room in it", Hint: "6000 characters are the least, 40000 the default"}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Instructions == "" {
		opts.Instructions = instructions(opts.Profile)
	}
	if opts.Ops == nil {
		opts.Ops = table.All()
	}
	s := &Server{opts: opts, bounded: bounded, tools: newTools(opts.Ops, opts.Profile), views: map[string]*view{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// view returns the view of a principal, and makes it at its first request.
func (s *Server) view(principal string) (*view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.views[principal]; v != nil {
		return v, nil
	}
	switch {
	case s.closed:
		return nil, &paddock.Error{Message: "cannot serve: the server has ended"}
	case len(s.views) >= maxViews:
		return nil, &paddock.Error{Message: "cannot serve another principal: too many are known", Hint: "start the server again"}
	}
	env, err := s.opts.Env(principal)
	if err != nil {
		return nil, err
	}
	v := newView(s, principal, env)
	s.views[principal] = v
	return v, nil
}

// Forget ends everything that a principal has started, its sessions and the sandboxes that outlive
// the server. Its next request
// starts afresh. For an unknown principal Forget does nothing.
func (s *Server) Forget(principal string) error {
	s.mu.Lock()
	v := s.views[principal]
	delete(s.views, principal)
	s.mu.Unlock()
	if v == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	return errors.Join(v.close(), v.env.EndAllKept(ctx))
}

// forgetTime is how long the end of a principal's sandboxes may take.
const forgetTime = 2 * time.Minute

// Close ends every call, sandbox and session, but for those that outlive the server, and returns when their end is proved. If that is
// not possible, the error says what is left. Closing again does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	views := s.views
	s.views = map[string]*view{}
	s.mu.Unlock()
	s.end()
	errs := make(chan error, len(views))
	for _, v := range views {
		go func() { errs <- v.close() }()
	}
	var all []error
	for range views {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// planted logs for the operator, at the default level, the files that a sandbox has left and
// that the host would run or obey. The model's answers name them too, but the model may be the
// attacker that made them.
func (s *Server) planted(p op.Planted) {
	if s.opts.Planted != nil {
		s.opts.Planted(p)
	}
	said := []any{"workspace", p.Workspace, "sandbox", p.Sandbox, "principal", p.Principal}
	if len(p.Git) > 0 {
		s.opts.Logger.Warn("commands added to their copy of git's configuration: paddock git accept SANDBOX takes it over", append([]any{"settings", p.Git}, said...)...)
	}
	if len(p.Paths) > 0 {
		said = append([]any{"paths", p.Names()}, said...)
	}
	if len(p.Programs) > 0 {
		said = append(said, "programs", p.ProgramNames())
	}
	if len(p.Unseen) > 0 {
		said = append(said, "unseen", p.Unseen)
	}
	if len(p.Sockets) > 0 {
		said = append(said, "new_sockets", op.PathNames(p.Sockets))
	}
	if p.Late {
		said = append(said, "owner", "was killed")
	}
	switch {
	case len(p.Paths) > 0:
		s.opts.Logger.Warn("commands made or changed files that programs on the host run or obey: look before you use them", said...)
	case len(p.Unseen) > 0:
		s.opts.Logger.Warn("not all that commands may have changed for programs on the host was compared", said...)
	case len(p.Sockets) > 0:
		s.opts.Logger.Warn("programs outside have begun to listen at sockets since the start: commands could connect to them", said...)
	case len(p.Programs) > 0:
		s.opts.Logger.Info("commands made or changed files that run when they are named: look before you run them", said...)
	}
}
