package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
)

var updateDocs = flag.Bool("update", false, "write docs/mcp.md anew")

// TestDocs keeps the manual of the tools as it follows from the table.
func TestDocs(t *testing.T) {
	var b bytes.Buffer
	writeManual(&b, table.All())
	file := filepath.Join("..", "..", "docs", "mcp.md")
	if *updateDocs {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the tools are others than in docs/mcp.md (go test ./server/mcp -run TestDocs -update writes it anew):\n%s", diff)
	}
}

const manualHead = `# The tools of the MCP server

<!-- Generated: go test ./server/mcp -run TestDocs -update -->

~~~sh
paddock mcp --profile full       # every tool below that needs no privilege
~~~

To connect a client, see [For agents](agents.md). ^paddock mcp^ speaks the Model Context Protocol,
revisions 2024-11-05 to 2025-11-25, over standard input and output, or over HTTP with ^--http ADDR^.
^--profile^ chooses the tools. A tool that needs a privilege is listed only for principals that
hold it; models of the user who starts the server are ^model:NAME^, see
[Host tools](host-tools.md#for-models).

Models see less than this page: shorter descriptions, only the everyday fields of the tools in the
profile ^workspace^, and no field whose value the operator has fixed. They may still use every field
listed here, within what the operator allows. Fields that name a file of the host for Paddock to
read (^spec_file^, ^policy^, ^config^) are refused. An unknown field is an error that names the
nearest known one and lists them all. A field that is null is absent. Arguments, values of variables
and paths need not be UTF-8: a byte that is no part of a character is the escape ^\udc80^ to ^\udcff^ in
a call, and U+FFFD in an answer.

A tool answers with text. With ^--structured^ it also has an output schema, and returns the fields
under *Answer* as structured content; text and fields then share the budget equally. The host tools
(^cgroup_…^, ^linux_…^) always answer with the JSON object ^{"success": …}^, and shorten only the
part that was read or printed.

Workspace files and command output are also resources: ^paddock://default/workspace/PATH^ and
^paddock://default/output/ID^. Characters that are invisible, or that a terminal would interpret,
are shown by number, as in [^file_read^](#file_read). To get the exact bytes of a file, use
^file_read^ with ^encoding^ set to ^base64^.

Tools marked *in a sandbox* have an optional field ^sandbox^, the name of a sandbox. The default is
the one over the workspace. ● marks a required input field, and an answer field that is always
present. Answer fields without a type are strings; durations are written 1h30m. ^a.b^ is a field of
the object ^a^. At the end are [the fields of a sandbox](#fields-of-a-sandbox),
[notes](#notes-on-several-tools) and [shared objects](#shared-objects). The JSON schemas of a tool
are in [op/testdata/schema](../op/testdata/schema), in a file of its name.

`

// writeManual writes the manual of the tools among ops.
func writeManual(w io.Writer, ops []op.Op) {
	ops = slices.DeleteFunc(ops, func(o op.Op) bool { return o.Local })
	fmt.Fprint(w, strings.NewReplacer("~", "`", "^", "`").Replace(manualHead), "| Profile | Tools |\n|---|---|\n")
	for _, p := range op.Profiles() {
		var names []string
		for _, o := range ops {
			if p.Offers(o.Profile) && (p != op.ProfileFull || o.Profile == op.ProfileFull) {
				names = append(names, "[`"+o.Name+"`](#"+o.Name+")")
			}
		}
		more := ""
		if p == op.ProfileFull {
			more = "those of the others, and "
		}
		fmt.Fprintf(w, "| `%s` | %s%s |\n", p, more, strings.Join(names, ", "))
	}
	words := newWording(ops, &op.Env{}, Options{Profile: op.ProfileFull, Structured: true})
	m := newManual(words, ops)
	for i := range ops {
		m.writeTool(w, &ops[i])
	}
	m.writeShared(w)
}

// manual collects what the sections of the tools share.
type manual struct {
	words *wording
	// sandbox has the rows of the fields that describe a sandbox: those of plan.
	sandbox []string
	// notes maps each paragraph of the descriptions, but the first, to its tools.
	notes   map[string][]string
	objects map[string]*object // by the rows of their fields
	order   []*object
	inputs  []tool // written so far
	answers []tool // written so far
}

// tool is a tool's name with the rows of its input or answer.
type tool struct {
	name string
	rows []string
}

