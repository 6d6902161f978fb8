package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlFormat is a table [mcp_servers.NAME] for each server. It is edited by lines,
// so that comments and order stay.
type tomlFormat struct{}

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

// tomlString is a basic string: JSON's are the same where no control character is
// in them ([Server.Check]).
func tomlString(text string) string { return encode(text, "", "") }

func (f tomlFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	return editTOML(old, func(text []byte, before map[string]any) ([]byte, error) {
		snippet := f.snippet(s)
		switch got, there := serversIn(before)[s.Name]; {
		case there && startsSame(got, s) && (!force || f.isExactly(got, s)):
			return nil, nil
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

// editTOML gives the text as change leaves it. A change of nil is none.
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
		return nil, fmt.Errorf("line %d: it is not TOML: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return doc, err
}

func serversIn(doc map[string]any) map[string]any {
	servers, _ := doc[serversKey].(map[string]any)
	return servers
}

// startsSame says whether a table starts the same server. What it says beside
// that is its user's.
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

// isExactly says whether a table is the server's, and says nothing beside.
func (f tomlFormat) isExactly(got any, s Server) bool {
	own, err := parseTOML([]byte(f.snippet(s)))
	return err == nil && reflect.DeepEqual(got, serversIn(own)[s.Name])
}

// lineEndOf is how lines of a file end.
func lineEndOf(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// add puts the table behind everything else.
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

// header is the line that begins a table.
var header = regexp.MustCompile(`^[ \t]*\[`)

// headerOf matches the beginning of the line that begins a server's table, or one
// below it.
func headerOf(name string) string {
	return `^[ \t]*\[[ \t]*` + serversKey + `[ \t]*\.[ \t]*["']?` + regexp.QuoteMeta(name) + `["']?[ \t]*`
}

// replace puts a text into the place of the table of a server, and of those below
// it: an environment that was another server's is none of this one's. A line that
// only looks like a header, in a string say, does not pass the check.
func (f tomlFormat) replace(before map[string]any, text []byte, name, snippet string) ([]byte, error) {
	own := regexp.MustCompile(headerOf(name) + `\][ \t]*(#.*)?\r?\n?$`)
	below := regexp.MustCompile(headerOf(name) + `\.`)
	lines, end := bytes.SplitAfter(text, []byte("\n")), lineEndOf(text)
	err := errors.New("the server of this name is not a table of its own")
	for i, line := range lines {
		if !own.Match(line) {
			continue
		}
		edited := append([]byte{}, bytes.Join(lines[:i], nil)...)
		edited = append(edited, strings.ReplaceAll(snippet, "\n", end)...)
		for at := tableEnd(lines, i); at < len(lines); {
			if below.Match(lines[at]) {
				at = tableEnd(lines, at)
				continue
			}
			edited = append(edited, lines[at]...)
			at++
		}
		if snippet == "" && len(bytes.TrimSpace(bytes.Join(lines[tableEnd(lines, i):], nil))) == 0 {
			edited = bytes.TrimRight(edited, " \t\r\n") // it was the last
			if len(edited) > 0 {
				edited = append(edited, end...)
			}
		}
		if err = f.check(before, edited, name, snippet); err == nil {
			return edited, nil
		}
	}
	return nil, err
}

// tableEnd is the first line behind the table that begins at a line.
func tableEnd(lines [][]byte, from int) int {
	to := from + 1
	for to < len(lines) && !header.Match(lines[to]) {
		to++
	}
	for to > from+1 && isAside(lines[to-1]) {
		to--
	}
	return to
}

// isAside says that a line says nothing to a program.
func isAside(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// check reads the result again: it must be what was there, and what the snippet
// says of the server.
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

// without is a file's meaning but for one server.
func without(doc map[string]any, name string) map[string]any {
	doc = maps.Clone(doc)
	servers, is := doc[serversKey].(map[string]any)
	if doc[serversKey] != nil && !is {
		return doc
	}
	rest := map[string]any{}
	maps.Copy(rest, servers)
	delete(rest, name)
	doc[serversKey] = rest
	return doc
}

// tomlLines are settings of a file, each in a line of its own that a comment marks.
type tomlLines []tomlLine

// tomlLine is a setting: of the file, or of a table.
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
			switch is := in(before, path); {
			case reflect.DeepEqual(is, value):
				continue
			case is != nil:
				return nil, fmt.Errorf("%s is set to another value than %s", strings.Join(path, "."), l.value)
			}
			if edited == nil {
				edited = text
			}
			line, at := strings.Join(path, ".")+" = "+l.value+tomlMark+end, 0
			if own := regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*` + l.table + `[ \t]*\][ \t]*(#.*)?\r?\n`).FindIndex(edited); l.table != "" && own != nil {
				line, at = l.key+" = "+l.value+tomlMark+end, own[1]
			}
			edited = splice(edited, at, at, line)
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
