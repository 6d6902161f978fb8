package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

const (
	headTimeout = 10 * time.Second // from its first byte on
	// After a refusal the host has this long to end answers to earlier requests, and the
	// command to read the refusal.
	answerTimeout  = 10 * time.Second
	refusalTimeout = 2 * time.Second
)

// forwarding is a connection of HTTP. Requests are read, checked and written anew; answers are
// copied.
type forwarding struct {
	c  *connection
	in *bufio.Reader
	up io.Writer // nil before the host is reached
	// refused is the request after which nothing is sent any more.
	refused atomic.Pointer[httpError]
	// upgraded gets whether the host agreed to WebSocket, if the first request asks for it.
	upgraded chan bool
}

// forwardHTTP begins to forward requests. Nothing is connected to before the first one has been
// checked.
func (c *connection) forwardHTTP() error {
	f := &forwarding{c: c, in: bufio.NewReaderSize(c.inside, 16<<10), upgraded: make(chan bool, 1)}
	first, err := f.next()
	if refusal := (*httpError)(nil); errors.As(err, &refusal) {
		f.refuse(refusal)
		f.writeRefusal(refusal)
		return errReported
	}
	if err != nil || first == nil {
		return errInside
	}
	outside, err := c.connect(c.ctx)
	if err != nil {
		return err
	}
	up, down := c.copiers(outside)
	f.up = up
	c.relay(outside, func() error { return f.sendAll(first, outside) }, func() error {
		if first.upgrade {
			if err := f.readUpgrade(down, outside); err != nil {
				return err
			}
		}
		err := copyAll(down, outside)
		if refusal := f.refused.Load(); refusal != nil {
			f.writeRefusal(refusal)
			return nil
		}
		return err
	})
	return nil
}

