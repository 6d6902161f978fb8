package obeyed

import (
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// A socket of a program that was killed is let go a moment after it.
const (
	socketTries = 5
	socketWait  = 20 * time.Millisecond
)

// WatchSockets adds sockets of the host to what is compared: a socket that commands have put in the place of
// one is met by the host's programs that connect there.
func (p *Protection) WatchSockets(sockets []backend.Socket) {
	for _, s := range sockets {
		if slices.ContainsFunc(p.Watch, func(o policy.Obeyed) bool { return o.Path == s.Path }) {
			continue
		}
		p.Watch = append(p.Watch, policy.Obeyed{Path: s.Path, Class: policy.Unasked, Tool: "programs that connect to it", Why: "programs of the host connect to it"})
	}
}

// newSockets returns the sockets that a process has bound and that were not there before. Those of
// commands have nobody any more who answers. It looks until this time.
func (s *Snapshot) newSockets(now *Snapshot, until time.Time) []string {
	left := slices.DeleteFunc(slices.Clone(now.sockets), func(at string) bool {
		was, there := s.items[at]
		return there && was.id == now.items[at].id
	})
	for try := range socketTries {
		left = slices.DeleteFunc(left, func(at string) bool { return !hostpath.Bound(at) })
		if len(left) == 0 || try == socketTries-1 || time.Now().Add(socketWait).After(until) {
			break
		}
		time.Sleep(socketWait)
	}
	slices.Sort(left)
	return left[:min(len(left), MaxChanges)]
}
