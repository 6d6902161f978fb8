//go:build linux

package codex

import (
	"crypto/rand"
	"io"
	"net"
	"sync"
	"time"
)

// port is a loopback port that says whether somebody has called who knows the
// nonce.
type port struct {
	listener net.Listener
	nonce    string
	last     string // what the host side itself calls with, at the end
	once     sync.Once
	done     chan bool
	called   bool
}

// callTimeout bounds how long one caller can hold up the port.
const callTimeout = time.Second

func listen(nonce string) (*port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &port{listener: l, nonce: nonce, last: rand.Text(), done: make(chan bool, 1)}
	go func() { p.done <- p.serve() }()
	return p, nil
}

// serve takes one call after the other, in their order.
func (p *port) serve() (called bool) {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return called
		}
		_ = c.SetDeadline(time.Now().Add(callTimeout))
		got := make([]byte, len(p.nonce))
		_, _ = io.ReadFull(c, got)
		_ = c.Close()
		switch string(got) {
		case p.nonce:
			called = true
		case p.last:
			return called
		}
	}
}

func (p *port) address() string { return p.listener.Addr().String() }

// end closes the port and says whether there was a call. A last call comes
// behind all that were made before.
func (p *port) end() bool {
	p.once.Do(func() {
		c, err := net.Dial("tcp", p.address())
		if err == nil {
			_, err = io.WriteString(c, p.last)
			_ = c.Close()
		}
		if err != nil {
			_ = p.listener.Close()
		}
		p.called = <-p.done
		_ = p.listener.Close()
	})
	return p.called
}