// object is one that occurs in answers.
type object struct {
	name   string
	of     shape
	fields int
	uses   int
}

// shared reports whether the object has a section of its own: it has at least six
// fields, and occurs more than once.
func (o *object) shared() bool { return o.uses > 1 && o.fields >= 6 }

func newManual(words *wording, ops []op.Op) *manual {
	m := &manual{words: words, notes: map[string][]string{}, objects: map[string]*object{}}
	for i := range ops {
		if ops[i].Description == "" {
			for _, paragraph := range words.paragraphs(&ops[i])[1:] {
				m.notes[paragraph] = append(m.notes[paragraph], "`"+ops[i].Name+"`")
			}
		}
		if ops[i].Name == "plan" {
			m.sandbox = m.input(&ops[i]).rows("", nil)
		}
		m.count(m.answer(&ops[i]))
	}
	return m
}

func (m *manual) input(o *op.Op) shape  { return parsed(worded(m.words, o, o.InputSchema())) }
func (m *manual) answer(o *op.Op) shape { return parsed(worded(m.words, o, o.OutputSchema())) }

func parsed(schema json.RawMessage) shape {
	var s shape
	if err := json.Unmarshal(schema, &s); err != nil {
		panic(err) // the table makes it
	}
	return s
}

// noted reports whether a paragraph is printed once, in the notes, instead of in
// each tool.
func (m *manual) noted(paragraph string) bool { return len(m.notes[paragraph]) >= 5 }

// count counts the objects below s.
func (m *manual) count(s shape) {
	for _, p := range s.Properties {
		of := p.of.object()
		if of == nil {
			continue
		}
		key := strings.Join(of.rows("", nil), "")
		if m.objects[key] == nil {
			m.objects[key] = &object{name: p.name, of: *of, fields: strings.Count(key, "\n")}
			m.order = append(m.order, m.objects[key])
		}
		m.objects[key].uses++
		if m.objects[key].uses == 1 {
			m.count(*of)
		}
	}
}

// writeShared writes the sections at the end.
func (m *manual) writeShared(w io.Writer) {
	fmt.Fprint(w, "\n## Fields of a sandbox\n\n"+
		"Tools that make a sandbox have these fields. The flags of `paddock run` have the same meanings.\n")
	fmt.Fprintf(w, "\n| Field | | Type | Meaning |\n|---|---|---|---|\n%s", strings.Join(m.sandbox, ""))
	fmt.Fprint(w, "\n## Notes on several tools\n")
	for _, note := range slices.Sorted(maps.Keys(m.notes)) {
		if m.noted(note) {
			fmt.Fprintf(w, "\n%s\n", wrap(strings.Join(m.notes[note], ", ")+": "+markdown(note)))
		}
	}
	fmt.Fprint(w, "\n## Shared objects\n")
	for _, o := range m.order {
		if o.shared() {
			fmt.Fprintf(w, "\n### %s\n\n%s\n", o.name, wrap(m.fields(o.of)))
		}
	}
}

