package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// tomlFormat edits files that have a table [mcp_servers.NAME] for each server. Tables are
// inserted and removed as text, which preserves comments and order.
type tomlFormat struct {
	// foreign says that the file is a project's, which may have come with its tables.
	foreign bool
}

const serversKey = "mcp_servers"

func (tomlFormat) snippet(s Server) string {
	var b strings.Builder
	b.WriteString("[" + serversKey + "." + s.Name + "]\ncommand = " + tomlString(s.Command) + "\nargs = [")
	for i, arg := range s.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(tomlString(arg))
	}
	b.WriteString("]\n")
	if s.Approved {
		b.WriteString("default_tools_approval_mode = \"approve\"\n")
	}
	return b.String()
}

// tomlString formats a basic string. The syntax is that of JSON except for control
// characters, which [Server.Check] rejects.
func tomlString(text string) string { return encode(text, "", "") }

func (f tomlFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	return editTOML(old, func(text []byte, before map[string]any) ([]byte, error) {
		snippet := f.snippet(s)
		if err := errors.Join(variants(before, serversKey), variants(serversIn(before), s.Name)); err != nil {
			return nil, err
		}
		switch got, there := serversIn(before)[s.Name]; {
		case there && f.isExactly(got, s), there && !force && !f.foreign && startsSame(got, s):
			return nil, nil
		case there && !force && f.foreign:
			return nil, other(got)
		case there && !force:
			return nil, ErrOther
		case there:
			return f.replace(before, text, s.Name, snippet)
		}
		edited := f.add(text, snippet)
		return edited, f.check(before, edited, s.Name, snippet)
	})
}

func (f tomlFormat) remove(old []byte, name string) ([]byte, error) {
	return editTOML(old, func(text []byte, before map[string]any) ([]byte, error) {
		if _, there := serversIn(before)[name]; !there {
			return nil, nil
		}
		return f.replace(before, text, name, "")
	})
}

func (tomlFormat) servers(old []byte) (map[string]Server, error) {
	text, _ := bytes.CutPrefix(old, bom)
	doc, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	found := map[string]Server{}
	for name, table := range serversIn(doc) {
		table, _ := table.(map[string]any)
		s := Server{Name: name}
		s.Command, _ = table["command"].(string)
		args, _ := table["args"].([]any)
		for _, arg := range args {
			text, _ := arg.(string)
			s.Args = append(s.Args, text)
		}
		found[name] = s
	}
	return found, nil
}

func (f tomlFormat) everywhere([]byte) ([]format, error) { return []format{f}, nil }

// editTOML returns a file as edited by change, or unchanged if change returns nil.
func editTOML(old []byte, change func(text []byte, meaning map[string]any) ([]byte, error)) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	meaning, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	edited, err := change(text, meaning)
	if err != nil {
		return nil, err
	}
	if edited == nil {
		return old, nil
	}
	if marked {
		edited = append(append([]byte(nil), bom...), edited...)
	}
	return edited, nil
}

func parseTOML(text []byte) (map[string]any, error) {
	doc := map[string]any{}
	err := toml.Unmarshal(text, &doc)
	if wrong := (*toml.DecodeError)(nil); errors.As(err, &wrong) {
		line, _ := wrong.Position()
		return nil, fmt.Errorf("line %d: not valid TOML: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return doc, err
}

func serversIn(doc map[string]any) map[string]any {
	servers, _ := doc[serversKey].(map[string]any)
	return servers
}

// variants refuses names that differ from a key in case alone.
func variants(table map[string]any, key string) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if isVariant(name, key) {
			return errVariant(name, key)
		}
	}
	return nil
}

// startsSame reports whether a table starts the same server. Its other settings belong to
// the user, whose file it is; a project's file must hold the server exactly.
func startsSame(got any, s Server) bool {
	table, ok := got.(map[string]any)
	if !ok || table["command"] != s.Command {
		return false
	}
	args, _ := table["args"].([]any)
	if len(args) != len(s.Args) {
		return false
	}
	for i, arg := range args {
		if arg != s.Args[i] {
			return false
		}
	}
	return true
}

// isExactly reports whether a table holds the server and no other setting.
func (f tomlFormat) isExactly(got any, s Server) bool {
	own, err := parseTOML([]byte(f.snippet(s)))
	return err == nil && reflect.DeepEqual(got, serversIn(own)[s.Name])
}

// lineEndOf returns the line ending of a file.
func lineEndOf(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// add puts the table at the end.
func (tomlFormat) add(text []byte, snippet string) []byte {
	end := lineEndOf(text)
	out := append([]byte(nil), text...)
	if len(bytes.TrimSpace(text)) > 0 {
		if !bytes.HasSuffix(out, []byte("\n")) {
			out = append(out, end...)
		}
		if !bytes.HasSuffix(out, []byte("\n"+end)) {
			out = append(out, end...)
		}
	}
	return append(out, strings.ReplaceAll(snippet, "\n", end)...)
}

// tomlTable is the header of a table: its name, and the offset of its line.
type tomlTable struct {
	name []string
	from int
}

// tomlTables returns the tables of a valid TOML text.
func tomlTables(text []byte) []tomlTable {
	var tables []tomlTable
	p := unstable.Parser{}
	for p.Reset(text); p.NextExpression(); {
		if e := p.Expression(); e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			var t tomlTable
			for key := e.Key(); key.Next(); {
				t.name = append(t.name, string(key.Node().Data))
				t.from = bytes.LastIndexByte(text[:key.Node().Raw.Offset], '\n') + 1
			}
			tables = append(tables, t)
		}
	}
	return tables
}

