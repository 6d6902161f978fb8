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
	// DefaultBudget is how many characters an answer has at most, unless
	// [Options] say otherwise.
	DefaultBudget = 40000
	// MinBudget is the least that has room for an error and its hint.
	MinBudget = 6000
	// maxViews bounds how many principals a server knows at once.
	maxViews = 1024
	// endTime is how long the end of a server waits for what it started.
	endTime = 20 * time.Second
)

// Options are how a server is. Env is needed; the rest has defaults.
type Options struct {
	// Env makes the environment of a principal, once, when it is first seen; ""
	// is who speaks over standard input. The server sets its Budget, Sandboxes,
	// Sessions and Outputs, and closes these three.
	Env func(principal string) (*op.Env, error)
	// Profile is the set of tools. Default: all of them, op.ProfileFull.
	Profile op.Profile
	// Budget is how many characters an answer has at most, text and structured
	// content together. Default: [DefaultBudget]; less than [MinBudget] is an error.
	// Answers of the tools whose form a contract fixes keep to that contract's bounds
	// where it is 0.
	Budget int
	// Structured adds to each answer its fields as JSON, and to each tool their
	// schema. Some clients give a model these in place of the text. Default: text alone.
	Structured bool
	// Tokens says that principals have specs of their own, so that hints name the keys
	// of these; else they name flags of the operator's.
	Tokens bool
	// Logger is told what happens. nil: nobody is.
	Logger *slog.Logger
	// Version is what clients are told of this program.
	Version string
	// Instructions are what models are told of the server. Default: the profile's.
	Instructions string
	// Hold is asked before each call. Its error is the answer of every call from then
	// on, and all that was started ends. nil: nothing is held.
	Hold func() error
	// Planted is told of what a sandbox has left for the host to execute or obey, beside
	// the log. It may be called from any goroutine. nil: the log alone is.
	Planted func(op.Planted)
	// Ops are the operations. nil: table.All().
	Ops []op.Op
	// Extend adds to the server that a principal's clients speak with, before
	// the first of them does. nil: nothing is added.
	Extend func(*sdk.Server)
}

// Server serves tools to models. Its methods may be called at the same time.
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

// New makes a server. Nothing is started before a client asks.
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

// view is the server as a principal sees it, made when it is first asked for.
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

// Forget ends what a principal has started, and its clients' sessions. The next
// time it is seen it begins anew. One that is not known is no error.
func (s *Server) Forget(principal string) error {
	s.mu.Lock()
	v := s.views[principal]
	delete(s.views, principal)
	s.mu.Unlock()
	if v == nil {
		return nil
	}
	return v.close()
}

// Close ends every call, sandbox and session, and returns when that is proved,
// or says what is not. Closing again does nothing.
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
