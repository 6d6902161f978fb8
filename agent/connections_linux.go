package agent

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// connections are the open ones, at most maxConnections. When one more comes,
// the one that has waited longest for its next request makes room: who is
// served keeps the place, and who only holds one cannot keep others out.
type connections struct {
	mu      sync.Mutex
	place   map[net.Conn]*list.Element // in waiting, nil while it is served
	waiting list.List
	busy    int           // requests that are being served
	quiet   chan struct{} // closed when none is, where somebody waits for it
	served  int           // requests since memory was given back
	rest    *time.Timer   // gives memory back once nobody asks for anything
}

const (
	// restful is after how many requests memory is worth giving back.
	restful = 256
	// restDelay is how long nobody must have asked for anything before.
	restDelay = 300 * time.Millisecond
)

// admit takes a connection in. Another that had to make room for it is
// returned, to be refused; conn itself where there is no room.
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

// begin notes that a whole request has come. It reports false for a connection
// that has just had to make room.
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

// done notes that the request has been answered, and the next is awaited.
func (c *connections) done(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place[conn] = c.waiting.PushBack(conn)
	c.served++
	if c.busy--; c.busy == 0 {
		c.calm()
	}
}

// calm notes that no request is being served. The lock is held.
func (c *connections) calm() {
	if c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
	switch {
	case c.served < restful:
	case c.rest == nil:
		c.rest = time.AfterFunc(restDelay, c.giveBack)
	default:
		c.rest.Reset(restDelay)
	}
}

// giveBack returns what many requests have taken and nobody needs now to the
// machine.
func (c *connections) giveBack() {
	c.mu.Lock()
	idle := c.busy == 0
	if idle {
		c.served = 0
	}
	c.mu.Unlock()
	if idle {
		tidy()
	}
}

// leave notes that a connection has ended.
func (c *connections) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.place[conn]; e != nil {
		c.waiting.Remove(e)
	}
	delete(c.place, conn)
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.place)
}

// settle waits until no request is being served, but for limit at the most.
func (c *connections) settle(limit time.Duration) {
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
