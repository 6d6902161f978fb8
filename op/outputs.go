package op

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

// Output is what something printed: two streams, of which one may be unused. It
// may be written and read at the same time.
type Output struct {
	id, principal string
	store         *Outputs

	mu      sync.Mutex
	streams [2]*spool // standard output, standard error
	ended   bool
	state   string        // how it ended, in a few words
	wake    chan struct{} // closed when something comes; nil while nobody waits
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
		stream.close()
	}
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

// find gives a principal's output.
func (o *Outputs) find(principal, id string) (*Output, error) {
	none := &paddock.Error{Message: fmt.Sprintf("cannot find output %q", id), Code: wire.CodeNotFound,
		Hint: "the oldest outputs that have ended are dropped where there are too many, and those of a sandbox with it"}
	if o == nil {
		none.Hint = "only a door that lasts keeps outputs"
		return nil, none
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
	return nil, none
}

// remove drops an output that nobody needs any more.
func (o *Outputs) remove(n *Output) {
	n.End("")
	if o == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, stream := range n.streams {
			stream.close()
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
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
			for _, stream := range n.streams {
				stream.close()
			}
			n.mu.Unlock()
		}
	}
	return nil
}

// ID is what output_read knows it by.
func (n *Output) ID() string { return n.id }

// Write adds to standard output. It never fails.
func (n *Output) Write(p []byte) (int, error) { return n.write(0, p) }

// outputSide is one of an output's streams, as a command writes to it.
type outputSide struct {
	n      *Output
	stream int
}

// Write adds to the stream. It never fails.
func (s outputSide) Write(p []byte) (int, error) { return s.n.write(s.stream, p) }

// Bytes are the beginning and the end of what was kept, for who looks through it.
func (s outputSide) Bytes() []byte {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	const most = 256 << 10
	spool := s.n.streams[s.stream]
	// What cannot be read is not looked through: the answer says no less for it.
	head, _, _ := spool.read(0, most)
	tail, _, _ := spool.read(max(int64(len(head)), spool.total-most), most)
	return append(head, tail...)
}

// Replace keeps text in place of what was kept.
func (s outputSide) Replace(text []byte) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	old := s.n.streams[s.stream]
	s.n.credit(old.size())
	old.close()
	s.n.streams[s.stream] = newSpool(s.n.grow)
	_, _ = s.n.streams[s.stream].Write(text) // it never fails
	s.n.stir()
}

func (n *Output) write(stream int, p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.stir()
	if n.ended {
		return len(p), nil
	}
	return n.streams[stream].Write(p)
}

// End says that nothing more comes, and how it ended, in a few words; an empty
// text says nothing. Later calls do nothing.
func (n *Output) End(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.ended, n.state = true, state
		n.stir()
	}
}

// stir wakes who waits; n is locked.
func (n *Output) stir() {
	if n.wake != nil {
		close(n.wake)
		n.wake = nil
	}
}

// waker is closed when something comes next; n is locked.
func (n *Output) waker() <-chan struct{} {
	if n.wake == nil {
		n.wake = make(chan struct{})
	}
	return n.wake
}
