package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the tools are others than in docs/mcp.md (go test ./server/mcp -run TestDocs -update writes it anew):\n%s", diff)
	}
}

const manualHead = `# The tools of Paddock's MCP server

<!-- Generated: go test ./server/mcp -run TestDocs -update -->

` + "`paddock mcp`" + ` speaks the Model Context Protocol, revisions 2024-11-05 to 2025-11-25, over standard input and output, and over HTTP with ` + "`--http ADDR`" + `.
Each tool below is one of Paddock's operations. ` + "`--profile`" + ` chooses the tools that a model is offered; a tool that needs a privilege is offered only to principals that hold it.

Models read less than this page: shorter descriptions, only the fields of daily work for the tools of the profile ` + "`workspace`" + `, and no field whose value the operator has fixed.
They may still use every field listed here, within what the operator allows. An unknown field is an error that names the nearest one and lists those there are.

A tool answers with text. With ` + "`--structured`" + ` it also has an output schema, and answers with the fields under *Answer* as structured content, half of the budget for each.
The host's tools (` + "`cgroup_…`, `linux_…`" + `) always answer with JSON, ` + "`{\"success\": …}`" + `, and cut only what was read or printed in it.

Files of the workspace, and what commands printed, are resources too: ` + "`" + `paddock://default/workspace/PATH` + "`" + ` and ` + "`" + `paddock://default/output/ID` + "`" + `.
For models, a character of their text that cannot be seen, or that a terminal would obey, is shown by its number, as [` + "`" + `file_read` + "`" + `](#file_read) does.
The bytes of any file are what ` + "`" + `file_read` + "`" + ` gives with ` + "`" + `encoding` + "`" + ` ` + "`" + `base64` + "`" + `.

● marks a required field. ` + "`a.b`" + ` is a field inside ` + "`a`" + `, and ` + "`a[].b`" + ` one of each element of the list ` + "`a`" + `.

`

// writeManual writes the manual of the tools among ops.
func writeManual(w io.Writer, ops []op.Op) {
	ops = slices.DeleteFunc(ops, func(o op.Op) bool { return o.Local })
	fmt.Fprint(w, manualHead, "| Profile | Tools |\n|---|---|\n")
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
	words := newWording(ops, nil, Options{Profile: op.ProfileFull, Structured: true})
	for i := range ops {
		writeTool(w, words, &ops[i])
	}
}

// writeTool writes the chapter of one tool.
func writeTool(w io.Writer, words *wording, o *op.Op) {
	told := o.Description // a contract's
	if told == "" {
		told = strings.Join(words.paragraphs(o), "\n\n")
	}
	fmt.Fprintf(w, "\n## %s\n\n**%s.** %s\n\n", o.Name, o.Summary, strings.Join(manualTraits(o), " · "))
	fmt.Fprint(w, strings.TrimSpace(manualProse(told)), "\n")
	writeFields(w, "Input", worded(words, o, o.InputSchema()))
	writeFields(w, "Answer", worded(words, o, o.OutputSchema()))
	fmt.Fprintf(w, "\n[As JSON schemas](../op/testdata/schema/%s.json)\n", o.Name)
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
	code := false
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case indented && !code:
			b.WriteString("\n```text\n")
		case !indented && code && strings.TrimSpace(line) != "":
			b.WriteString("```\n\n")
		}
		if strings.TrimSpace(line) != "" {
			code = indented
		}
		if !code {
			line = markdown(line)
		}
		b.WriteString(line)
	}
	if code {
		b.WriteString("```\n")
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), "\n\n\n", "\n\n"), "\n\n```\n\n", "\n```\n\n")
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

type shapes []struct {
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
		*s = append(*s, struct {
			name string
			of   shape
		}{name.(string), of})
	}
	return nil
}

func writeFields(w io.Writer, title string, text json.RawMessage) {
	var root shape
	if err := json.Unmarshal(text, &root); err != nil {
		panic(err) // the table makes it
	}
	rows := root.rows("", nil)
	if len(rows) == 0 {
		fmt.Fprintf(w, "\n%s: no fields.\n", title)
		return
	}
	fmt.Fprintf(w, "\n| %s | | Type | Meaning |\n|---|---|---|---|\n%s", title, strings.Join(rows, ""))
}

// rows are the rows of all fields below s, whose own path is prefix.
func (s shape) rows(prefix string, rows []string) []string {
	for _, p := range s.Properties {
		mark := ""
		if slices.Contains(s.Required, p.name) {
			mark = "●"
		}
		rows = append(rows, fmt.Sprintf("| `%s%s` | %s | %s | %s |\n",
			prefix, p.name, mark, p.of.kind(), markdown(strings.ReplaceAll(p.of.Description, "\n", " "))))
		rows = p.of.inner(prefix+p.name, rows)
	}
	return rows
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
