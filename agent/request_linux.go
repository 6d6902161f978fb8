package agent

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the memory that request lines take, in bytes.
const (
	// maxUnproved is how much of a line is read before its token must have
	// come, where one is asked for.
	maxUnproved = 8 << 10
	// freeLine is how long a line may be that needs none of the common room.
	freeLine = 16 << 10
	// maxLines is the room that all longer lines have together, from their
	// first byte until they are answered.
	maxLines = 32 << 20
	// muchRoom is how much is worth giving back to the machine.
	muchRoom = 1 << 20
)

const (
	// roomTimeout is how long a line waits for room.
	roomTimeout = 2 * time.Second
	// refusedTimeout is how long what follows a refused line is read, and how
	// long each piece of a refused body is awaited.
	refusedTimeout = 2 * time.Second
)

var (
	errLateToken = &wire.Error{Code: wire.CodeUnauthorized, Object: "token", Message: "cannot serve the request: its token is missing or wrong",
		Hint: fmt.Sprintf("the token must be within the first %d bytes of the request", maxUnproved)}
	errNoRoom = &wire.Error{Code: wire.CodeBusy, Message: "cannot read the request: there is no room for a line of its size",
		Hint: "try again later, or send less at a time"}
)

// readRequest reads a request line, and says how much room it holds: whoever
// asks for nothing but room gets little before the token, and never more than
// there is for all.
func (a *Agent) readRequest(in *bufio.Reader) (line []byte, held int, err error) {
	proved := a.token == nil
	line, err = wire.ReadLineFunc(in, wire.MaxLine, func(begun []byte, size int) error {
		if !proved && size > maxUnproved {
			token, _ := wire.TokenOf(begun)
			if proved = a.authorized(token); !proved {
				return errLateToken
			}
		}
		if size <= freeLine {
			return nil
		}
		if !a.room.take(size - held) {
			return errNoRoom
		}
		held = size
		return nil
	})
	if err != nil {
		a.room.give(held)
		return nil, 0, err
	}
	return line, held, nil
}

// decode reads the request, whose line is not needed any more. Decoding takes
// many times the memory of a line, so long lines take turns.
func (a *Agent) decode(c *conversation, request any) error {
	if len(c.line) > freeLine {
		a.decoding.Lock()
		defer a.decoding.Unlock()
	}
	err := wire.DecodeRequest(c.line, request)
	c.line = nil
	if r, ok := request.(interface {
		Redactions() ([]string, wire.RedactRules)
	}); ok {
		c.prints = true
		c.hide, c.rules = r.Redactions()
	}
	return err
}

// readHead is decode for what every request has.
func (a *Agent) readHead(c *conversation) (err error) {
	if len(c.line) > freeLine {
		a.decoding.Lock()
		defer a.decoding.Unlock()
	}
	c.head, err = wire.HeadOf(c.line)
	return err
}

// discardLine reads what is left of a line that may have been a good one, in
// bounds, so that a client which sends before it reads gets its answer.
func discardLine(conn net.Conn, in *bufio.Reader) {
	_ = conn.SetReadDeadline(time.Now().Add(refusedTimeout))
	rest := bufio.NewReader(io.LimitReader(in, wire.MaxLine))
	for {
		if _, err := rest.ReadSlice('\n'); err != bufio.ErrBufferFull { //nolint:errorlint // it is never wrapped
			return
		}
	}
}

// lineRoom is the memory that long request lines share.
type lineRoom struct {
	mu    sync.Mutex
	used  int
	freed chan struct{} // closed when some is given back, nil while nobody waits
	rest  *time.Timer   // gives it back to the machine
}

// take reports whether there is room, for which it waits.
func (r *lineRoom) take(n int) bool {
	freed := r.tryTake(n)
	if freed == nil {
		return true
	}
	timer := time.NewTimer(roomTimeout)
	defer timer.Stop()
	for freed != nil {
		select {
		case <-freed:
			freed = r.tryTake(n)
		case <-timer.C:
			return false
		}
	}
	return true
}

// tryTake takes room where there is enough, else says what to wait for.
func (r *lineRoom) tryTake(n int) (freed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n <= maxLines {
		r.used += n
		return nil
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// give returns room, also to the machine where it was much.
func (r *lineRoom) give(n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	switch {
	case n < muchRoom:
	case r.rest == nil:
		r.rest = time.AfterFunc(restDelay, tidy)
	default:
		r.rest.Reset(restDelay)
	}
}

// tidy returns memory that nobody needs now to the machine.
func tidy() {
	runtime.GC() // pools let go of what they keep at the second collection
	debug.FreeOSMemory()
}
