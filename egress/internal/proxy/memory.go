package proxy

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	quiet   = time.Second // without a new one
	worthIt = 32          // connections and requests, before memory is given back
)

const (
	// mostInFlight bounds what the requests of all connections take at once, in bytes, by their
	// weights: some 700 with short headers.
	mostInFlight = 48 << 20
	// requestWeight is what a request takes without its header: stacks, and a buffer for its answer.
	requestWeight = 64 << 10
)

// errTooMany is the answer to a request beyond [mostInFlight].
var errTooMany = &httpError{http.StatusServiceUnavailable, "too many requests of this sandbox, or too large headers, are on their way at once: send it again when others have been answered"}

// headWeight returns what the fields of a header take, in bytes.
func headWeight(h http.Header) (n int64) {
	for name, values := range h {
		for _, value := range values {
			n += int64(len(name) + len(value) + 64)
		}
	}
	return n
}

// crowded reports whether there are so many connections that each gets small buffers.
func (s *Server) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > mostWide
}

// grown counts a connection or a request, and lets memory be given back once no more come. The
// runtime would do that with its next collection, for which there may be no reason for minutes.
// The caller holds s.mu.
func (s *Server) grown() {
	if s.fresh++; s.fresh < worthIt {
		return
	}
	if s.giveBack == nil {
		s.giveBack = time.AfterFunc(quiet, func() {
			s.mu.Lock()
			s.fresh = 0
			s.mu.Unlock()
			for range 3 { // each halves the stacks that handshakes have grown
				runtime.GC()
			}
			debug.FreeOSMemory()
		})
		return
	}
	s.giveBack.Reset(quiet)
}

// served returns how long a connection to a host may rest after a request.
func (s *Server) served() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown()
	if len(s.open) > mostWide {
		return crowdUpstream
	}
	return idleUpstream
}