// next reads and checks the head of the next request. It returns nil at the end.
func (f *forwarding) next() (*httpRequest, error) {
	if _, err := f.in.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	_ = f.c.inside.SetReadDeadline(time.Now().Add(headTimeout))
	defer f.c.inside.SetReadDeadline(time.Time{}) //nolint:errcheck // the next read tells
	var lines []string
	for budget := mostHead; ; {
		line, err := readLine(f.in, &budget)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, &httpError{408, "its header was not complete in time"}
		} else if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		if lines = append(lines, line); len(lines) > mostFields {
			return nil, &httpError{431, "its header is too long"}
		}
	}
	r, refusal := parseRequest(lines)
	if refusal == nil {
		refusal = checkHost(r.host, f.c.to)
	}
	if refusal == nil {
		refusal = checkForwarded(r.header, f.c.to)
	}
	if i := f.c.server.interceptor; refusal == nil && i != nil {
		if secret := i.secrets.standsIn(string(r.head)); secret != nil {
			refusal = &httpError{403, "it has the stand-in of " + secret.Name + ", and plain text never gets the value"}
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	return r, nil
}

// sendAll sends requests, of which the first has been checked already.
func (f *forwarding) sendAll(r *httpRequest, outside net.Conn) error {
	upgrade := r.upgrade
	for {
		if _, err := f.up.Write(r.head); err != nil {
			return err
		}
		r.head = nil
		if err := f.sendBody(r); err != nil {
			// The host has a part of the request, so that no answer would be one to it.
			if refusal := (*httpError)(nil); errors.As(err, &refusal) {
				f.refuse(refusal)
				return errReported
			} else if errors.Is(err, io.EOF) {
				return errInside
			}
			return err
		}
		if upgrade {
			select {
			case agreed := <-f.upgraded:
				if agreed {
					return f.copyRest()
				}
			case <-f.c.ctx.Done():
				return errInside
			}
		}
		var err error
		r, err = f.next()
		if err == nil && r != nil && r.upgrade {
			err = badRequest("WebSocket must begin with the first request of a connection")
		}
		if err != nil {
			return f.refusal(err, outside)
		}
		if r == nil {
			return nil
		}
		upgrade = false
	}
}

// refusal ends what is sent if err is a refusal. The answers to earlier requests come first.
func (f *forwarding) refusal(err error, outside net.Conn) error {
	refusal := (*httpError)(nil)
	switch {
	case errors.Is(err, io.EOF):
		return errInside
	case !errors.As(err, &refusal):
		return err
	}
	f.refuse(refusal)
	f.refused.Store(refusal)
	_ = outside.SetReadDeadline(time.Now().Add(answerTimeout))
	if err := closeWrite(outside); err != nil {
		return err
	}
	f.discard(answerTimeout + refusalTimeout)
	return nil
}

// refuse records that a request is not sent on.
func (f *forwarding) refuse(e *httpError) {
	f.c.server.deny(egress.Record{Host: f.c.to.host(), Port: f.c.to.port, Rule: f.c.rule, Reason: "a request was refused: " + e.reason})
}

// writeRefusal answers a request that is not sent on, as the last one of the connection.
func (f *forwarding) writeRefusal(e *httpError) {
	body := "paddock: the request is refused: " + strconv.QuoteToASCII(e.reason) + "\n"
	_ = f.c.inside.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = fmt.Fprintf(f.c.inside, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		e.status, http.StatusText(e.status), len(body), body)
	if f.up == nil {
		// Closing with input that is not read would take the answer away again.
		_ = closeWrite(f.c.inside)
		f.discard(refusalTimeout)
		_ = f.c.inside.Close()
	}
}

// discard reads what still comes from inside.
func (f *forwarding) discard(timeout time.Duration) {
	_ = f.c.inside.SetReadDeadline(time.Now().Add(timeout))
	_, _ = io.CopyN(io.Discard, f.in, 1<<20)
}

// sendBody sends the body of a request. An error in its form is an [*httpError].
func (f *forwarding) sendBody(r *httpRequest) error {
	if !r.chunked {
		return f.send(r.length)
	}
	for budget := mostHead; ; budget = mostHead {
		line, err := readLine(f.in, &budget)
		if err != nil {
			return err
		}
		digits, _, _ := strings.Cut(line, ";") // extensions are not sent on
		size, ok := parseDigits(strings.TrimRight(digits, " \t"), 16)
		if !ok {
			return badRequest("the size of a chunk is invalid")
		}
		if _, err := f.up.Write([]byte(strconv.FormatInt(size, 16) + "\r\n")); err != nil {
			return err
		}
		if size == 0 {
			return f.sendTrailer()
		}
		if err := f.send(size); err != nil {
			return err
		}
		if end, err := readLine(f.in, &budget); err != nil {
			return err
		} else if end != "" {
			return badRequest("a chunk is longer than its size")
		}
		if _, err := f.up.Write([]byte("\r\n")); err != nil {
			return err
		}
	}
}

// sendTrailer sends the fields after a body.
func (f *forwarding) sendTrailer() error {
	h := &httpHead{}
	for budget := mostHead; ; {
		line, err := readLine(f.in, &budget)
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		if err := h.add(line); err != nil {
			return err
		}
	}
	h.drop(slices.Concat(headHeaders, hostHeaders)...)
	_, err := f.up.Write(h.appendTo(nil))
	return err
}

// send sends bytes as they are.
func (f *forwarding) send(n int64) error {
	for n > 0 {
		if _, err := f.in.Peek(1); errors.Is(err, io.EOF) {
			return errInside
		} else if err != nil {
			return err
		}
		part, _ := f.in.Peek(int(min(n, int64(f.in.Buffered()))))
		if _, err := f.up.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
		_, _ = f.in.Discard(len(part))
	}
	return nil
}

// copyRest sends all that comes: it is not HTTP any more.
func (f *forwarding) copyRest() error {
	if err := f.send(int64(f.in.Buffered())); err != nil {
		return err
	}
	f.in = nil
	return copyAll(f.up, f.c.inside)
}

// readUpgrade copies the answer to a request for WebSocket, and tells whether the host agrees.
func (f *forwarding) readUpgrade(down *counter, outside net.Conn) error {
	agreed := false
	defer func() { f.upgraded <- agreed }()
	answer := bufio.NewReader(outside)
	for budget, status := mostHead, ""; ; {
		line, err := readLine(answer, &budget)
		if invalid := (*httpError)(nil); errors.As(err, &invalid) {
			return &outsideError{errors.New("its answer is not HTTP")}
		} else if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := down.Write([]byte(line + "\r\n")); err != nil {
			return err
		}
		if status == "" {
			_, status, _ = strings.Cut(line, " ")
			status += " "
		}
		agreed = strings.HasPrefix(status, "101 ")
		if line == "" && (agreed || !strings.HasPrefix(status, "1")) {
			break
		} else if line == "" {
			status = "" // the head of the answer itself follows
		}
	}
	rest, _ := answer.Peek(answer.Buffered())
	_, err := down.Write(rest)
	return err
}
