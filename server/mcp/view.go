package mcp

import (
	"context"
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

// view is the server for one principal: its environment and its clients. Principals share
// nothing.
type view struct {
	server    *Server
	principal string
	env       *op.Env
	sdk       *sdk.Server
	http      http.Handler
	limits    callLimits
	watch     watcher
	words     func() *wording    // made at the first use
	toolList  func() []*sdk.Tool // of tools.ops; made at the first use, since making schemas would slow down the start
	ctx       context.Context    // ends with the view
	end       context.CancelFunc
	calls     callCount // that have not ended
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
	v.words = sync.OnceValue(func() *wording { return newWording(s.tools.all, &own, s.opts) })
	v.toolList = sync.OnceValue(func() []*sdk.Tool {
		var list []*sdk.Tool
		for i := range s.tools.ops {
			list = append(list, v.words().tool(&s.tools.ops[i]))
		}
		return list
	})
	if len(s.tools.ops) > 0 {
		v.sdk.AddPrompt(&sdk.Prompt{
			Name: "sandbox", Title: "Explain the sandbox",
			Description: "What commands may do here, where the workspace is, what is missing, and how to read long output.",
		}, func(ctx context.Context, _ *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{
				Description: "The sandbox, as it is",
				Messages:    []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: clip(plain(v.explain(ctx)), s.opts.Budget)}}},
			}, nil
		})
	}
	if s.opts.Extend != nil {
		s.opts.Extend(v.sdk)
	}
	v.sdk.AddReceivingMiddleware(v.receive)
	v.http = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return v.sdk }, &sdk.StreamableHTTPOptions{
		Logger:              s.opts.Logger,
		SessionTimeout:      sessionIdle,
		MaxRequestBodyBytes: maxLine,
		// The handler around Server.Handler has checked Host and Origin.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
	return v
}

// sdkOptions returns the options and capabilities for the SDK's server. Lists change only with
// privileges, and the server is not notified of these changes.
func (v *view) sdkOptions() *sdk.ServerOptions {
	opts := &sdk.ServerOptions{
		Instructions: v.server.opts.Instructions,
		// Answers that are rendered here and not by the SDK must follow the rules of each.
		SupportedProtocolVersions: revisions(),
		Logger:                    v.server.opts.Logger,
		Capabilities: &sdk.ServerCapabilities{
			Logging: &sdk.LoggingCapabilities{}, //nolint:staticcheck // clients of today's protocols ask for it
			Tools:   &sdk.ToolCapabilities{},
		},
		// The client will ask for the tools next: describe them in the meantime.
		InitializedHandler: func(context.Context, *sdk.InitializedRequest) {
			go func() {
				var err error // a client that lists the tools gets it
				defer v.recovered("tools/list", &err)
				v.toolList()
			}()
		},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
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

// revisions returns the offered revisions of the protocol, each of which is tested.
func revisions() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} }

// negotiate returns the revision of a session whose client asked for this one.
func negotiate(revision string) string {
	if slices.Contains(revisions(), revision) {
		return revision
	}
	return revisions()[0]
}

// methodInitialize begins a session.
const methodInitialize = "initialize"

// methodDiscover is the first request of clients of later revisions. Some clients give up on a
// server that supports the method and refuses the revision, but if the method is unknown they
// initialize.
const (
	methodDiscover = "server/discover"
	noDiscover     = "unknown method " + methodDiscover + ": use initialize"
)

// logLevels are the levels of the protocol.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// receive answers requests that are rendered from the table, and leaves the rest to the SDK.
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

// add inserts the tools and resources of the table at the beginning of the first page of a list,
// before those of [Options].Extend. The list is never nil, which clients would refuse.
func (v *view) add(ctx context.Context, req sdk.Request, res sdk.Result) {
	resources := v.server.tools.hasResources()
	switch r := req.(type) {
	case *sdk.ListToolsRequest:
		if list, ok := res.(*sdk.ListToolsResult); ok && r.Params.Cursor == "" {
			list.Tools = slices.Insert(list.Tools, 0, v.offeredTools(ctx)...)
		}
	case *sdk.ListResourcesRequest:
		if list, ok := res.(*sdk.ListResourcesResult); ok && resources && r.Params.Cursor == "" {
			list.Resources = slices.Insert(list.Resources, 0, v.resources(ctx)...)
		}
	case *sdk.ListResourceTemplatesRequest:
		if list, ok := res.(*sdk.ListResourceTemplatesResult); ok && resources && r.Params.Cursor == "" {
			list.ResourceTemplates = slices.Insert(list.ResourceTemplates, 0, &sdk.ResourceTemplate{
				Name: "workspace_file", Title: "A file of a workspace", URITemplate: "paddock://{sandbox}/workspace/{+path}",
				Description: "A file of the workspace of a sandbox (the default one is called default), or a list of what is in a directory.",
			}, &sdk.ResourceTemplate{
				Name: "output", Title: "What a command printed", URITemplate: "paddock://{sandbox}/output/{id}", MIMEType: "text/plain",
				Description: "The standard output of an exec, by its id: the last part of it.",
			})
		}
	}
}

// recovered turns a panic into an error, so that only one call fails.
func (v *view) recovered(what string, err *error) {
	if p := recover(); p != nil {
		v.server.opts.Logger.Error("panic", "in", what, "value", p, "stack", string(debug.Stack()))
		*err = &paddock.Error{
			Message: "cannot do " + what + ": internal error",
			Hint:    "this is a bug in Paddock; the server's log has the stack trace. Other calls are not affected",
		}
	}
}

// close ends calls, then sandboxes.
func (v *view) close() error {
	v.end()
	var errs []error
	if !v.calls.end(endTime) {
		errs = append(errs, &paddock.Error{Message: "cannot wait for a call to end any longer: its sandbox is ended around it"})
	}
	return errors.Join(append(errs, v.env.Close())...)
}
