package proxy

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// errUnsearchable is an answer that may have a secret, and cannot be searched for it.
var errUnsearchable = errors.New("its answer is compressed in a way that cannot be searched for secrets")

// answer changes the answer of the host.
func (i *intercepted) answer(r *http.Response) error {
	e, ok := r.Request.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return errors.New("it belongs to no request")
	}
	head := headWeight(r.Header)
	e.weight += head
	if i.inFlight.Add(head) > i.most {
		return errTooMany
	}
	r.Header.Del("Alt-Svc") // there is no other way to the host
	if len(r.Trailer) > 0 { // else clients of HTTP/1.1 do not get them
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	if len(e.redact) == 0 {
		return nil
	}
	e.redact.header(r.Header)
	if r.StatusCode == http.StatusSwitchingProtocols {
		r.Status = "" // the host can write anything there
		e.status = r.StatusCode
		both, ok := r.Body.(io.ReadWriteCloser)
		if !ok {
			return errors.New("its answer cannot be used")
		}
		r.Body = &upgraded{both, e.redact.body(both)}
		return nil
	}
	from, err := decoded(r)
	if err != nil {
		return err
	}
	r.Body = &answerBody{e.redact.body(from), r.Body, r, e.redact}
	return nil
}

// decoded returns the body of an answer as it is read, and takes out what says that it is
// compressed.
func decoded(r *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if coding == "" || coding == "identity" || r.Request.Method == http.MethodHead || r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified {
		return r.Body, nil
	}
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "gzip", "x-gzip":
		open = func(from io.Reader) (io.Reader, error) { return gzip.NewReader(from) }
	case "deflate":
		open = func(from io.Reader) (io.Reader, error) { return zlib.NewReader(from) }
	default:
		return nil, errUnsearchable
	}
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	return &lazily{from: bufio.NewReaderSize(r.Body, 4<<10), open: open}, nil
}

// lazily opens what decodes when it is read: the head of an answer need not wait for its body.
type lazily struct {
	from *bufio.Reader
	open func(io.Reader) (io.Reader, error)
	to   io.Reader
}

func (l *lazily) Read(p []byte) (int, error) {
	if l.to == nil {
		if _, err := l.from.Peek(1); err != nil { // nothing is not compressed
			return 0, err
		}
		var err error
		if l.to, err = l.open(l.from); err != nil {
			return 0, err
		}
	}
	return l.to.Read(p)
}

// answerBody is the body of an answer, searched.
type answerBody struct {
	io.Reader
	io.Closer
	answer *http.Response
	redact redactor
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.redact.header(b.answer.Trailer)
	}
	return n, err
}

// upgraded is a connection that is not HTTP any more.
type upgraded struct {
	io.ReadWriteCloser
	from io.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.from.Read(p) }
