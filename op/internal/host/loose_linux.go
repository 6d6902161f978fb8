package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// Loose values accept any JSON, so that an invalid one is reported with the contract's text,
// and in the contract's order of checks.

// looseText is a string.
type looseText struct {
	text  string
	set   bool   // it is present
	wrong string // why it is invalid, or empty
}

// UnmarshalJSON never fails.
func (l *looseText) UnmarshalJSON(data []byte) error {
	*l = looseText{set: string(data) != "null"}
	var ok bool
	if l.text, ok = stringIn(data); l.set && !ok {
		l.wrong = "must be a string."
	}
	return nil
}

// MarshalJSON is for the audit record, like those below.
func (l looseText) MarshalJSON() ([]byte, error) {
	return osstring.String(cmp.Or(l.text, l.wrong)).MarshalJSON()
}

// OSText says that it need not be UTF-8.
func (looseText) OSText() {}

// JSONSchema returns the schema of a text.
func (looseText) JSONSchema() string { return `{"type":"string"}` }

// stringIn decodes a JSON string.
func stringIn(data []byte) (text string, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return "", false
	}
	ok = json.Unmarshal(data, (*osstring.String)(&text)) == nil
	return text, ok
}

// check returns an error with the field's name if the value is invalid.
func (l looseText) check(name string) error {
	if l.wrong != "" {
		return errors.New(name + " " + l.wrong)
	}
	return nil
}

// looseInt is a whole number, or one written as a string. A number out of range becomes the
// end of the range.
type looseInt struct {
	n          int64
	set, wrong bool
}

// UnmarshalJSON never fails.
func (l *looseInt) UnmarshalJSON(data []byte) error {
	text, quoted := stringIn(data)
	if !quoted {
		text = string(data)
	}
	*l = looseInt{set: text != "null"}
	if l.set {
		l.n, l.wrong = wholeNumber(strings.TrimSpace(text), quoted)
	}
	return nil
}

// MarshalJSON returns null if there is no number.
func (l looseInt) MarshalJSON() ([]byte, error) {
	if !l.set || l.wrong {
		return []byte("null"), nil
	}
	return json.Marshal(l.n)
}

// wholeNumber parses a whole number. If it was quoted, it must be decimal.
func wholeNumber(text string, quoted bool) (n int64, wrong bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return n, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || quoted || f != math.Trunc(f) {
		return 0, true
	}
	return int64(max(min(f, 1<<53), -1<<53)), false
}

// within returns the number, moved into the range from least to most, or none if it is
// absent.
func (l looseInt) within(least, most, none int64) int64 {
	if !l.set {
		return none
	}
	return max(least, min(l.n, most))
}

// looseList is a list of strings.
type looseList []looseItem

type looseItem struct {
	text   string
	string bool // it is a string
	scalar bool // it is a number, true, false or null, which can be written as a string
	noList bool // it stands for a value that is not a list
}

// MarshalJSON returns the text, or null if there is none.
func (l looseItem) MarshalJSON() ([]byte, error) {
	if !l.string && !l.scalar {
		return []byte("null"), nil
	}
	return osstring.String(l.text).MarshalJSON()
}

// UnmarshalJSON never fails.
func (l *looseList) UnmarshalJSON(data []byte) error {
	*l = nil
	var raw []json.RawMessage // null leaves it nil
	if json.Unmarshal(data, &raw) != nil {
		*l = looseList{{noList: true}}
	}
	for _, one := range raw {
		*l = append(*l, looseItemOf(one))
	}
	return nil
}

// OSText says that the strings need not be UTF-8.
func (looseList) OSText() {}

func looseItemOf(raw json.RawMessage) looseItem {
	switch raw[0] {
	case '"':
		var t looseText
		_ = t.UnmarshalJSON(raw) // never
		return looseItem{text: t.text, string: t.wrong == ""}
	case '[', '{':
		return looseItem{}
	case 't':
		return looseItem{text: "True", scalar: true}
	case 'f':
		return looseItem{text: "False", scalar: true}
	case 'n':
		return looseItem{text: "None", scalar: true}
	}
	return looseItem{text: string(raw), scalar: true}
}

// command returns the list as a command, which must not be empty.
func (l looseList) command() ([]string, error) {
	wrong := sentence("command must be a non-empty list of strings.")
	if len(l) == 0 {
		return nil, wrong
	}
	var argv []string
	for _, item := range l {
		if !item.string && !item.scalar {
			return nil, wrong
		}
		if strings.IndexByte(item.text, 0) >= 0 {
			return nil, sentence("command must not hold NUL bytes.")
		}
		argv = append(argv, item.text)
	}
	if argv[0] == "" {
		return nil, wrong
	}
	return argv, nil
}

// strings returns the list, which may be empty and must have strings.
func (l looseList) strings(name string) ([]string, error) {
	var all []string
	for _, item := range l {
		switch {
		case item.noList:
			return nil, errors.New(name + " must be a list of strings.")
		case !item.string || item.text == "":
			return nil, errors.New(name + " entries must be non-empty strings.")
		}
		all = append(all, item.text)
	}
	return all, nil
}
