package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionIdle is how long a session may be idle before it is dropped. Everything that it has
// started continues, since that belongs to the principal.
const sessionIdle = time.Hour

type principalKey struct{}

// WithPrincipal returns a context for requests of a principal. Whatever authenticates requests
// before [Server.Handler] calls it.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// PrincipalOf returns the principal of a request, and whether it is known.
func PrincipalOf(ctx context.Context) (name string, known bool) {
	name, known = ctx.Value(principalKey{}).(string)
	return name, known
}

// Handler returns a handler for the streamable HTTP transport. It refuses requests whose
// context has no principal (401), and checks nothing else: hosts, origins and TLS are up to the
// handler around it (server/httpd). To a principal, sessions of others do not exist.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, known := PrincipalOf(r.Context())
		if !known {
			http.Error(w, "cannot serve: the request has no principal", http.StatusUnauthorized)
			return
		}
		v, err := s.view(principal)
		if err != nil {
			s.opts.Logger.Error("no environment", "principal", principal, "error", err)
			http.Error(w, oneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		if r.Method == http.MethodPost && !v.checkRequest(w, r) {
			return
		}
		if r.Method == http.MethodDelete {
			v.limits.end(r.Header.Get(sessionHeader))
		}
		v.http.ServeHTTP(w, r)
	})
}

const (
	revisionHeader = "Mcp-Protocol-Version"
	sessionHeader  = "Mcp-Session-Id"
)

// checkRequest refuses requests that the SDK would treat differently from the protocol, and
// reports whether r may go on. A request of a session gets the session's revision.
func (v *view) checkRequest(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Mcp-Method") == methodDiscover {
		http.Error(w, noDiscover, http.StatusBadRequest)
		return false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "cannot read the request: "+err.Error(), status)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	revision, session := v.revision(r)
	var parts []json.RawMessage
	several := json.Unmarshal(text, &parts) == nil && parts != nil
	no := (*refusal)(nil)
	switch {
	case !json.Valid(text):
		no = &refusal{code: jsonrpc.CodeParseError, reason: noJSON}
	case several && (revision != batchRevision || len(parts) == 0 || len(parts) > maxRequests):
		parts = nil
		no = &refusal{code: jsonrpc.CodeInvalidRequest, reason: noArray}
	case !several:
		parts = []json.RawMessage{text}
	}
	begins := false
	for _, part := range parts {
		var m head
		_ = json.Unmarshal(part, &m) // the SDK reports what is wrong
		m.ID = idOf(part)
		if m.Method == methodDiscover {
			http.Error(w, noDiscover, http.StatusBadRequest)
			return false
		}
		if no == nil {
			no = m.refused(revision)
		}
		begins = !several && m.Method == methodInitialize
	}
	if no == nil && !session && !begins {
		no = &refusal{id: idOf(text), code: jsonrpc.CodeInvalidRequest, reason: "there is no session: initialize, and send the " + sessionHeader + " of the answer"}
	}
	if no == nil {
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(no.answer()) // the client may be gone
	return false
}

// revision returns the revision of a request's session, or else that of its header, and
// whether the request names a session.
func (v *view) revision(r *http.Request) (revision string, session bool) {
	revision = r.Header.Get(revisionHeader)
	id := r.Header.Get(sessionHeader)
	if id == "" || revision != "" && !slices.Contains(revisions(), revision) {
		return revision, id != ""
	}
	for s := range v.sdk.Sessions() {
		if p := s.InitializeParams(); s.ID() == id && p != nil {
			revision = negotiate(p.ProtocolVersion)
			r.Header.Set(revisionHeader, revision)
		}
	}
	return revision, true
}

// head is the part of a message that identifies its method and subject.
type head struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// refused returns why a message is refused in a revision of the protocol, which may be "" if
// none is named. It returns nil if the message is fine.
func (m head) refused(revision string) *refusal {
	if err := checkID(m.ID); err != nil {
		return &refusal{id: m.ID, code: jsonrpc.CodeInvalidRequest, reason: err.Error()}
	}
	var params struct {
		Meta map[string]any `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &params) // the SDK reports what is wrong
	named, each := params.Meta[sdk.MetaKeyProtocolVersion]
	if revision != "" && !slices.Contains(revisions(), revision) {
		named, each = revision, true
	}
	if !each {
		no := checkInitialize(m.Method, m.Params)
		if no != nil {
			no.id = m.ID
		}
		return no
	}
	no := &refusal{id: m.ID, code: sdk.CodeUnsupportedProtocolVersion, reason: fmt.Sprintf("the revision %v is not offered", named)}
	no.data = sdk.UnsupportedProtocolVersionData{Supported: revisions(), Requested: fmt.Sprint(named)}
	if slices.Contains(revisions(), fmt.Sprint(named)) {
		no.code, no.data, no.reason = jsonrpc.CodeInvalidRequest, nil, "_meta must not name one of the offered revisions ("+strings.Join(revisions(), ", ")+"): use initialize"
	}
	return no
}

// checkInitialize refuses an initialize request without proper params.
func checkInitialize(method string, params json.RawMessage) *refusal {
	var asked *sdk.InitializeParams
	if method != methodInitialize || json.Unmarshal(params, &asked) == nil && asked != nil {
		return nil
	}
	return &refusal{code: jsonrpc.CodeInvalidParams, reason: "its params are not those of " + methodInitialize}
}
