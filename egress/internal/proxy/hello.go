package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const mostHello = 64 << 10 // bytes

var (
	errHelloRead = errors.New("the hello has been read")
	errHelloLong = fmt.Errorf("its TLS hello is longer than %d bytes", mostHello)
)

// recorder is a connection whose input is recorded and that swallows its output.
type recorder struct {
	net.Conn
	start io.Reader // comes before what is read from the connection
	read  []byte
	err   error // of the connection
}

func (r *recorder) Read(p []byte) (int, error) {
	left := mostHello - len(r.read)
	if left <= 0 {
		return 0, errHelloLong
	}
	p = p[:min(left, len(p))]
	n, err := r.start.Read(p)
	if n == 0 {
		n, err = r.Conn.Read(p)
		r.err = err
	}
	r.read = append(r.read, p[:n]...)
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

// readHello reads the first message of TLS, of which start has been read. It returns the name
// of the server in it, and all that was read, which has to be sent on. An error that says what
// is wrong with the message is a [helloError].
func readHello(conn net.Conn, start []byte, timeout time.Duration) (server string, read []byte, err error) {
	begin := bytes.NewReader(start)
	r := &recorder{Conn: conn, start: begin}
	hello := tls.Server(r, &tls.Config{
		MinVersion: tls.VersionTLS10, // the server decides, not the one who looks
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			server = h.ServerName
			return nil, errHelloRead
		},
	})
	_ = conn.SetReadDeadline(time.Now().Add(timeout))
	err = hello.HandshakeContext(context.Background())
	_ = conn.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, errHelloRead):
		return server, append(r.read, start[len(start)-begin.Len():]...), nil
	case errors.Is(r.err, os.ErrDeadlineExceeded):
		return "", nil, helloError(fmt.Sprintf("there was no TLS hello within %v", timeout))
	case errors.Is(err, errHelloLong):
		return "", nil, helloError(err.Error())
	case r.err == nil || errors.Is(r.err, io.EOF) && len(r.read) > 0:
		return "", nil, helloError("it does not begin with a TLS hello")
	}
	return "", nil, r.err
}

// helloError says why the beginning of a connection is not one of TLS to the name that was
// meant.
type helloError string

func (e helloError) Error() string { return string(e) }
