// Package output keeps what commands print for a door that lasts: both ends of each
// stream, in files without a name, read by cursor. It also says what an answer shows of
// it: excerpts within a budget ([Output.Excerpt]) and lines for models ([Teller]).
package output

import (
	"fmt"
	"sync"

	"github.com/paddock-dev/paddock"
)

// Output is what something printed: two streams, of which one may be unused. It
// may be written and read at the same time.
type Output struct {
	id, principal string
	store         *Outputs

	mu      sync.Mutex
	streams [2]*spool // standard output, standard error
	ended   bool
	gone    bool             // it was dropped
	state   string           // how it ended, in a few words
	denials []paddock.Denial // what the command that printed it was refused, where it failed
	wake    chan struct{}    // closed when something comes; nil while nobody waits
}

// clear drops what was kept; n is locked.
func (n *Output) clear() {
	n.gone = true
	for _, stream := range n.streams {
		stream.close()
	}
	n.stir()
}

// ID is what output_read knows it by.
func (n *Output) ID() string { return n.id }

// Readable reports whether output_read can find it: it is in a store.
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

// Write adds to the stream. It never fails.
func (s Side) Write(p []byte) (int, error) { return s.n.write(s.stream, p) }

// Bytes are the beginning and the end of what was kept, for who looks through it.
func (s Side) Bytes() []byte {
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

// End says that nothing more comes, and how it ended, in a few words; an empty
// text says nothing. denials are what a command that failed was refused. Later calls
// do nothing.
func (n *Output) End(state string, denials ...paddock.Denial) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.ended, n.state, n.denials = true, state, denials
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

// Complete reports whether all that was written to standard output is kept.
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

// Printed says how much a command has printed so far.
func (n *Output) Printed() string {
	if n == nil {
		return "it runs"
	}
	stdout, stderr := n.Totals()
	return fmt.Sprintf("it runs; %d bytes of output, %d of error output", stdout, stderr)
}
