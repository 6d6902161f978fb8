package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/paddock-dev/paddock/internal/strictjson"
)

// jsonFormat is an object of servers by name, below a path of keys. Edits preserve comments and
// trailing commas, which some clients allow.
type jsonFormat struct {
	path []string
	kind string // the value of "type", for clients that want one
	// trusts says that the client keeps an approval beside the server, as "trust".
	trusts bool
	// foreign says that the file is a project's, which may have come with its entries.
	foreign bool
}

// entry is a server in the file, its keys in the order that they are written in.
type entry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Trust   bool     `json:"trust,omitempty"`
}

func (f jsonFormat) entry(s Server) entry {
	return entry{Type: f.kind, Command: s.Command, Args: append([]string{}, s.Args...), Trust: f.trusts && s.Approved}
}

func (f jsonFormat) snippet(s Server) string {
	return encode(nest(f.path, map[string]any{s.Name: f.entry(s)}), "", "  ") + "\n"
}

func (f jsonFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	path := append(slices.Clone(f.path), s.Name)
	return editJSON(old, func(d *document) error {
		was, err := d.at(path)
		switch {
		case err != nil:
			return err
		case was == nil:
			return d.put(path, f.entry(s))
		case f.holds(*was, s):
			return nil
		case !force && f.foreign:
			return other(json.RawMessage(standard(*was)))
		case !force:
			return ErrOther
		}
		indent, _ := d.lineIndent(was.StartOffset)
		was.Value = d.value(f.entry(s), indent)
		return nil
	}, func(meaning map[string]any) { setIn(meaning, path, f.entry(s)) })
}

func (f jsonFormat) remove(old []byte, name string) ([]byte, error) {
	path := append(slices.Clone(f.path), name)
	return editJSON(old, func(d *document) error {
		was, err := d.at(path)
		if err != nil || was == nil {
			return err
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
	at, missing, err := d.walk(f.path)
	if err != nil || len(missing) > 0 {
		return found, err
	}
	for _, m := range at.Value.(*hujson.Object).Members {
		e, _ := entryOf(m.Value) // one that is not clear starts nothing of ours
		found[nameOf(m)] = Server{Name: nameOf(m), Command: e.Command, Args: e.Args}
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
	at, missing, err := d.walk(f.path[:1])
	if err != nil || len(missing) > 0 {
		return places, err
	}
	for _, m := range at.Value.(*hujson.Object).Members {
		other := f
		other.path = slices.Concat(f.path[:1], []string{nameOf(m)}, f.path[2:])
		if _, missing, err := d.walk(other.path); err != nil || len(missing) > 0 || nameOf(m) == f.path[1] {
			continue // no client reads servers there
		}
		places = append(places, other)
	}
	return places, nil
}

// entryOf reads an entry. It refuses one that programs could read in two ways.
func entryOf(v hujson.Value) (e entry, err error) {
	if err := strictjson.Unmarshal(standard(v), &e, strictjson.Options{Foreign: true}); err != nil {
		return entry{}, err
	}
	return e, nil
}

// holds reports whether an entry starts the same server. Its other members, such as an
// environment, belong to the user, whose file it is; in a project's file they make it
// another server, since they may have come with it and decide what its command is.
func (f jsonFormat) holds(v hujson.Value, s Server) bool {
	e, err := entryOf(v)
	object, ok := v.Value.(*hujson.Object)
	if err != nil || !ok { // null can be read as an entry
		return false
	}
	if f.foreign {
		for _, m := range object.Members {
			if !slices.Contains([]string{"type", "command", "args"}, nameOf(m)) {
				return false
			}
		}
	}
	usual := f.kind
	if usual == "" {
		usual = "stdio"
	}
	return (e.Type == "" || e.Type == usual) && e.Command == s.Command && slices.Equal(e.Args, s.Args) &&
		(!f.trusts || e.Trust == s.Approved)
}

// jsonList adds words to a list below a path of keys. The words are added side by side,
// which is how drop finds them again.
type jsonList struct {
	path  []string
	words []string
}

func (f jsonList) snippet() string { return encode(nest(f.path, f.words), "", "  ") + "\n" }

func (f jsonList) put(old []byte) ([]byte, error) {
	return editJSON(old, func(d *document) error {
		was, err := d.at(f.path)
		if err != nil {
			return err
		}
		if was == nil {
			return d.put(f.path, f.words)
		}
		list, is := was.Value.(*hujson.Array)
		if !is {
			return errors.New(f.path[len(f.path)-1] + " is not a list")
		}
		if f.find(list) < 0 {
			indent := d.childIndent(was)
			for _, word := range f.words {
				list.Elements = attach(d, was, indent, list.Elements, hujson.Value{Value: d.value(word, indent)}, &list.AfterExtra, elementEnds)
			}
		}
		return nil
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
	return editJSON(old, func(d *document) error {
		was, err := d.at(f.path)
		if err != nil || was == nil {
			return err
		}
		list, is := was.Value.(*hujson.Array)
		if !is {
			return nil
		}
		if at = f.find(list); at < 0 {
			return nil
		}
		if len(list.Elements) == len(f.words) {
			return d.remove(f.path)
		}
		for range f.words {
			list.Elements = detach(list.Elements, at, &list.AfterExtra, elementEnds)
		}
		return nil
	}, func(meaning map[string]any) {
		words, _ := in(meaning, f.path).([]any)
		if words = slices.Delete(words, at, at+len(f.words)); len(words) == 0 {
			dropIn(meaning, f.path)
			return
		}
		setIn(meaning, f.path, words)
	})
}

// find returns the index at which the words stand side by side, or -1.
func (f jsonList) find(list *hujson.Array) int {
	for i := 0; i+len(f.words) <= len(list.Elements); i++ {
		if slices.EqualFunc(f.words, list.Elements[i:i+len(f.words)], func(word string, v hujson.Value) bool {
			text, is := v.Value.(hujson.Literal)
			return is && text.Kind() == '"' && text.String() == word
		}) {
			return i
		}
	}
	return -1
}

// in returns the value at a path of a decoded object.
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

// dropIn removes the value at a path, and the objects that are then empty.
func dropIn(doc map[string]any, path []string) {
	if below, is := doc[path[0]].(map[string]any); is && len(path) > 1 {
		if dropIn(below, path[1:]); len(below) > 0 {
			return
		}
	}
	delete(doc, path[0])
}
