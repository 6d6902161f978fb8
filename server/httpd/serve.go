package httpd

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/paddock-dev/paddock/internal/text"
)

// sessionHeader names the session, in requests and in the answer that begins one.
const sessionHeader = "Mcp-Session-Id"

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(raw http.ResponseWriter, r *http.Request) {
	w := &writer{ResponseWriter: raw, control: http.NewResponseController(raw), each: s.opts.Write}
	// The whole body must arrive within this time, whatever becomes of the request.
	_ = w.control.SetReadDeadline(time.Now().Add(s.opts.Request)) // both kinds of connection support it
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		// A refused client gets its answer at once; the server does not wait for the rest.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.URL.Path == HealthPath && r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "only GET and HEAD are allowed")
	case r.URL.Path == HealthPath:
		w.WriteHeader(http.StatusOK)
	case r.URL.Path != Path:
		refuse(w, http.StatusNotFound, "there is nothing here; the server is at "+Path)
	case !s.names.allowHost(r):
		s.opts.Log.Warn("refused a Host", "host", short(r.Host), "from", r.RemoteAddr)
		refuse(w, http.StatusForbidden, "the name in Host is not one of this server's; --allow-host adds one")
	default:
		s.serveOrigin(w, r)
	}
}

// serveOrigin serves a request whose Host is right, if its Origin is allowed.
func (s *Server) serveOrigin(w *writer, r *http.Request) {
	ok, listed := s.names.allowOrigin(r)
	if !ok {
		s.opts.Log.Warn("refused an Origin", "origin", short(r.Header.Get("Origin")), "site", short(r.Header.Get("Sec-Fetch-Site")), "from", r.RemoteAddr,
			"hint", "paddock mcp --allow-origin ORIGIN lets pages of it ask")
		refuse(w, http.StatusForbidden, "a browser sent this for a page of another Origin than this server's; to let pages of one ask, its operator adds --allow-origin ORIGIN to paddock mcp")
		return
	}
	if listed { // let the page read the answers
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", sessionHeader+", WWW-Authenticate")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Protocol-Version, "+sessionHeader)
			h.Set("Access-Control-Max-Age", "600")
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
		s.serveToken(w, r)
	case http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
		refuse(w, http.StatusMethodNotAllowed, "the methods are GET, POST and DELETE")
	}
}

// serveToken serves a request as the principal whose token it shows.
func (s *Server) serveToken(w *writer, r *http.Request) {
	holder, err := s.authenticate(r)
	if err != nil {
		s.unauthorized(w, r, err)
		return
	}
	req, status, reason := s.sessions.admit(r, holder)
	if req == nil {
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		refuse(w, status, reason)
		return
	}
	defer func() { req.finish(w.status) }()
	held, err := s.body(w, r)
	defer s.bodies.Add(-held)
	switch {
	case errors.Is(err, errLarge):
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		refuse(w, http.StatusRequestTimeout, "the request did not arrive completely in time")
		return
	}
	w.begin = req.started
	s.opts.Handler.ServeHTTP(w, r.WithContext(s.opts.As(req.ctx, holder.Principal.Name)))
}

var (
	errLarge = errors.New("the request is larger than this server accepts")
	errFull  = errors.New("too many large requests are being read")
)

// body reads the whole body, within its bounds, into memory, where the handler will read
// it. It returns how many bytes that takes.
func (s *Server) body(w *writer, r *http.Request) (held int64, err error) {
	if r.ContentLength > s.opts.Body {
		return 0, errLarge
	}
	var b bytes.Buffer
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(chunk)
		held += int64(n)
		switch all := s.bodies.Add(int64(n)); {
		case held > s.opts.Body:
			return held, errLarge
		case all > s.opts.Bodies:
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
	// The answer may take as long as it needs.
	return held, w.control.SetReadDeadline(time.Time{})
}

// refuse answers with a status and a line of text.
func refuse(w http.ResponseWriter, status int, reason string) {
	http.Error(w, "cannot serve: "+reason, status)
}

// short bounds a text of the client's for the log.
func short(s string) string { return text.Prefix(s, 100) }

// writer bounds the time of each write, so that a stream may last for ever, but not a
// client that reads nothing. It calls begin when the answer begins.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	each    time.Duration
	begin   func(h http.Header, status int) // called once; may be nil
	status  int                             // 0 before the answer begins
}

// WriteHeader begins the answer.
func (w *writer) WriteHeader(status int) {
	w.deadline()
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		if w.begin != nil {
			w.begin(w.Header(), status)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer.
func (w *writer) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.deadline()
	return w.ResponseWriter.Write(data)
}

// FlushError sends the buffered answer.
func (w *writer) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.deadline()
	return w.control.Flush()
}

// Flush is FlushError without its error.
func (w *writer) Flush() { _ = w.FlushError() }

// Unwrap returns the wrapped writer, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) deadline() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.each)) // a closed connection fails at the write
}
