package executor

import (
	"bytes"
	"encoding/json"
	"errors"
)

// value is a value of a JSON document, with the line where it is written.
type value struct {
	kind          kind
	text          string // of a scalar, as it is written
	line, keyLine int
	keys          []string // of an object
	values        []*value // of an object or a list
}

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindObject
)

type syntaxError struct {
	line   int
	reason string
}

// parse reads one JSON document. Whether it is one is found out first, so that
// reading it bounds its depth.
func parse(data []byte) (*value, *syntaxError) {
	if len(data) > MaxSize {
		return nil, &syntaxError{reason: "it is larger than 1MiB"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		e := &syntaxError{reason: err.Error()}
		if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
			end := min(max(at.Offset, 0), int64(len(data)))
			e.line = 1 + bytes.Count(data[:end], []byte("\n"))
		}
		return nil, e
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	p.dec.UseNumber()
	root, err := p.value()
	if err != nil {
		return nil, &syntaxError{p.line, err.Error()}
	}
	return root, nil
}

type parser struct {
	dec  *json.Decoder
	data []byte
	read int64 // how far lines are counted
	line int
}

func (p *parser) token() (json.Token, error) {
	token, err := p.dec.Token()
	end := p.dec.InputOffset()
	p.line += bytes.Count(p.data[p.read:end], []byte("\n"))
	p.read = end
	return token, err
}

func (p *parser) value() (*value, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	v := &value{line: p.line}
	switch t := token.(type) {
	case json.Delim:
		v.kind = kindList
		if t == '{' {
			v.kind = kindObject
		}
		return v, p.fill(v)
	case string:
		v.kind, v.text = kindText, t
	case json.Number:
		v.kind, v.text = kindNumber, t.String()
	case bool:
		v.kind, v.text = kindBool, "false"
		if t {
			v.text = "true"
		}
	}
	return v, nil
}

// fill reads the children of an object or a list.
func (p *parser) fill(v *value) error {
	for p.dec.More() {
		var key string
		line := 0
		if v.kind == kindObject {
			token, err := p.token()
			if err != nil {
				return err
			}
			key, _ = token.(string)
			line = p.line
		}
		child, err := p.value()
		if err != nil {
			return err
		}
		child.keyLine = line
		v.keys, v.values = append(v.keys, key), append(v.values, child)
	}
	_, err := p.token()
	return err
}
