package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/paddock-dev/paddock/egress"
)

// secrets are those of the sandbox.
type secrets []egress.Secret

func (s secrets) find(name string) *egress.Secret {
	for i := range s {
		if s[i].Name == name {
			return &s[i]
		}
	}
	return nil
}

// standsIn returns the secret whose stand-in one of the texts has, or nil.
func (s secrets) standsIn(texts ...string) *egress.Secret {
	for i := range s {
		for _, text := range texts {
			if s[i].StandIn != "" && strings.Contains(text, s[i].StandIn) {
				return &s[i]
			}
		}
	}
	return nil
}

// replacement is a text that answers must not have, and one of the same length.
type replacement struct{ text, by []byte }

// redactor replaces the values of secrets. What takes their places has their lengths, so that
// nothing else of an answer changes.
type redactor []replacement

// add replaces a text by stars, or by a stand-in.
func (r redactor) add(text, by string) redactor {
	if len(by) != len(text) {
		by = strings.Repeat("*", len(text))
	}
	return append(r, replacement{[]byte(text), []byte(by)})
}

// inPlace replaces what is in a buffer as a whole.
func (r redactor) inPlace(p []byte) {
	for _, s := range r {
		for at := p; ; {
			i := bytes.Index(at, s.text)
			if i < 0 {
				break
			}
			copy(at[i:], s.by)
			at = at[i+len(s.by):]
		}
	}
}

// held returns how many bytes at the end of p may be the beginning of a text.
func (r redactor) held(p []byte) int {
	longest := 0
	for _, s := range r {
		for n := min(len(s.text)-1, len(p)); n > longest; n-- {
			if bytes.HasPrefix(s.text, p[len(p)-n:]) {
				longest = n
			}
		}
	}
	return longest
}

// text returns a text with replacements.
func (r redactor) text(s string) string {
	for _, one := range r {
		if strings.Contains(s, string(one.text)) {
			s = strings.ReplaceAll(s, string(one.text), string(one.by))
		}
	}
	return s
}

// header replaces in the values of a header, and drops fields with a text in their names.
func (r redactor) header(h http.Header) {
	for name, values := range h {
		if r.text(name) != name || r.text(strings.ToLower(name)) != strings.ToLower(name) {
			delete(h, name)
			continue
		}
		for i := range values {
			if own := r.text(values[i]); own != values[i] {
				values[i] = own
			}
		}
	}
}

// body returns a body of which what is read has been searched.
func (r redactor) body(from io.Reader) io.Reader {
	if len(r) == 0 {
		return from
	}
	return &searched{r: r, from: from}
}

// searched reads from a source, and holds back what may be the beginning of a text.
type searched struct {
	r       redactor
	from    io.Reader
	buffer  []byte
	ready   int // bytes at the beginning of buffer that have been searched
	failure error
}

const searchBuffer = 32 << 10

func (s *searched) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.ready == 0 {
		if s.failure != nil {
			return 0, s.failure
		}
		s.fill()
	}
	n := copy(p, s.buffer[:s.ready])
	s.buffer = s.buffer[:copy(s.buffer, s.buffer[n:])]
	s.ready -= n
	return n, nil
}

// fill reads more, and searches it.
func (s *searched) fill() {
	if s.buffer == nil {
		s.buffer = make([]byte, 0, searchBuffer)
	}
	if cap(s.buffer)-len(s.buffer) < 1<<10 { // a text is longer than the buffer
		s.buffer = append(make([]byte, 0, 2*cap(s.buffer)), s.buffer...)
	}
	n, err := s.from.Read(s.buffer[len(s.buffer):cap(s.buffer)])
	s.buffer = s.buffer[:len(s.buffer)+n]
	s.r.inPlace(s.buffer)
	s.ready = len(s.buffer)
	if err == nil {
		s.ready -= s.r.held(s.buffer)
	}
	s.failure = err
}
