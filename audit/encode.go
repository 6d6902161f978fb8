package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// encode writes a record as encoding/json would, field by field: that package
// first learns the type, which takes a process that writes two records longer
// than all the rest of writing them.
func (r *Record) encode() ([]byte, error) {
	e := encoder{b: append(make([]byte, 0, 512+len(r.Args)), `{"seq":`...)}
	e.b = strconv.AppendUint(e.b, r.Seq, 10)
	e.text("time", r.Time.Format(time.RFC3339Nano))
	e.text("prev", r.Prev)
	e.text("kind", r.Kind)
	e.number("call", int64(r.Call))
	if p := r.Process; p != nil {
		e.b = append(e.key("process"), `{"pid":`...)
		e.b = strconv.AppendInt(e.b, int64(p.PID), 10)
		e.b = append(e.b, `,"start":`...)
		e.b = strconv.AppendUint(e.b, p.Start, 10)
		e.b = append(e.b, `,"pid_namespace":`...)
		e.b = strconv.AppendUint(e.b, p.Namespace, 10)
		e.text("boot", p.Boot)
		e.b = append(e.b, '}')
	}
	if len(r.Lost) > 0 {
		e.value("lost", r.Lost)
	}
	e.optional("principal", r.Principal)
	e.optional("op", r.Op)
	e.optional("sandbox", r.Sandbox)
	if len(r.Args) > 0 {
		e.json("args", r.Args)
	}
	e.optional("outcome", r.Outcome)
	e.optional("error", r.Error)
	if r.Exit != nil {
		e.b = strconv.AppendInt(e.key("exit"), int64(*r.Exit), 10)
	}
	if len(r.Denials) > 0 {
		e.value("denials", r.Denials)
	}
	e.number("duration_us", r.DurationUS)
	for _, list := range []struct {
		key   string
		texts []string
	}{{"planted", r.Planted}, {"programs", r.Programs}, {"unseen", r.Unseen}} {
		if len(list.texts) > 0 {
			e.value(list.key, list.texts)
		}
	}
	if r.Repair != nil {
		e.value("repair", r.Repair)
	}
	if r.Prune != nil {
		e.value("prune", r.Prune)
	}
	if e.err != nil {
		return nil, e.err
	}
	r.Hash = sum(e.b)
	return append(e.b, hashKey+r.Hash+"\"}\n"...), nil
}

// encoder appends members to an object.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) key(name string) []byte {
	return append(append(append(e.b, `,"`...), name...), `":`...)
}

func (e *encoder) text(name, s string) { e.b = appendText(e.key(name), s) }

func (e *encoder) optional(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *encoder) number(name string, n int64) {
	if n != 0 {
		e.b = strconv.AppendInt(e.key(name), n, 10)
	}
}

func (e *encoder) value(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	e.b = append(e.key(name), text...)
}

// json takes JSON as it is, on one line.
func (e *encoder) json(name string, text []byte) {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		e.err = err
		return
	}
	e.b = append(e.key(name), b.Bytes()...)
}

// appendText writes a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}
