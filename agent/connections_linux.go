package agent

import (
	"container/list"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxConnections is how many connections are served at a time; one more
	// is refused and closed.
	maxConnections = 512
	// maxCarried is how many connections to ports are carried at a time, beside those. Each
	// takes two descriptors.
	maxCarried = 512
	// maxProcessors bounds the agent's own parallelism; the machine is for commands.
	maxProcessors = 4
	// manyRequests is after how many requests the agent frees memory.
	manyRequests = 16
	// freeDelay is how long no request must have come before that.
	freeDelay = 300 * time.Millisecond
)

// connections holds the open connections, at most maxConnections. To admit one more, the
// agent closes the connection that has waited longest for its next request: connections
// with a running request stay open, and idle ones cannot keep others out.
type connections struct {
	mu      sync.Mutex
	place   map[net.Conn]*list.Element // in waiting, nil while a request is served
	waiting list.List
	busy    int           // requests that are being served
	ports   int           // connections to ports, which are not in place any more
	quiet   chan struct{} // closed when none is; nil while nobody waits for that
	served  int           // requests since memory was freed
	idle    *time.Timer   // frees memory once no more requests come
}

// admit adds a connection. It returns the connection that the caller must refuse: an idle
// one that was removed to make room, conn itself if no room could be made, or nil.
func (c *connections) admit(conn net.Conn) (refused net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place == nil {
		c.place = map[net.Conn]*list.Element{}
	}
	if len(c.place) >= maxConnections {
		oldest := c.waiting.Front()
		if oldest == nil {
			return conn
		}
		refused = c.waiting.Remove(oldest).(net.Conn)
		delete(c.place, refused)
	}
	c.place[conn] = c.waiting.PushBack(conn)
	return refused
}

// manyProcessors makes the agent run in parallel. It starts with one processor
// only, because threads that look for work delay a single short command.
var manyProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(min(runtime.NumCPU(), maxProcessors)) })

// begin notes that a whole request has come. It returns false for a connection
// that has just been refused to make room.
func (c *connections) begin(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, admitted := c.place[conn]
	if !admitted {
		return false
	}
	c.waiting.Remove(e)
	c.place[conn] = nil
	if c.busy++; c.busy > 1 {
		manyProcessors()
	}
	return true
}

// carry turns a connection whose request is being served into one that carries another to a
// port, unless there are too many of these.
func (c *connections) carry(conn net.Conn) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ports >= maxCarried {
		return false
	}
	c.ports++
	delete(c.place, conn)
	c.answered()
	return true
}

// endCarry notes that a connection to a port has ended.
func (c *connections) endCarry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports--
}

// done notes that the request has been answered, and the next is awaited.
func (c *connections) done(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, admitted := c.place[conn]; !admitted {
		return // it was carried
	}
	c.place[conn] = c.waiting.PushBack(conn)
	c.answered()
}

// answered notes that one request less is being served. c.mu is held.
func (c *connections) answered() {
	c.served++
	if c.busy--; c.busy > 0 {
		return
	}
	if c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
	switch {
	case c.served < manyRequests:
	case c.idle == nil:
		c.idle = time.AfterFunc(freeDelay, func() {
			c.mu.Lock()
			idle := c.busy == 0
			if idle {
				c.served = 0
			}
			c.mu.Unlock()
			if idle {
				freeMemory()
			}
		})
	default:
		c.idle.Reset(freeDelay)
	}
}

// leave removes a connection that has ended.
func (c *connections) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.place[conn]; e != nil {
		c.waiting.Remove(e)
	}
	delete(c.place, conn)
}

// count returns how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.place) + c.ports
}

// awaitQuiet waits until no request is being served, for limit at most.
func (c *connections) awaitQuiet(limit time.Duration) {
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return
	}
	if c.quiet == nil {
		c.quiet = make(chan struct{})
	}
	quiet := c.quiet
	c.mu.Unlock()
	select {
	case <-quiet:
	case <-time.After(limit):
	}
}

// Bounds of the memory that request lines take, in bytes.
const (
	// freeLine is how long a line may be that does not count towards maxLines.
	freeLine = 16 << 10
	// maxLines bounds all longer lines together, from their first byte until they are
	// answered.
	maxLines = 32 << 20
	// muchRoom is how much is worth returning to the machine.
	muchRoom = 1 << 20
)

// roomTimeout is how long a line waits for room.
const roomTimeout = 2 * time.Second

// lineRoom is the memory that long request lines share.
type lineRoom struct {
	mu    sync.Mutex
	used  int
	freed chan struct{} // closed when room is released, nil while nobody waits
	idle  *time.Timer   // frees memory
}

// acquire waits for room, and reports whether it got it.
func (r *lineRoom) acquire(n int) bool {
	freed := r.tryAcquire(n)
	if freed == nil {
		return true
	}
	timer := time.NewTimer(roomTimeout)
	defer timer.Stop()
	for freed != nil {
		select {
		case <-freed:
			freed = r.tryAcquire(n)
		case <-timer.C:
			return false
		}
	}
	return true
}

// tryAcquire takes room if there is enough. Else it returns a channel that is closed
// when some is released.
func (r *lineRoom) tryAcquire(n int) (freed <-chan struct{}) {
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

// release returns room and, if it was a lot, gives memory back to the machine.
func (r *lineRoom) release(n int) {
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
	case r.idle == nil:
		r.idle = time.AfterFunc(freeDelay, freeMemory)
	default:
		r.idle.Reset(freeDelay)
	}
}

// freeMemory returns unused memory to the machine.
func freeMemory() {
	runtime.GC() // a pool frees its buffers only at the second collection
	debug.FreeOSMemory()
}
