package proxy

import (
	"runtime"
	"runtime/debug"
	"time"
)

const (
	quiet   = time.Second // without a new one
	worthIt = 32          // connections and requests, before memory is given back
)

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
