package install

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
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
	case there && startsSame(got, s):
		return old, nil
	case there && !force:
		return nil, ErrOther
	case there:
		edited, err = f.replace(text, s)
	default:
		edited = f.add(text, s)
	}
	if err != nil {
		return nil, err
	}
	if err := checkTOML(before, edited, s); err != nil {
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
	if wrong := (toml.ParseError{}); errors.As(err, &wrong) {
		return nil, errors.New("it is not TOML: " + strings.TrimPrefix(wrong.Error(), "toml: "))
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

// replace puts the table into the place of the one of its name. Tables below that,
// and what stands between it and the next, stay.
func (f tomlFormat) replace(text []byte, s Server) ([]byte, error) {
	own := regexp.MustCompile(`^[ \t]*\[[ \t]*` + serversKey + `[ \t]*\.[ \t]*["']?` + regexp.QuoteMeta(s.Name) + `["']?[ \t]*\][ \t]*(#.*)?\r?\n?$`)
	lines := bytes.SplitAfter(text, []byte("\n"))
	from := -1
	for i, line := range lines {
		if own.Match(line) {
			from = i
			break
		}
	}
	if from < 0 {
		return nil, errors.New("the server of this name is not a table of its own")
	}
	to := from + 1
	for to < len(lines) && !header.Match(lines[to]) {
		to++
	}
	for to > from+1 && isAside(lines[to-1]) {
		to--
	}
	var out []byte
	out = append(out, bytes.Join(lines[:from], nil)...)
	out = append(out, strings.ReplaceAll(f.snippet(s), "\n", lineEndOf(text))...)
	return append(out, bytes.Join(lines[to:], nil)...), nil
}

// isAside says that a line says nothing to a program.
func isAside(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// checkTOML reads the result again: it must be what was there, and the server.
func checkTOML(before map[string]any, edited []byte, s Server) error {
	after, err := parseTOML(edited)
	if err != nil || !startsSame(serversIn(after)[s.Name], s) {
		return errWrong
	}
	if serversIn(before) == nil {
		before[serversKey] = map[string]any{}
	}
	delete(serversIn(before), s.Name)
	delete(serversIn(after), s.Name)
	if !reflect.DeepEqual(before, after) {
		return errWrong
	}
	return nil
}
