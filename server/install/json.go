package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
)

// jsonFormat is an object of servers by name, below a path of names. Comments and
// trailing commas are kept, where a client takes them.
type jsonFormat struct {
	path []string
	kind string // of the server, where the client wants to know
	// trusts says that the client keeps an approval beside the server, as "trust".
	trusts bool
}

// entry is a server as the file has it, its keys in order.
type entry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Trust   bool     `json:"trust,omitempty"`
}

func (f jsonFormat) entry(s Server) entry {
	return entry{Type: f.kind, Command: s.Command, Args: append([]string{}, s.Args...), Trust: f.trusts && s.Approved}
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

// nest puts a value below names.
func nest(path []string, value any) any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value
}

func (f jsonFormat) snippet(s Server) string {
	return encode(nest(f.path, map[string]any{s.Name: f.entry(s)}), "", "  ") + "\n"
}

func (f jsonFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	path := append(slices.Clone(f.path), s.Name)
	return editJSON(old, func(d *document) ([]byte, error) {
		was, err := d.at(path)
		switch {
		case err != nil:
			return nil, err
		case was == nil:
			return d.put(path, f.entry(s))
		case f.holds(d.plain[was.from:was.to], s):
			return nil, nil
		case !force:
			return nil, ErrOther
		}
		value := encode(f.entry(s), d.style.lineIndent(was.at), d.style.unit)
		return splice(d.text, was.from, was.to, d.style.lines(value)), nil
	}, func(meaning map[string]any) { setIn(meaning, path, f.entry(s)) })
}

func (f jsonFormat) remove(old []byte, name string) ([]byte, error) {
	path := append(slices.Clone(f.path), name)
	return editJSON(old, func(d *document) ([]byte, error) {
		was, err := d.at(path)
		if err != nil || was == nil {
			return nil, err
		}
		return d.remove(path)
	}, func(meaning map[string]any) { dropIn(meaning, path) })
}

func (f jsonFormat) servers(text []byte) (map[string]Server, error) {
	found := map[string]Server{}
	if len(bytes.TrimSpace(text)) == 0 {
		return found, nil
	}
	d, err := newDocument(text)
	if err != nil {
		return nil, err
	}
	o, missing, err := d.walk(f.path)
	if err != nil || len(missing) > 0 {
		return found, err
	}
	for _, m := range o.members {
		var e entry
		if json.Unmarshal(d.plain[m.from:m.to], &e) == nil {
			found[m.key] = Server{Name: m.key, Command: e.Command, Args: e.Args}
		}
	}
	return found, nil
}

func (f jsonFormat) everywhere(text []byte) ([]format, error) {
	places := []format{f}
	if len(f.path) == 1 || len(bytes.TrimSpace(text)) == 0 {
		return places, nil
	}
	d, err := newDocument(text)
	if err != nil {
		return nil, err
	}
	o, missing, err := d.walk(f.path[:1])
	if err != nil || len(missing) > 0 {
		return places, err
	}
	for _, m := range o.members {
		if m.key == f.path[1] || m.value == nil || m.value.list {
			continue
		}
		if servers, err := m.value.find(f.path[2]); err != nil || servers == nil || servers.value == nil || servers.value.list {
			continue // it holds none that a client reads
		}
		other := f
		other.path = slices.Concat(f.path[:1], []string{m.key}, f.path[2:])
		places = append(places, other)
	}
	return places, nil
}

// holds reports whether an entry starts the same server. What it says beside that,
// its environment say, is its user's.
func (f jsonFormat) holds(plain []byte, s Server) bool {
	var e entry
	if json.Unmarshal(plain, &e) != nil {
		return false
	}
	usual := f.kind
	if usual == "" {
		usual = "stdio"
	}
	return (e.Type == "" || e.Type == usual) && e.Command == s.Command && slices.Equal(e.Args, s.Args) &&
		(!f.trusts || e.Trust == s.Approved)
}

// jsonList is a list of words below a path of names. What is added to it are
// neighbours, by which it is found again.
type jsonList struct {
	path  []string
	words []string
}

func (f jsonList) snippet() string { return encode(nest(f.path, f.words), "", "  ") + "\n" }

func (f jsonList) put(old []byte) ([]byte, error) {
	return editJSON(old, func(d *document) ([]byte, error) {
		was, err := d.at(f.path)
		switch {
		case err != nil:
			return nil, err
		case was == nil:
			return d.put(f.path, f.words)
		case was.value == nil || !was.value.list:
			return nil, errors.New(f.path[len(f.path)-1] + " is no list")
		case f.find(d.plain, was.value) >= 0:
			return nil, nil
		}
		text := d.text
		for i, word := range f.words {
			if i > 0 {
				if d, err = newDocument(text); err != nil {
					return nil, err
				}
				was, _ = d.at(f.path) // it was there
			}
			text = d.style.insert(was.value, len(f.path), "", word)
		}
		return text, nil
	}, func(meaning map[string]any) {
		words, _ := in(meaning, f.path).([]any)
		for _, word := range f.words {
			words = append(words, word)
		}
		setIn(meaning, f.path, words)
	})
}

