package output

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of what a door keeps of outputs, for each principal.
const (
	maxOutputs = 512
	maxSpooled = 1 << 30 // bytes on the disk
	// maxSpooledInAll is for all principals together.
	maxSpooledInAll = 4 << 30
)

// Outputs keeps what was printed and does not fit into an answer, for
// output_read. What belongs to one principal no other finds. Of each stream the
// first and the last 16 MiB are kept, in files without a name that are gone with
// this process; of a principal's outputs the oldest that have ended are dropped
// where there are too many. The zero value is ready; Close drops all.
type Outputs struct {
	mu      sync.Mutex
	shelves map[string]*shelf // by principal
	size    int64             // on the disk
	closed  bool
}

// shelf is one principal's outputs, the oldest first.
type shelf struct {
	list []*Output
	size int64
}

// New makes an output that a principal can read until it is dropped. Where there
// is no store it is kept for whoever holds it alone.
func (o *Outputs) New(principal string) *Output {
	n := &Output{id: "o" + strings.ToLower(rand.Text()[:9]), principal: principal, store: o}
	for i := range n.streams {
		n.streams[i] = newSpool(n.grow)
	}
	if o == nil {
		return n
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		n.store = nil
		return n
	}
	if o.shelves == nil {
		o.shelves = map[string]*shelf{}
	}
	s := o.shelves[principal]
	if s == nil {
		s = &shelf{}
		o.shelves[principal] = s
	}
	for len(s.list) >= maxOutputs && o.evict(s) {
		continue
	}
	s.list = append(s.list, n)
	return n
}

// evict drops the oldest output that has ended; o is locked. It says whether
// there was one.
func (o *Outputs) evict(s *shelf) bool {
	for i, old := range s.list {
		if old.mu.TryLock() { // one that is in use is not idle
			ended := old.ended
			if ended {
				o.drop(s, i)
			}
			old.mu.Unlock()
			if ended {
				return true
			}
		}
	}
	return false
}

// drop takes out one, which is locked, as o is.
func (o *Outputs) drop(s *shelf, i int) {
	old := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	for _, stream := range old.streams {
		s.size -= stream.size()
		o.size -= stream.size()
	}
	old.clear()
}

// credit gives room on the disk back for an output that stays, and is locked.
func (n *Output) credit(size int64) {
	o := n.store
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.shelves[n.principal]; s != nil && slices.Contains(s.list, n) {
		s.size -= size
		o.size -= size
	}
}

// grow asks for room on the disk for an output, which is locked.
func (n *Output) grow(more int64) bool {
	o := n.store
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.shelves[n.principal]
	if o.closed || s == nil || !slices.Contains(s.list, n) {
		return false
	}
	for s.size+more > maxSpooled && o.evict(s) {
		continue
	}
	if s.size+more > maxSpooled || o.size+more > maxSpooledInAll {
		return false
	}
	s.size += more
	o.size += more
	return true
}

// Find gives a principal's output.
func (o *Outputs) Find(principal, id string) (*Output, error) {
	if o == nil {
		return nil, noOutputOf(id)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.shelves[principal]; s != nil {
		for _, n := range s.list {
			if n.id == id {
				return n, nil
			}
		}
	}
	return nil, noOutputOf(id)
}

func noOutputOf(id string) error {
	return &paddock.Error{Message: fmt.Sprintf("cannot find output %q", id), Code: wire.CodeNotFound,
		Hint: "a server keeps outputs; it drops those of a sandbox with it, and the oldest that have ended where there are too many"}
}

// Drop drops an output that nobody needs any more.
func (n *Output) Drop() {
	n.End("")
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.store
	if o == nil {
		n.clear()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.shelves[n.principal]; s != nil {
		if i := slices.Index(s.list, n); i >= 0 {
			o.drop(s, i)
		}
	}
}

// Close drops all outputs, and keeps none any more.
func (o *Outputs) Close() error {
	o.mu.Lock()
	all := o.shelves
	o.shelves, o.closed = nil, true
	o.mu.Unlock()
	for _, s := range all {
		for _, n := range s.list {
			n.End("")
			n.mu.Lock()
			n.clear()
			n.mu.Unlock()
		}
	}
	return nil
}
