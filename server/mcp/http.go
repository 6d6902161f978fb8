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

// sessionIdle is when a session that asks nothing is forgotten. What it started stays:
// that is the principal's.
const sessionIdle = time.Hour

type principalKey struct{}

// WithPrincipal says who a request comes from. What authenticates requests calls
// it, before [Server.Handler] sees them.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// PrincipalOf is who a request comes from, and whether that is known.
func PrincipalOf(ctx context.Context) (name string, known bool) {
	name, known = ctx.Value(principalKey{}).(string)
	return name, known
}

// Handler serves the streamable HTTP transport, for requests whose context says
// who asks; others are refused (401). It looks at nothing else: who may reach it,
// from which origin and over what, is for the handler around it to decide.
// Sessions belong to their principal, and to another do not exist.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, known := PrincipalOf(r.Context())
		if !known {
			http.Error(w, "cannot serve: nobody says who asks", http.StatusUnauthorized)
			return
		}
		v, err := s.view(principal)
		if err != nil {
			s.opts.Logger.Error("no environment", "principal", principal, "error", err)
			http.Error(w, oneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		if r.Method == http.MethodPost && !v.vet(w, r) {
			return
		}
		if r.Method == http.MethodDelete {
			v.slots.end(r.Header.Get(sessionHeader))
		}
		v.http.ServeHTTP(w, r)
	})
}

// handler serves the sessions of one principal.
func (v *view) handler() http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return v.sdk }, &sdk.StreamableHTTPOptions{
		Logger:              v.server.opts.Logger,
		SessionTimeout:      sessionIdle,
		MaxRequestBodyBytes: maxLine,
		// Whoever stands before it has checked Host and Origin.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
}

const (
	revisionHeader = "Mcp-Protocol-Version"
	sessionHeader  = "Mcp-Session-Id"
)

// vet answers requests that the SDK would take otherwise than the protocol has it, and
// says whether one may go on. Those of a session go on by the revision it agreed on.
func (v *view) vet(w http.ResponseWriter, r *http.Request) bool {
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
		m := readHead(part)
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
	_, _ = w.Write(no.answer()) // who has asked may be gone
	return false
}

// revision is that of a request's session, else what its header says; session says
// whether it names one.
func (v *view) revision(r *http.Request) (revision string, session bool) {
	revision = r.Header.Get(revisionHeader)
	id := r.Header.Get(sessionHeader)
	if id == "" || revision != "" && !slices.Contains(revisions(), revision) {
		return revision, id != ""
	}
	for s := range v.sdk.Sessions() {
		if p := s.InitializeParams(); s.ID() == id && p != nil {
			revision = agreedOn(p.ProtocolVersion)
			r.Header.Set(revisionHeader, revision)
		}
	}
	return revision, true
}

// head is what a message is about.
type head struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

func readHead(text []byte) head {
	m := head{}
	_ = json.Unmarshal(text, &m) // the SDK says what is wrong
	m.ID = idOf(text)
	return m
}

// refused says why a message cannot be taken by a revision, "" where none is named;
// nil where it can.
func (m head) refused(revision string) *refusal {
	if err := checkID(m.ID); err != nil {
		return &refusal{id: m.ID, code: jsonrpc.CodeInvalidRequest, reason: err.Error()}
	}
	var params struct {
		Meta map[string]any `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &params) // as above
	named, each := params.Meta[sdk.MetaKeyProtocolVersion]
	if revision != "" && !slices.Contains(revisions(), revision) {
		named, each = revision, true
	}
	if !each {
		no := checkHello(m.Method, m.Params)
		if no != nil {
			no.id = m.ID
		}
		return no
	}
	no := &refusal{id: m.ID, code: sdk.CodeUnsupportedProtocolVersion, reason: fmt.Sprintf("the revision %v is not offered", named)}
	no.data = sdk.UnsupportedProtocolVersionData{Supported: revisions(), Requested: fmt.Sprint(named)}
	if slices.Contains(revisions(), fmt.Sprint(named)) {
		no.code, no.data, no.reason = jsonrpc.CodeInvalidRequest, nil, "requests name no revision in _meta in those that are offered ("+strings.Join(revisions(), ", ")+"): initialize"
	}
	return no
}

// checkHello refuses a request that is to begin a session and does not say how.
func checkHello(method string, params json.RawMessage) *refusal {
	var asked *sdk.InitializeParams
	if method != methodInitialize || json.Unmarshal(params, &asked) == nil && asked != nil {
		return nil
	}
	return &refusal{code: jsonrpc.CodeInvalidParams, reason: "its params are not those of " + methodInitialize}
}