// fields returns the fields of an object in one line, each with its type.
func (m *manual) fields(s shape) string {
	var all []string
	for _, p := range s.Properties {
		text := "`" + p.name + "`"
		if slices.Contains(s.Required, p.name) {
			text += "●"
		}
		if kind := strings.ReplaceAll(p.of.kind(), ",", ""); kind != "string" {
			text += " " + kind
		}
		if of := p.of.object(); of != nil {
			if o := m.objects[strings.Join(of.rows("", nil), "")]; o.shared() {
				text += " ([" + o.name + "](#" + o.name + "))"
			} else if inside := m.fields(*of); inside != "" {
				text += " (" + inside + ")"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// wrap breaks a text into lines of at most 100 characters.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > 100:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// writeTool writes the chapter of one tool.
func (m *manual) writeTool(w io.Writer, o *op.Op) {
	told := o.Description // a contract's
	if told == "" {
		told = strings.Join(slices.DeleteFunc(m.words.paragraphs(o), m.noted), "\n\n")
	}
	rows := m.input(o).rows("", nil)
	traits := manualTraits(o)
	none := "Input: no fields. "
	if one := slices.IndexFunc(rows, isSandbox); one >= 0 {
		rows = slices.Delete(rows, one, one+1)
		traits = append(traits, "*in a sandbox*")
		none = "Input: no other fields. "
	}
	fmt.Fprintf(w, "\n## %s\n\n**%s.** %s\n\n", o.Name, o.Summary, strings.Join(traits, " · "))
	fmt.Fprint(w, strings.TrimSpace(manualProse(told)), "\n")
	answer := "Answer: " + m.like(o) + "."
	if len(rows) == 0 {
		answer = none + answer
	}
	m.writeInput(w, o.Name, rows)
	fmt.Fprintf(w, "\n%s\n", wrap(answer))
}

// like returns the fields of a tool's answer. If an answer above has six or more of
// them, they are a link to it.
func (m *manual) like(o *op.Op) string {
	answer := m.answer(o)
	rows := answer.rows("", nil)
	defer func() { m.answers = append(m.answers, tool{o.Name, rows}) }()
	for _, above := range m.answers {
		if len(above.rows) < 6 || !containsAll(rows, above.rows) {
			continue
		}
		answer.Properties = slices.DeleteFunc(answer.Properties, func(p property) bool {
			return slices.Contains(above.rows, p.row("", answer.Required))
		})
		link := "as [`" + above.name + "`](#" + above.name + ")"
		if len(answer.Properties) == 0 {
			return link
		}
		return link + ", and " + m.fields(answer)
	}
	return cmp.Or(m.fields(answer), "no fields")
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// isSandbox reports whether a row is the field sandbox.
func isSandbox(row string) bool { return strings.HasPrefix(row, "| `sandbox` |  | string") }

// writeInput writes the table of a tool's fields. Those that describe a sandbox are
// one row, and so are four or more that a tool above has in common with it.
func (m *manual) writeInput(w io.Writer, name string, rows []string) {
	if containsAll(rows, m.sandbox) {
		rows = slices.DeleteFunc(rows, func(row string) bool { return slices.Contains(m.sandbox, row) })
		rows = append([]string{"| [fields of a sandbox](#fields-of-a-sandbox) | | | |\n"}, rows...)
	}
	if len(rows) == 0 {
		return
	}
	own := slices.Clone(rows)
	for _, above := range m.inputs {
		same := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return !slices.Contains(above.rows, row) })
		if len(same) >= 4 {
			rows = slices.DeleteFunc(rows, func(row string) bool { return slices.Contains(same, row) })
			for i, row := range same {
				same[i] = strings.Split(row, " ")[1]
			}
			rows = append(rows, fmt.Sprintf("| %s |  |  | as for [%#q](#%s) |\n", strings.Join(same, ", "), above.name, above.name))
			break
		}
	}
	m.inputs = append(m.inputs, tool{name, own})
	fmt.Fprintf(w, "\n| Input | | Type | Meaning |\n|---|---|---|---|\n%s", strings.Join(rows, ""))
}

// worded is a schema in the words that clients are told, its fields still in their order.
func worded(words *wording, o *op.Op, schema json.RawMessage) json.RawMessage {
	if o.Description != "" {
		return schema
	}
	return json.RawMessage(words.text(o, string(schema)))
}

// manualTraits are what clients are told of a tool by its annotations, and who gets it.
func manualTraits(o *op.Op) []string {
	all := []string{"profile `" + o.Profile.String() + "`"}
	for _, one := range []struct {
		is   bool
		says string
	}{
		{o.Hints.ReadOnly, "read-only"}, {o.Hints.Destructive, "destructive"}, {o.Hints.Idempotent, "idempotent"},
		{o.Hints.OpenWorld, "open world"}, {o.Hints.LongRunning, "long-running"},
	} {
		if one.is {
			all = append(all, one.says)
		}
	}
	if len(o.CLI) > 0 {
		all = append(all, "`paddock "+strings.Join(o.CLI, " ")+"`")
	}
	for _, need := range o.Needs.Names() {
		all = append(all, "needs `"+need+"`")
	}
	return all
}

// manualProse is plain text as Markdown, in which indented lines are code.
func manualProse(text string) string {
	var b strings.Builder
	var prose, code string
	end := func() {
		if prose != "" {
			b.WriteString(wrap(markdown(prose)) + "\n\n")
		}
		if code != "" {
			b.WriteString("```text\n" + strings.TrimRight(code, "\n") + "\n```\n\n")
		}
		prose, code = "", ""
	}
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		switch {
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			if prose != "" {
				end()
			}
			code += line
		case strings.TrimSpace(line) == "" && code != "":
			code += "\n"
		case strings.TrimSpace(line) == "":
			end()
		default:
			if code != "" {
				end()
			}
			prose += line
		}
	}
	end()
	return b.String()
}

// markdown takes their meaning from what Markdown would make something of.
func markdown(line string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "|", `\|`).Replace(line)
}

// shape is a schema as the manual tells it; its properties keep their order.
type shape struct {
	Type            any
	Description     string
	Properties      shapes
	Required        []string
	Items           *shape
	Additional      json.RawMessage `json:"additionalProperties"`
	Enum            []any
	Pattern         string
	Format          string
	ContentEncoding string
	Minimum         *json.Number
	Maximum         *json.Number
	MinLength       *json.Number
	MaxLength       *json.Number
	MinItems        *json.Number
	MaxItems        *json.Number
}

type shapes []property

type property struct {
	name string
	of   shape
}

func (s *shapes) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var of shape
		if err := d.Decode(&of); err != nil {
			return err
		}
		*s = append(*s, property{name.(string), of})
	}
	return nil
}

