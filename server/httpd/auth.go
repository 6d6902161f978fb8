package httpd

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/privilege/token"
)

// authenticate returns the holder of the bearer token of a request.
func (s *Server) authenticate(r *http.Request) (token.Holder, error) {
	if s.opts.NoAuth {
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
	return s.opts.Tokens.Check(strings.TrimSpace(text), time.Now())
}

var (
	errNoToken  = errors.New("a bearer token is needed")
	errNoBearer = errors.New("exactly one bearer token is needed")
)

// unauthorized answers a request without a valid token. Guessing is slowed down by host;
// requests with a valid token never wait for that.
func (s *Server) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	if down := (*token.UnavailableError)(nil); errors.As(err, &down) {
		s.opts.Log.Error("cannot ask for tokens", "error", err)
		refuse(w, http.StatusServiceUnavailable, "tokens cannot be checked now")
		return
	}
	first, excess := s.failures.count(r.RemoteAddr, time.Now())
	if !excess || first {
		s.opts.Log.Warn("refused a request without a valid token", "from", r.RemoteAddr, "reason", err, "further_ones_not_logged", excess)
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

const (
	// burst is how many attempts without a valid token of one host are logged and get
	// their own answer; after that it is one in a second.
	burst = 20
	// maxHosts bounds how many hosts are remembered.
	maxHosts = 4096
)

// failures counts attempts without a valid token by host. The zero value is ready to use.
type failures struct {
	mu    sync.Mutex
	hosts map[string]*attempts
}

type attempts struct {
	left float64
	at   time.Time
	told bool // the first in excess was logged
}

// count counts an attempt, and reports whether it is one too many, and the first of those.
func (f *failures) count(remote string, now time.Time) (first, excess bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = "" // a Unix socket: its clients count as one
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.hosts[host]
	if a == nil {
		if f.hosts == nil || len(f.hosts) >= maxHosts {
			f.hosts = make(map[string]*attempts) // forgetting is better than growing
		}
		a = &attempts{left: burst, at: now}
		f.hosts[host] = a
	}
	a.left = min(burst, a.left+now.Sub(a.at).Seconds())
	a.at = now
	if a.left < 1 {
		first, a.told = !a.told, true
		return first, true
	}
	a.left--
	a.told = false
	return false, false
}
