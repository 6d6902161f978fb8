package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// view is the server as one principal sees it: with an environment of its own,
// and clients that share nothing with another's.
type view struct {
	server    *Server
	principal string
	env       *op.Env
	sdk       *sdk.Server
	http      http.Handler
	slots     slots
	watch     watcher
	words     func() *wording    // likewise
	told      func() []*sdk.Tool // of tools.ops; made when a client asks: a start makes no schema
	ctx       context.Context    // ends with the view
	end       context.CancelFunc
	work      work // calls that have not ended
	hold      sync.Once
}

func newView(s *Server, principal string, env *op.Env) *view {
	own := *env
	own.Budget = s.opts.Budget
	own.Keep()
	own.Planted = s.planted
	v := &view{server: s, principal: principal, env: &own}
	v.ctx, v.end = context.WithCancel(s.ctx)
	v.sdk = sdk.NewServer(&sdk.Implementation{Name: "paddock", Title: "Paddock", Version: s.opts.Version}, v.sdkOptions())
	v.words = sync.OnceValue(func() *wording { return newWording(s.tools.all, own.Ceiling, s.opts) })
	v.told = sync.OnceValue(func() []*sdk.Tool { return s.tools.told(v.words()) })
	if len(s.tools.ops) > 0 {
		v.addPrompts()
	}
	if s.opts.Extend != nil {
		s.opts.Extend(v.sdk)
	}
	v.sdk.AddReceivingMiddleware(v.receive)
	v.http = v.handler()
	return v
}

// sdkOptions say what this server can. Lists change with privileges alone, of
// which nobody tells it.
func (v *view) sdkOptions() *sdk.ServerOptions {
	opts := &sdk.ServerOptions{
		Instructions: v.server.opts.Instructions,
		// What answers are rendered here, not by the SDK, has to keep every rule of these.
		SupportedProtocolVersions: revisions(),
		Logger:                    v.server.opts.Logger,
		Capabilities: &sdk.ServerCapabilities{
			Logging: &sdk.LoggingCapabilities{}, //nolint:staticcheck // clients of today's protocols ask for it
			Tools:   &sdk.ToolCapabilities{},
		},
		// The tools are asked for next: they are described while the client reads.
		InitializedHandler: func(context.Context, *sdk.InitializedRequest) { go v.prepare() },
		SetCacheable:       func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	if len(v.server.tools.ops) > 0 {
		opts.Capabilities.Prompts = &sdk.PromptCapabilities{}
	}
	if v.server.tools.hasResources() {
		opts.Capabilities.Resources = &sdk.ResourceCapabilities{Subscribe: true}
		opts.SubscribeHandler, opts.UnsubscribeHandler = v.subscribe, v.unsubscribe
	}
	return opts
}

// revisions are those of the protocol that are offered: all that tests try.
func revisions() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} }

// agreed is the revision that a session speaks whose client has asked to initialize
// with these params.
func agreed(params json.RawMessage) string {
	var asked struct {
		Revision string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(params, &asked) // the SDK says what is wrong
	return agreedOn(asked.Revision)
}

// agreedOn is the one whose client has asked for this one.
func agreedOn(revision string) string {
	if slices.Contains(revisions(), revision) {
		return revision
	}
	return revisions()[0]
}

// methodInitialize begins a session.
const methodInitialize = "initialize"

// methodDiscover is how clients ask first, in the revision after those. A server that
// knows it and refuses the revision is given up by some; one that does not know it is
// asked to initialize.
const (
	methodDiscover = "server/discover"
	noDiscover     = "there is no method " + methodDiscover + ": use initialize"
)

// prepare describes the tools. What is wrong with that is told to who lists them.
func (v *view) prepare() {
	var err error
	defer v.recovered("tools/list", &err)
	v.told()
}

// logLevels are those of the protocol.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// receive answers what is rendered from the table; the rest is the SDK's.
func (v *view) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (_ sdk.Result, err error) {
		defer func() { err = coded(method, err) }()
		defer v.recovered(method, &err)
		switch r := req.(type) {
		case *sdk.ServerRequest[*sdk.SetLoggingLevelParams]: //nolint:staticcheck // clients of today's protocols ask for it
			if !slices.Contains(logLevels, string(r.Params.Level)) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown level %.100q: %v", r.Params.Level, logLevels)}
			}
		case *sdk.CallToolRequest:
			if o := v.server.tools.find(r.Params.Name); o != nil {
				return v.call(ctx, r, o)
			}
		case *sdk.ReadResourceRequest:
			at, ours, err := parsePlace(r.Params.URI)
			switch {
			case ours && v.server.tools.hasResources() && err != nil:
				return nil, resourceError(r.Params.URI, err)
			case ours && v.server.tools.hasResources():
				return v.read(ctx, r.Params.URI, at)
			case v.server.opts.Extend == nil:
				return nil, notFound(r.Params.URI)
			}
		}
		res, err := next(ctx, method, req)
		if err != nil {
			return nil, err
		}
		v.add(ctx, req, res)
		return res, nil
	}
}

// add puts what is ours before what [Options].Extend has brought: on the first
// page of a list. A list stays one that is not nil, which clients would not take.
func (v *view) add(ctx context.Context, req sdk.Request, res sdk.Result) {
	resources := v.server.tools.hasResources()
	switch r := req.(type) {
	case *sdk.ListToolsRequest:
		if list, ok := res.(*sdk.ListToolsResult); ok && r.Params.Cursor == "" {
			list.Tools = slices.Insert(list.Tools, 0, v.listed(ctx)...)
		}
	case *sdk.ListResourcesRequest:
		if list, ok := res.(*sdk.ListResourcesResult); ok && resources && r.Params.Cursor == "" {
			list.Resources = slices.Insert(list.Resources, 0, v.resources(ctx)...)
		}
	case *sdk.ListResourceTemplatesRequest:
		if list, ok := res.(*sdk.ListResourceTemplatesResult); ok && resources && r.Params.Cursor == "" {
			list.ResourceTemplates = slices.Insert(list.ResourceTemplates, 0, templates()...)
		}
	}
}

// recovered makes an error of a panic: one call has failed, and no other.
func (v *view) recovered(what string, err *error) {
	if p := recover(); p != nil {
		v.server.opts.Logger.Error("panic", "in", what, "value", p, "stack", string(debug.Stack()))
		*err = errPanic(what)
	}
}

// close ends calls, then sandboxes.
func (v *view) close() error {
	v.end()
	var errs []error
	if !v.work.end(endTime) {
		errs = append(errs, &paddock.Error{Message: "cannot wait for a call to end any longer: its sandbox is ended around it"})
	}
	return errors.Join(append(errs, v.env.Close())...)
}