// object returns the schema of an object, also of those in a list or a map, and nil
// for other types.
func (s shape) object() *shape {
	switch of := s.values(); {
	case s.Items != nil:
		return s.Items.object()
	case of != nil:
		return of.object()
	case len(s.Properties) > 0:
		return &s
	}
	return nil
}

// rows are the rows of all fields below s, whose own path is prefix.
func (s shape) rows(prefix string, rows []string) []string {
	for _, p := range s.Properties {
		rows = append(rows, p.row(prefix, s.Required))
		rows = p.of.inner(prefix+p.name, rows)
	}
	return rows
}

func (p property) row(prefix string, required []string) string {
	mark := ""
	if slices.Contains(required, p.name) {
		mark = "●"
	}
	return fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", prefix, p.name, mark, p.of.kind(), markdown(strings.ReplaceAll(p.of.Description, "\n", " ")))
}

// inner adds what is below a field: the object itself, or each of several.
func (s shape) inner(path string, rows []string) []string {
	switch of := s.values(); {
	case s.Items != nil:
		return s.Items.inner(path+"[]", rows)
	case of != nil:
		return of.inner(path+".*", rows)
	}
	return s.rows(path+".", rows)
}

// values is the schema of the values of an object with any keys, nil for others.
func (s shape) values() *shape {
	of := new(shape)
	if len(s.Additional) == 0 || json.Unmarshal(s.Additional, of) != nil {
		return nil
	}
	return of
}

// kind is the type of a field in a few words, with its bounds.
func (s shape) kind() string {
	var words []string
	switch {
	case len(s.Enum) > 0:
		for _, one := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", one))
		}
		return strings.Join(words, ", ")
	case s.Items != nil:
		words = append(words, "list of "+s.Items.kind())
	case s.ContentEncoding != "":
		words = append(words, s.ContentEncoding)
	case s.Format != "":
		words = append(words, s.Format)
	default:
		words = append(words, typeNames(s.Type))
	}
	for _, b := range []struct {
		low, high *json.Number
		unit      string
	}{
		{s.Minimum, s.Maximum, ""}, {s.MinLength, s.MaxLength, " characters"}, {s.MinItems, s.MaxItems, " elements"},
	} {
		switch {
		case b.low != nil && b.high != nil:
			words = append(words, fmt.Sprintf("%s to %s%s", boundText(*b.low), boundText(*b.high), b.unit))
		case b.low != nil && (b.unit != "" || *b.low != "0"):
			words = append(words, fmt.Sprintf("from %s%s", boundText(*b.low), b.unit))
		case b.high != nil:
			words = append(words, fmt.Sprintf("to %s%s", boundText(*b.high), b.unit))
		}
	}
	return strings.Join(words, ", ")
}

// boundText is a bound as people read it.
func boundText(n json.Number) string {
	i, err := n.Int64()
	if err != nil || i < 10_000 {
		return n.String()
	}
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
		if i%unit.size == 0 {
			return strconv.FormatInt(i/unit.size, 10) + " " + unit.name
		}
	}
	return n.String()
}

// typeNames are the names of a schema's types; null only says that a list is empty.
func typeNames(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, one := range t {
			if one != "null" {
				names = append(names, fmt.Sprint(one))
			}
		}
		return strings.Join(names, " or ")
	}
	return "anything"
}
