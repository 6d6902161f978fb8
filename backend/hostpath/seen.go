package hostpath

import "github.com/paddock-dev/paddock/backend"

// Seen is what one start has seen of the host, from [TrustState] on. [Mounts] and
// [Covers] keep it in the request, so that each thing is looked at once, and what a
// backend opens is what was judged. It holds for one start.
type Seen struct {
	list    *Written
	ways    map[string]*Way    // of Paddock's own files
	mounted map[string]mounted // nil: not read yet
	mounts  []Mount            // nil: not looked at yet
	covers  []Cover
	covered bool
}

// NewSeen begins a start with the list of its directory of state. A nil list is one
// that is missing or cannot be trusted.
func NewSeen(list *Written) *Seen { return &Seen{list: list, ways: map[string]*Way{}} }

// Written returns the list of what commands could write that this start goes by.
func (s *Seen) Written() *Written { return s.list }

// follow is [Follow] that is done once for what is there.
func (s *Seen) follow(name string) (*Way, error) {
	if way := s.ways[name]; way != nil {
		return way, nil
	}
	way, err := Follow(name)
	if err == nil && way.Exists { // else it may be made
		s.ways[name] = way
	}
	return way, err
}

// seenBy returns what the start of a request has seen so far: of one that keeps
// nothing, the list alone.
func seenBy(req backend.Request) *Seen {
	if s, ok := req.Seen.(*Seen); ok {
		return s
	}
	return NewSeen(List(req.StateDir))
}

// host returns what is mounted on the host, by mount point.
func (s *Seen) host() map[string]mounted {
	if s.mounted == nil {
		s.mounted = mountedAll()
	}
	return s.mounted
}
