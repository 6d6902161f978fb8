package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/privilege/token"
)

// sessionHeader names a session, in requests and in the answer that begins one.
const sessionHeader = "Mcp-Session-Id"

// ServeHTTP answers one request.
func (f *Front) ServeHTTP(raw http.ResponseWriter, r *http.Request) {
	w := newWriter(raw, f.opts.Write)
	// Whatever becomes of the request, its body has so long, and no longer.
	_ = w.control.SetReadDeadline(time.Now().Add(f.opts.Request)) // both kinds of connection can
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		// Who is refused gets the answer at once, and the rest is not waited for.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.URL.Path == HealthPath:
		f.health(w, r)
	case r.URL.Path != Path:
		refuse(w, http.StatusNotFound, "there is nothing here; the server is at "+Path)
	case !f.names.host(r):
		f.opts.Log.Warn("refused a Host", "host", short(r.Host), "from", r.RemoteAddr)
		refuse(w, http.StatusForbidden, "the name in Host is not one of this server's; --allow-host adds one")
	default:
		f.fromHere(w, r)
	}
}

func (f *Front) health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "it is only read")
		return
	}
	w.WriteHeader(http.StatusOK)
}

// fromHere goes on with a request that was meant for this server.
func (f *Front) fromHere(w *writer, r *http.Request) {
	ok, tell := f.names.fromPage(r)
	if !ok {
		f.opts.Log.Warn("refused an Origin", "origin", short(r.Header.Get("Origin")), "site", short(r.Header.Get("Sec-Fetch-Site")), "from", r.RemoteAddr,
			"hint", "paddock mcp --allow-origin ORIGIN lets pages of it ask")
		refuse(w, http.StatusForbidden, "a browser sent this for a page of another Origin than this server's; to let pages of one ask, its operator adds --allow-origin ORIGIN to paddock mcp")
		return
	}
	if tell {
		tellBrowser(w.Header(), r)
	}
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
		f.authenticated(w, r)
	case http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
		refuse(w, http.StatusMethodNotAllowed, "the methods are GET, POST and DELETE")
	}
}

// tellBrowser lets an allowed page read the answers.
func tellBrowser(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", sessionHeader+", WWW-Authenticate")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Protocol-Version, "+sessionHeader)
		h.Set("Access-Control-Max-Age", "600")
	}
}

// authenticated goes on as the principal whose token was shown.
func (f *Front) authenticated(w *writer, r *http.Request) {
	holder, err := f.authenticate(r)
	if err != nil {
		f.unauthorized(w, r, err)
		return
	}
	v, status, reason := f.guests.enter(r, holder)
	if v == nil {
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		refuse(w, status, reason)
		return
	}
	defer v.leave(w)
	held, err := f.body(w, r)
	defer f.bodies.Add(-held)
	if err != nil {
		refuseBody(w, err)
		return
	}
	w.begin = v.began
	f.opts.Handler.ServeHTTP(w, r.WithContext(f.opts.As(v.ctx, holder.Principal.Name)))
}

// authenticate says who asks.
func (f *Front) authenticate(r *http.Request) (token.Holder, error) {
	if f.opts.NoAuth {
		return token.Holder{}, nil
	}
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return token.Holder{}, errNoToken
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return token.Holder{}, errNoBearer
	}
	return f.opts.Tokens.Check(strings.TrimSpace(text), time.Now())
}

var (
	errNoToken  = errors.New("a bearer token is needed")
	errNoBearer = errors.New("one bearer token is needed, and nothing else is taken")
)

// unauthorized answers who may not come in. Who guesses gets slower answers to
// write down; who has a token is never held up by them.
func (f *Front) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	if down := (*token.UnavailableError)(nil); errors.As(err, &down) {
		f.opts.Log.Error("cannot ask for tokens", "error", err)
		refuse(w, http.StatusServiceUnavailable, "tokens cannot be checked now")
		return
	}
	first, excess := f.failures.note(r.RemoteAddr, time.Now())
	if !excess || first {
		f.opts.Log.Warn("refused to let in", "from", r.RemoteAddr, "reason", err, "more_are_not_told", excess)
	}
	challenge := `Bearer realm="paddock"`
	if !errors.Is(err, errNoToken) {
		challenge += `, error="invalid_token", error_description="` + err.Error() + `"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	if excess {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too many attempts without a valid token")
		return
	}
	refuse(w, http.StatusUnauthorized, err.Error())
}

var (
	errLarge = errors.New("the request is larger than this server takes")
	errFull  = errors.New("too many large requests are being read")
)

// body reads the whole body, within its bounds, and puts it in its place. It says
// how many bytes are held.
func (f *Front) body(w *writer, r *http.Request) (held int64, err error) {
	if r.ContentLength > f.opts.Body {
		return 0, errLarge
	}
	var b bytes.Buffer
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(chunk)
		held += int64(n)
		switch all := f.bodies.Add(int64(n)); {
		case held > f.opts.Body:
			return held, errLarge
		case all > f.opts.Bodies:
			return held, errFull
		}
		b.Write(chunk[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return held, err
		}
	}
	r.Body = io.NopCloser(&b)
	w.Header().Del("Connection")
	// From here on the answer may take as long as it takes.
	return held, w.control.SetReadDeadline(time.Time{})
}

func refuseBody(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errLarge):
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		refuse(w, http.StatusRequestTimeout, "the request did not come whole and in time")
	}
}

// refuse answers with a line of text.
func refuse(w http.ResponseWriter, status int, reason string) {
	http.Error(w, "cannot serve: "+reason, status)
}

// short bounds what somebody else wrote.
func short(text string) string { return text[:min(len(text), 100)] }

// detached is a context that lives as long as the two it comes from.
func detached(parent, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}
