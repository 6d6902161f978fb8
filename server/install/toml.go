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
	return b.String()
}

// tomlString is a basic string: JSON's are the same where no control character is
// in them ([Server.Check]).
func tomlString(text string) string { return encode(text, "", "") }

func (f tomlFormat) edit(old []byte, s Server, force bool) ([]byte, error) {
	text, marked := bytes.CutPrefix(old, bom)
	before, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	var edited []byte
	switch got, there := serversIn(before)[s.Name]; {
	case there && startsSame(got, s) && (!force || f.isExactly(got, s)):
		return old, nil
	case there && !force:
		return nil, ErrOther
	case there:
		edited, err = f.replace(before, text, s)
	default:
		edited = f.add(text, s)
		err = f.check(before, edited, s)
	}
	if err != nil {
		return nil, err
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
func (f tomlFormat) add(text []byte, s Server) []byte {
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
	return append(out, strings.ReplaceAll(f.snippet(s), "\n", end)...)
}

// header is the line that begins a table.
var header = regexp.MustCompile(`^[ \t]*\[`)

// headerOf matches the beginning of the line that begins a server's table, or one
// below it.
func headerOf(name string) string {
	return `^[ \t]*\[[ \t]*` + serversKey + `[ \t]*\.[ \t]*["']?` + regexp.QuoteMeta(name) + `["']?[ \t]*`
}

// replace puts the table into the place of the one of its name, and of those below
// it: an environment that was another server's is none of this one's. A line that
// only looks like a header, in a string say, does not pass the check.
func (f tomlFormat) replace(before map[string]any, text []byte, s Server) ([]byte, error) {
	own := regexp.MustCompile(headerOf(s.Name) + `\][ \t]*(#.*)?\r?\n?$`)
	lines := bytes.SplitAfter(text, []byte("\n"))
	err := errors.New("the server of this name is not a table of its own")
	for i, line := range lines {
		if !own.Match(line) {
			continue
		}
		edited := f.replaceAt(lines, i, lineEndOf(text), s)
		if err = f.check(before, edited, s); err == nil {
			return edited, nil
		}
	}
	return nil, err
}

// replaceAt leaves what stands between the table that begins at a line and the next
// as it is.
func (f tomlFormat) replaceAt(lines [][]byte, from int, end string, s Server) []byte {
	out := bytes.Join(lines[:from], nil)
	out = append(out, strings.ReplaceAll(f.snippet(s), "\n", end)...)
	below := regexp.MustCompile(headerOf(s.Name) + `\.`)
	for at := tableEnd(lines, from); at < len(lines); {
		if below.Match(lines[at]) {
			at = tableEnd(lines, at)
			continue
		}
		out = append(out, lines[at]...)
		at++
	}
	return out
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

// check reads the result again: it must be what was there, and the server.
func (f tomlFormat) check(before map[string]any, edited []byte, s Server) error {
	after, err := parseTOML(edited)
	if err != nil || !f.isExactly(serversIn(after)[s.Name], s) {
		return errWrong
	}
	if !reflect.DeepEqual(without(before, s.Name), without(after, s.Name)) {
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
