// Package output keeps what commands print, for a server: both ends of each stream, in files
// without a name, read by cursor ([Output.Part]). It also makes what an answer shows of that:
// excerpts within a budget ([Output.Excerpt]) and lines for models ([Teller]).
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

// Output is stored output: two streams, of which one may be unused. It may be written and read
// at the same time.
type Output struct {
	id, principal string
	store         *Outputs

	mu      sync.Mutex
	streams [2]*spool // standard output, standard error
	ended   bool
	gone    bool             // it was dropped
	state   string           // how it ended, in a few words
	denials []paddock.Denial // refusals to the command that printed it, if that failed
	wake    chan struct{}    // closed when something arrives; nil if no caller waits
}

// clear drops the stored output; n is locked.
func (n *Output) clear() {
	n.gone = true
	for _, stream := range n.streams {
		stream.close()
	}
	n.stir()
}

// ID returns the id by which output_read finds it.
func (n *Output) ID() string { return n.id }

// Readable reports whether output_read can find it, since it is in a store.
func (n *Output) Readable() bool { return n.store != nil }

// Write adds to standard output. It never fails.
func (n *Output) Write(p []byte) (int, error) { return n.write(0, p) }

// Side is one of an output's streams, as a command writes to it.
type Side struct {
	n      *Output
	stream int
}

// Side returns one of the streams, 0 standard output and 1 standard error, for a command
// to write to.
func (n *Output) Side(stream int) Side { return Side{n, stream} }

// Skip notes that the next n bytes of the stream never come.
func (s Side) Skip(n int64) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	s.n.streams[s.stream].skip(n)
	s.n.stir()
}

// Write adds to the stream. It never fails.
func (s Side) Write(p []byte) (int, error) { return s.n.write(s.stream, p) }

// Bytes returns the beginning and the end of the stored output, for a search.
func (s Side) Bytes() []byte {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	const most = 256 << 10
	spool := s.n.streams[s.stream]
	// A part that cannot be read is not searched; the answer does not depend on it.
	head, _, _ := spool.read(0, most)
	tail, _, _ := spool.read(max(int64(len(head)), spool.total-most), most)
	return append(head, tail...)
}

// Replace replaces the stored output by text.
func (s Side) Replace(text []byte) {
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

// End notes that nothing more comes, how the end was in a few words, if there are any, and what
// a command that failed was refused. Later calls do nothing.
func (n *Output) End(state string, denials ...paddock.Denial) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.ended, n.state, n.denials = true, state, denials
		n.stir()
	}
}

// stir wakes those who wait; n is locked.
func (n *Output) stir() {
	if n.wake != nil {
		close(n.wake)
		n.wake = nil
	}
}

// Complete reports whether all of standard output is stored.
func (n *Output) Complete() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	left, right := n.streams[0].gap()
	return left == right && n.streams[0].kept == n.streams[0].total
}

// Totals returns how many bytes each stream had.
func (n *Output) Totals() (stdout, stderr int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.streams[0].total, n.streams[1].total
}

// Printed returns how much a command has printed so far, as a message.
func (n *Output) Printed() string {
	if n == nil {
		return "it runs"
	}
	stdout, stderr := n.Totals()
	return fmt.Sprintf("it runs; %d bytes of output, %d of error output", stdout, stderr)
}

// Bounds of the outputs that a server keeps for each principal.
const (
	maxOutputs = 512
	maxSpooled = 1 << 30 // bytes on the disk
	// maxSpooledInAll is for all principals together.
	maxSpooledInAll = 4 << 30
)

// Outputs stores output that does not fit into an answer, for output_read. A principal finds
// only its own. The first and the last 16 MiB of each stream are stored, in files without a
// name, which disappear when this process ends. If a principal has too many outputs, the oldest
// ended ones are dropped. The zero value is ready; Close drops all.
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

// New makes an output that a principal can read until it is dropped. Without a store (o is nil)
// only the caller has it.
func (o *Outputs) New(principal string) *Output {
	return o.NewNamed(principal, "o"+strings.ToLower(rand.Text()[:9]))
}

// NewNamed is New for an output that has an id already.
func (o *Outputs) NewNamed(principal, id string) *Output {
	n := &Output{id: id, principal: principal, store: o}
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

// evict drops the oldest output that has ended, and reports whether one has; o is locked.
func (o *Outputs) evict(s *shelf) bool {
	for i, old := range s.list {
		if !old.mu.TryLock() {
			continue // it is in use
		}
		ended := old.ended
		if ended {
			o.drop(s, i)
		}
		old.mu.Unlock()
		if ended {
			return true
		}
	}
	return false
}

// drop removes an output from the store; both are locked.
func (o *Outputs) drop(s *shelf, i int) {
	old := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	for _, stream := range old.streams {
		s.size -= stream.size()
		o.size -= stream.size()
	}
	old.clear()
}

// credit gives back room on the disk of an output that stays; n is locked.
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

// grow asks for room on the disk, and reports whether there is some; n is locked.
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

// Find returns a principal's output.
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

// Drop removes an output that is not needed any more, and its files.
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

// Close drops all outputs. After that no output is stored.
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