func (f jsonList) drop(old []byte) ([]byte, error) {
	at := -1
	return editJSON(old, func(d *document) ([]byte, error) {
		was, err := d.at(f.path)
		if err != nil || was == nil || was.value == nil || !was.value.list {
			return nil, err
		}
		if at = f.find(d.plain, was.value); at < 0 {
			return nil, nil
		}
		if len(was.value.members) == len(f.words) {
			return d.remove(f.path)
		}
		text := d.text
		for range f.words {
			if d, err = newDocument(text); err != nil {
				return nil, err
			}
			was, _ = d.at(f.path) // it was there
			text = d.style.remove(d.plain, was.value, at)
		}
		return text, nil
	}, func(meaning map[string]any) {
		words, _ := in(meaning, f.path).([]any)
		if words = slices.Delete(words, at, at+len(f.words)); len(words) == 0 {
			dropIn(meaning, f.path)
			return
		}
		setIn(meaning, f.path, words)
	})
}

// find returns where the words stand side by side, -1 where they do not.
func (f jsonList) find(plain []byte, list *object) int {
	for i := 0; i+len(f.words) <= len(list.members); i++ {
		same := true
		for k, word := range f.words {
			m, text := list.members[i+k], ""
			same = same && json.Unmarshal(plain[m.from:m.to], &text) == nil && text == word
		}
		if same {
			return i
		}
	}
	return -1
}

// document is a text of JSON with comments, and what is where in it.
type document struct {
	text  []byte
	plain []byte // without comments, as long as text
	root  *object
	style style
}

func newDocument(text []byte) (*document, error) {
	text, _ = bytes.CutPrefix(text, bom)
	root, plain, err := scan(text)
	if err != nil {
		return nil, err
	}
	return &document{text: text, plain: plain, root: root, style: styleOf(text, root)}, nil
}

// walk follows names as far as they are there: to an object, and what is missing
// below it.
func (d *document) walk(path []string) (o *object, missing []string, err error) {
	o = d.root
	for i, key := range path {
		m, err := o.find(key)
		switch {
		case err != nil:
			return nil, nil, errors.New(key + " is there twice")
		case m == nil:
			return o, path[i:], nil
		case m.value == nil || m.value.list:
			return nil, nil, errors.New(key + " is no object")
		}
		o = m.value
	}
	return o, nil, nil
}

// at returns the member at a path, nil where there is none.
func (d *document) at(path []string) (*member, error) {
	last := len(path) - 1
	o, missing, err := d.walk(path[:last])
	if err != nil || len(missing) > 0 {
		return nil, err
	}
	m, err := o.find(path[last])
	if err != nil {
		err = errors.New(path[last] + " is there twice")
	}
	return m, err
}

// put adds a value at a path where nothing is.
func (d *document) put(path []string, value any) ([]byte, error) {
	last := len(path) - 1
	o, missing, err := d.walk(path[:last])
	if err != nil {
		return nil, err
	}
	missing = append(slices.Clone(missing), path[last])
	return d.style.insert(o, len(path)-len(missing), missing[0], nest(missing[1:], value)), nil
}

// remove takes away what is at a path, and the objects that are empty then.
func (d *document) remove(path []string) ([]byte, error) {
	for {
		o, _, err := d.walk(path[:len(path)-1])
		if err != nil {
			return nil, err
		}
		if len(o.members) == 1 && len(path) > 1 {
			path = path[:len(path)-1]
			continue
		}
		i := slices.IndexFunc(o.members, func(m member) bool { return m.key == path[len(path)-1] })
		return d.style.remove(d.plain, o, i), nil
	}
}

var bom = []byte("\xef\xbb\xbf")

// editJSON gives the text as change leaves it, and reads that again: it must mean
// what the text did, with what expect does to that. A change of nil is none.
func editJSON(old []byte, change func(*document) ([]byte, error), expect func(map[string]any)) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	d, err := newDocument(text)
	if err != nil {
		return nil, err
	}
	edited, err := change(d)
	if err != nil || edited == nil {
		return old, err
	}
	_, plain, err := scan(edited)
	if err != nil {
		return nil, err
	}
	var was, is map[string]any
	if err := errors.Join(decode(d.plain, &was), decode(plain, &is)); err != nil {
		return nil, err
	}
	expect(was)
	// What was put in is compared as it reads.
	if err := decode([]byte(encode(was, "", "")), &was); err != nil || !reflect.DeepEqual(was, is) {
		return nil, errWrong
	}
	if marked {
		edited = append(append([]byte(nil), bom...), edited...)
	}
	return edited, nil
}

// in returns what is at a path of a decoded object.
func in(doc map[string]any, path []string) any {
	for _, key := range path[:len(path)-1] {
		doc, _ = doc[key].(map[string]any)
	}
	return doc[path[len(path)-1]]
}

func setIn(doc map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		below, is := doc[key].(map[string]any)
		if !is {
			below = map[string]any{}
			doc[key] = below
		}
		doc = below
	}
	doc[path[len(path)-1]] = value
}

// dropIn removes what is at a path, and the objects that are empty then.
func dropIn(doc map[string]any, path []string) {
	if below, is := doc[path[0]].(map[string]any); is && len(path) > 1 {
		if dropIn(below, path[1:]); len(below) > 0 {
			return
		}
	}
	delete(doc, path[0])
}

var errWrong = errors.New("its servers are not written in a way that one can be changed without the others; --print says what to add by hand")

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
