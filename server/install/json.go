package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// jsonFormat is an object of servers by name, below one key of the file. Comments
// and trailing commas are kept, where a client takes them.
type jsonFormat struct {
	top  string
	kind string // of the server, where the client wants to know
}

// entry is a server as the file has it, its keys in order.
type entry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func (f jsonFormat) entry(s Server) entry {
	return entry{Type: f.kind, Command: s.Command, Args: append([]string{}, s.Args...)}
}

// encode writes a value over several lines, the later ones behind indent; on one
// where unit is empty.
func encode(v any, indent, unit string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if unit != "" {
		enc.SetIndent(indent, unit)
	}
	_ = enc.Encode(v) // it holds strings alone
	return strings.TrimSuffix(b.String(), "\n")
}

func (f jsonFormat) snippet(s Server) string {
	return encode(map[string]any{f.top: map[string]any{s.Name: f.entry(s)}}, "", "  ") + "\n"
}

var bom = []byte("\xef\xbb\xbf")

func (f jsonFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte(f.snippet(s)), nil
	}
	root, plain, err := scan(text)
	if err != nil {
		return nil, err
	}
	edited, err := f.put(text, plain, root, s, force)
	if err != nil || edited == nil {
		return old, err
	}
	if err := f.check(plain, edited, s); err != nil {
		return nil, err
	}
	if marked {
		edited = append(append([]byte(nil), bom...), edited...)
	}
	return edited, nil
}

// put gives the text with the server in it, nil where it is there.
func (f jsonFormat) put(text, plain []byte, root *object, s Server, force bool) ([]byte, error) {
	st := styleOf(text, root)
	top, err := root.find(f.top)
	if err != nil {
		return nil, errors.New(f.top + " is there twice")
	}
	if top == nil {
		return st.insert(root, 0, f.top, map[string]any{s.Name: f.entry(s)}), nil
	}
	if top.value == nil {
		return nil, errors.New(f.top + " is no object")
	}
	old, err := top.value.find(s.Name)
	switch {
	case err != nil:
		return nil, errors.New(s.Name + " is there twice")
	case old == nil:
		return st.insert(top.value, 1, s.Name, f.entry(s)), nil
	case f.holds(plain[old.from:old.to], s):
		return nil, nil
	case !force:
		return nil, ErrOther
	}
	value := encode(f.entry(s), st.lineIndent(old.at), st.unit)
	return splice(text, old.from, old.to, st.lines(value)), nil
}

// holds says whether an entry starts the same server. What it says beside that,
// its environment say, is its user's.
func (f jsonFormat) holds(plain []byte, s Server) bool {
	var e entry
	if json.Unmarshal(plain, &e) != nil {
		return false
	}
	if e.Type == "" {
		e.Type = f.kind // it is the usual one
	}
	e.Args = append([]string{}, e.Args...)
	return reflect.DeepEqual(e, f.entry(s)) || f.kind == "" && e.Type == "stdio" && e.Command == s.Command && reflect.DeepEqual(e.Args, f.entry(s).Args)
}

// check reads the result again: it must be what was there, and the server.
func (f jsonFormat) check(before, after []byte, s Server) error {
	_, plain, err := scan(after)
	if err != nil {
		return err
	}
	var was, is map[string]any
	if err := errors.Join(decode(before, &was), decode(plain, &is)); err != nil {
		return err
	}
	servers, ok := is[f.top].(map[string]any)
	if !ok {
		return errWrong
	}
	var got entry
	if err := decode([]byte(encode(servers[s.Name], "", "")), &got); err != nil || !reflect.DeepEqual(got, f.entry(s)) {
		return errWrong
	}
	delete(servers, s.Name)
	old, _ := was[f.top].(map[string]any)
	delete(old, s.Name)
	if was[f.top] == nil {
		was[f.top] = map[string]any{}
	}
	if !reflect.DeepEqual(was, is) {
		return errWrong
	}
	return nil
}

var errWrong = errors.New("its servers are not written in a way that one can be added to without a change to others; --print says what to add by hand")

func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(into)
}

func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}
