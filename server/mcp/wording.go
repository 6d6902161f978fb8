package mcp

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/paddock-dev/paddock/op"
)

// maxDescription bounds a tool's description, in bytes: some clients cut it
// there by themselves, in the middle of a word.
const maxDescription = 2000

// wording tells models what manuals tell people at a terminal: fields instead of
// flags, tools instead of commands.
type wording struct {
	commands *strings.Replacer
	flag     *regexp.Regexp
}

func newWording(all []op.Op) *wording {
	var pairs []string
	for _, o := range all { // longer commands come first: "policy check" before "policy"
		if len(o.CLI) > 1 {
			pairs = append(pairs, "paddock "+strings.Join(o.CLI, " "), o.Name)
		}
	}
	for _, o := range all {
		if len(o.CLI) == 1 {
			pairs = append(pairs, "paddock "+o.CLI[0], o.Name)
		}
	}
	pairs = append(pairs, " (may be repeated)", "")
	return &wording{commands: strings.NewReplacer(pairs...), flag: regexp.MustCompile(`--[a-z][a-z-]*`)}
}

// words puts one text into the words of tools.
func (w *wording) words(o op.Op, text string) string {
	if !strings.Contains(text, "--") && !strings.Contains(text, "paddock ") && !strings.Contains(text, "repeated") {
		return text
	}
	return w.flag.ReplaceAllStringFunc(w.commands.Replace(text), func(flag string) string {
		for _, f := range o.Fields() {
			if f.Flag == flag[2:] {
				return f.JSON
			}
		}
		return flag
	})
}

// describe is the summary, and as many paragraphs of the manual as there is
// room for.
func (w *wording) describe(o op.Op) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(o.Summary, ".") + ".")
	for _, p := range strings.Split(w.words(o, o.Doc), "\n\n") {
		p = strings.TrimSpace(p)
		if p == "" || strings.TrimSuffix(p, ".") == strings.TrimSuffix(o.Summary, ".") {
			continue
		}
		if b.Len()+len(p)+2 > maxDescription {
			break
		}
		b.WriteString("\n\n" + p)
	}
	return b.String()
}

// schema makes a schema one that every client takes: with an object at its root,
// and without the name of its dialect, which older clients know another one of.
func (w *wording) schema(o op.Op, raw json.RawMessage) json.RawMessage {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return json.RawMessage(`{"type":"object"}`) // not for the table's schemas, which tests read
	}
	delete(tree, "$schema")
	tree["type"] = "object"
	w.descriptions(o, tree)
	text, err := json.Marshal(tree)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return text
}

// descriptions puts those of a schema and of all that is in it into our words.
func (w *wording) descriptions(o op.Op, tree any) {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok && key == "description" && o.Description == "" {
				node[key] = w.words(o, text)
			}
			w.descriptions(o, value)
		}
	case []any:
		for _, value := range node {
			w.descriptions(o, value)
		}
	}
}
