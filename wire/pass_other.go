//go:build !linux

package wire

import "net"

// newBypass returns nil: an agent runs on Linux, and descriptors do not reach
// another machine.
func newBypass(net.Conn, *ExecRequest, Streams) (*bypass, error) { return nil, nil }

func (b *bypass) send(conn net.Conn, line []byte) error { return writeAll(conn, line) }

func (b *bypass) move() error { return nil }
