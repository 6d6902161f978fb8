package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// object is an object or a list in a text of JSON with comments and trailing
// commas, by where its parts are.
type object struct {
	list      bool
	open, end int // of the brackets
	members   []member
	comma     int // after the last member; -1 where there is none
}

// member is a member of an object, or an element of a list, which has no key.
type member struct {
	key      string
	at       int // of the key, or of the element
	from, to int // of the value
	value    *object
}

// maxDepth bounds what is inside what.
const maxDepth = 200

var errTwice = errors.New("a name is there twice")

// find gives the only member of this name, nil where there is none.
func (o *object) find(key string) (*member, error) {
	var found *member
	for i := range o.members {
		if o.members[i].key == key {
			if found != nil {
				return nil, errTwice
			}
			found = &o.members[i]
		}
	}
	return found, nil
}

// scanner reads such a text, and writes plain JSON of the same meaning.
type scanner struct {
	text  []byte
	at    int
	plain []byte // with spaces for what JSON does not have
}

// scan reads a whole text, which is an object.
func scan(text []byte) (root *object, plain []byte, err error) {
	s := &scanner{text: text, plain: append([]byte(nil), text...)}
	if err := s.space(); err != nil {
		return nil, nil, err
	}
	if s.next() != '{' {
		return nil, nil, s.wrong("it is not an object")
	}
	root, err = s.object(0)
	if err == nil {
		err = s.space()
	}
	if err == nil && s.at < len(text) {
		err = s.wrong("something follows the object")
	}
	if err == nil && !json.Valid(s.plain) {
		err = errors.New("it is not JSON")
	}
	return root, s.plain, err
}

func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) wrong(reason string) error {
	line := 1
	for _, c := range s.text[:s.at] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("line %d: %s", line, reason)
}

// space passes over blanks and comments.
func (s *scanner) space() error {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		case '/':
			if err := s.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (s *scanner) comment() error {
	from := s.at
	end := commentEnd(s.text, from)
	if end < 0 {
		return s.wrong("a / begins no comment that ends")
	}
	s.at = end
	for i := from; i < s.at; i++ {
		if s.plain[i] != '\n' && s.plain[i] != '\r' {
			s.plain[i] = ' '
		}
	}
	return nil
}

// commentEnd is where a comment that begins at from ends, -1 where it does not.
func commentEnd(text []byte, from int) int {
	if from+1 >= len(text) {
		return -1
	}
	switch text[from+1] {
	case '/':
		for i := from; i < len(text); i++ {
			if text[i] == '\n' {
				return i
			}
		}
		return len(text)
	case '*':
		for i := from + 3; i < len(text); i++ {
			if text[i-1] == '*' && text[i] == '/' {
				return i + 1
			}
		}
	}
	return -1
}

// value reads any value, and returns it where it is an object or a list.
func (s *scanner) value(depth int) (*object, error) {
	if depth > maxDepth {
		return nil, s.wrong("too much is inside each other")
	}
	switch c := s.next(); c {
	case '{':
		return s.object(depth)
	case '[':
		return s.list(depth)
	case '"':
		_, err := s.str()
		return nil, err
	}
	from := s.at
	for s.at < len(s.text) && !isEnd(s.text[s.at]) {
		s.at++
	}
	if s.at == from || !json.Valid(s.text[from:s.at]) {
		return nil, s.wrong("there is no value")
	}
	return nil, nil
}

func isEnd(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', '}', ']', '/', ':':
		return true
	}
	return false
}

func (s *scanner) str() (string, error) {
	from := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			text := ""
			if err := json.Unmarshal(s.text[from:s.at], &text); err != nil {
				return "", s.wrong("a string is not as JSON has them: " + strconv.Quote(string(s.text[from:s.at])))
			}
			return text, nil
		}
	}
	s.at = min(s.at, len(s.text))
	return "", s.wrong("a string does not end")
}

func (s *scanner) object(depth int) (*object, error) {
	o := &object{open: s.at, comma: -1}
	err := s.elements('}', &o.comma, func() error {
		m := member{at: s.at}
		if s.next() != '"' {
			return s.wrong("a name is missing")
		}
		var err error
		if m.key, err = s.str(); err != nil {
			return err
		}
		if err := s.space(); err != nil {
			return err
		}
		if s.next() != ':' {
			return s.wrong("a : is missing")
		}
		s.at++
		if err := s.space(); err != nil {
			return err
		}
		m.from = s.at
		if m.value, err = s.value(depth + 1); err != nil {
			return err
		}
		m.to = s.at
		o.members = append(o.members, m)
		return nil
	})
	o.end = s.at - 1
	return o, err
}

func (s *scanner) list(depth int) (*object, error) {
	o := &object{list: true, open: s.at, comma: -1}
	err := s.elements(']', &o.comma, func() error {
		m := member{at: s.at, from: s.at}
		var err error
		m.value, err = s.value(depth + 1)
		m.to = s.at
		o.members = append(o.members, m)
		return err
	})
	o.end = s.at - 1
	return o, err
}

// elements reads what stands between brackets, parted by commas, of which comma
// becomes a last one.
func (s *scanner) elements(closing byte, comma *int, one func() error) error {
	s.at++
	for first := true; ; first = false {
		if err := s.space(); err != nil {
			return err
		}
		if s.next() == closing {
			if *comma >= 0 {
				s.plain[*comma] = ' '
			}
			s.at++
			return nil
		}
		if !first && *comma < 0 {
			return s.wrong("a comma is missing")
		}
		*comma = -1
		if err := one(); err != nil {
			return err
		}
		if err := s.space(); err != nil {
			return err
		}
		if s.next() == ',' {
			*comma = s.at
			s.at++
		}
	}
}
