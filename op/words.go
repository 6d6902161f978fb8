package op

import "strings"

// shellMeaning are the characters that a shell would act upon. Outside quotes
// they are refused: nothing is expanded here, and who writes one means more
// than a word.
const shellMeaning = "$`;|&<>(){}[]*?~#!\n\r\x00"

// splitWords takes a command apart as a shell would that expands nothing: words
// are parted by spaces, and are quoted by '…', "…" and \. reason says why the
// text cannot be taken apart.
func splitWords(text string) (words []string, reason string) {
	s := splitter{rest: text}
	for s.rest != "" && s.reason == "" {
		s.next()
	}
	if s.reason == "" && s.begun {
		s.words = append(s.words, s.word.String())
	}
	if s.reason == "" && len(s.words) == 0 {
		s.reason = "it is empty"
	}
	return s.words, s.reason
}

type splitter struct {
	rest   string
	words  []string
	word   strings.Builder
	begun  bool // there is a word, be it empty
	reason string
}

// next takes one character, or one quoted part.
func (s *splitter) next() {
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case c == ' ' || c == '\t':
		if s.begun {
			s.words = append(s.words, s.word.String())
			s.word.Reset()
			s.begun = false
		}
		return
	case c == '\'':
		s.quoted()
	case c == '"':
		s.double()
	case c == '\\':
		s.escaped()
	case strings.IndexByte(shellMeaning, c) >= 0:
		s.reason = "it has a " + string(c) + " outside quotes, which a shell would act upon"
	default:
		s.word.WriteByte(c)
	}
	s.begun = true
}

func (s *splitter) quoted() {
	part, rest, ok := strings.Cut(s.rest, "'")
	if !ok {
		s.reason = "a ' is not closed"
	}
	s.word.WriteString(part)
	s.rest = rest
}

func (s *splitter) double() {
	for s.rest != "" && s.reason == "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch c {
		case '"':
			return
		case '$', '`':
			s.reason = "it has a " + string(c) + " in double quotes, which a shell would act upon"
		case '\\':
			if s.rest != "" && strings.IndexByte("\"\\$`", s.rest[0]) >= 0 {
				c, s.rest = s.rest[0], s.rest[1:]
			}
		}
		s.word.WriteByte(c)
	}
	if s.reason == "" {
		s.reason = `a " is not closed`
	}
}

func (s *splitter) escaped() {
	if s.rest == "" {
		s.reason = `nothing follows its last \`
		return
	}
	s.word.WriteByte(s.rest[0])
	s.rest = s.rest[1:]
}