// asideLines matches blank lines and comments at the end of a text.
var asideLines = lazyregexp.New(`(?m)^(?:[ \t]*(?:#.*)?\n)*[ \t\r]*(?:#.*)?\z`)

// replace replaces the table of a server with snippet. It also removes tables below that,
// because the environment of another server must not become this one's.
func (f tomlFormat) replace(before map[string]any, text []byte, name, snippet string) ([]byte, error) {
	server, tables, end := []string{serversKey, name}, tomlTables(text), lineEndOf(text)
	edited, found, kept := []byte{}, false, 0
	for i, t := range tables {
		if len(t.name) < 2 || !slices.Equal(t.name[:2], server) {
			continue
		}
		to := len(text)
		if i+1 < len(tables) {
			to = tables[i+1].from
		}
		// Comments and blank lines before the next table belong to that table.
		if aside := asideLines().FindIndex(text[t.from:to]); aside != nil {
			to = t.from + aside[0]
		}
		edited = append(edited, text[kept:t.from]...)
		if len(t.name) == 2 {
			found = true
			edited = append(edited, strings.ReplaceAll(snippet, "\n", end)...)
		}
		kept = to
	}
	if !found {
		return nil, errors.New("the server of this name has no table [" + serversKey + "." + name + "]")
	}
	edited = append(edited, text[kept:]...)
	if snippet == "" && len(bytes.TrimSpace(text[kept:])) == 0 {
		edited = bytes.TrimRight(edited, " \t\r\n")
		if len(edited) > 0 {
			edited = append(edited, end...)
		}
	}
	return edited, f.check(before, edited, name, snippet)
}

// check parses the result: the server must be as in the snippet, and all else must be
// unchanged.
func (tomlFormat) check(before map[string]any, edited []byte, name, snippet string) error {
	after, err := parseTOML(edited)
	want, wrong := parseTOML([]byte(snippet))
	if err != nil || wrong != nil || !reflect.DeepEqual(serversIn(after)[name], serversIn(want)[name]) {
		return errWrong
	}
	if !reflect.DeepEqual(without(before, name), without(after, name)) {
		return errWrong
	}
	return nil
}

// without returns a copy of a decoded file without one server.
func without(doc map[string]any, name string) map[string]any {
	doc = maps.Clone(doc)
	servers, ok := doc[serversKey].(map[string]any)
	if doc[serversKey] != nil && !ok {
		return doc
	}
	rest := map[string]any{}
	maps.Copy(rest, servers)
	delete(rest, name)
	doc[serversKey] = rest
	return doc
}

// tomlLines are settings. Each is added as a separate line with the comment tomlMark.
type tomlLines []tomlLine

// tomlLine is a setting of a table, or of the file if table is empty.
type tomlLine struct{ table, key, value string }

const tomlMark = " # by paddock mcp install"

func (f tomlLines) snippet() string {
	var b strings.Builder
	for _, l := range f {
		if l.table != "" {
			b.WriteString(l.table + ".")
		}
		b.WriteString(l.key + " = " + l.value + "\n")
	}
	return b.String()
}

func (f tomlLines) put(old []byte) ([]byte, error) {
	return editTOML(old, func(text []byte, before map[string]any) ([]byte, error) {
		end, edited := lineEndOf(text), []byte(nil)
		want, err := parseTOML([]byte(f.snippet()))
		if err != nil {
			return nil, err
		}
		for _, l := range f {
			path := []string{l.key}
			if l.table != "" {
				path = []string{l.table, l.key}
			}
			value := in(want, path)
			switch got := in(before, path); {
			case reflect.DeepEqual(got, value):
				continue
			case got != nil:
				return nil, fmt.Errorf("%s is already set to a value other than %s", strings.Join(path, "."), l.value)
			}
			if edited == nil {
				edited = text
			}
			line, at := strings.Join(path, ".")+" = "+l.value+tomlMark+end, 0
			for _, t := range tomlTables(edited) {
				if header := bytes.IndexByte(edited[t.from:], '\n'); len(path) == 2 && slices.Equal(t.name, path[:1]) && header >= 0 {
					line, at = l.key+" = "+l.value+tomlMark+end, t.from+header+1
				}
			}
			edited = slices.Concat(edited[:at], []byte(line), edited[at:])
			setIn(before, path, value)
		}
		if edited == nil {
			return nil, nil
		}
		if after, err := parseTOML(edited); err != nil || !reflect.DeepEqual(before, after) {
			return nil, errWrong
		}
		return edited, nil
	})
}

func (f tomlLines) drop(old []byte) ([]byte, error) {
	return editTOML(old, func(text []byte, before map[string]any) ([]byte, error) {
		edited, found := []byte{}, false
		for _, line := range bytes.SplitAfter(text, []byte("\n")) {
			own := false
			for _, l := range f {
				own = own || strings.HasSuffix(strings.TrimRight(string(line), "\r\n"), l.key+" = "+l.value+tomlMark)
			}
			if found = found || own; !own {
				edited = append(edited, line...)
			}
		}
		if !found {
			return nil, nil
		}
		_, err := parseTOML(edited)
		return edited, err
	})
}
