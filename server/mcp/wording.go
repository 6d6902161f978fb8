package mcp

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// maxDescription bounds a tool's description, in bytes: some clients cut it
// there by themselves, in the middle of a word.
const maxDescription = 2000

// wording tells models what manuals and hints tell people at a terminal: fields
// instead of flags, tools instead of commands. What the ceiling of a view leaves no
// choice in is the operator's.
type wording struct {
	ceiling    *policy.Ceiling
	profile    op.Profile
	structured bool
	tokens     bool
	absent     map[string]bool // the tools of other profiles
	words      *strings.Replacer
}

// flags are those of command lines, in a text; toolNames what may be a tool's there.
var (
	flags     = regexp.MustCompile(`--[a-z][a-z-]*`)
	toolNames = regexp.MustCompile(`[a-z]+(?:_[a-z]+)+`)
	degraded  = regexp.MustCompile("`allow_degraded`=(\\w+)")
)

func newWording(all []op.Op, c *policy.Ceiling, opts Options) *wording {
	commands, absent := map[string]string{}, map[string]bool{}
	var pairs []string
	for _, o := range all {
		absent[o.Name] = !opts.Profile.Offers(o.Profile) || o.Local
		command := "paddock " + strings.Join(o.CLI, " ")
		if len(o.CLI) > 0 && absent[o.Name] {
			commands[command] = command // it is the operator's
			continue
		}
		if len(o.CLI) > 0 {
			commands[command] = o.Name
		}
		if noun, verb, ok := strings.Cut(o.Name, "_"); ok {
			pairs = append(pairs, verb+"_"+noun, o.Name) // as the agent's protocol has it
		}
	}
	// Longer commands come first: "policy check" before "policy".
	for _, command := range slices.SortedFunc(maps.Keys(commands), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		pairs = append(pairs, command, commands[command])
	}
	pairs = append(pairs, " (may be repeated)", "")
	return &wording{c, opts.Profile, opts.Structured, opts.Tokens, absent, strings.NewReplacer(pairs...)}
}

// field is a flag's name in an operation's input, if its tool has it.
func (w *wording) field(o *op.Op, flag string) (name string, ok bool) {
	for _, f := range o.FieldsWithin(w.ceiling) {
		if f.Flag == flag[len("--"):] {
			return f.JSON, true
		}
	}
	return "", false
}

// text puts a manual's text into the words of tools.
func (w *wording) text(o *op.Op, text string) string {
	return flags.ReplaceAllStringFunc(w.words.Replace(text), func(flag string) string {
		if name, ok := w.field(o, flag); ok {
			return name
		}
		return flag
	})
}

// say returns a function that renders hints of an operation for this view's clients: what the
// tool cannot ask for, the operator can give. Parts about tools of other profiles are left out.
func (v *view) say(o *op.Op) func(hint string) string {
	return func(hint string) string {
		w, note := v.words(), ""
		parts := slices.DeleteFunc(strings.Split(w.words.Replace(hint), "; "), func(part string) bool {
			return slices.ContainsFunc(toolNames.FindAllString(part, -1), func(name string) bool { return w.absent[name] })
		})
		hint = strings.Join(parts, "; ")
		// The tool may have the field, but the ceiling does not allow this value.
		m := degraded.FindStringSubmatch(hint)
		refused := m != nil && w.ceiling != nil && !slices.Contains(w.ceiling.AllowDegraded, m[1])
		return policy.RenderHint(hint, func(path string) string {
			if f := op.FieldAt(o.FieldsWithin(w.ceiling), path); f != nil && !(refused && path == "allow_degraded") {
				return f.JSON
			}
			if w.tokens && op.FieldAt(op.SpecFields(), path) != nil {
				note = " (in the spec of paddock token create)"
				return "the operator's " + path
			}
			return "the operator's paddock mcp " + op.FlagFor(path)
		}) + note
	}
}

// describe is the summary, and as many paragraphs of the manual as there is room
// for.
func (w *wording) describe(o *op.Op) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(o.Summary, ".") + ".")
	for _, p := range w.paragraphs(o) {
		if b.Len()+len(p)+2 > maxDescription {
			break
		}
		b.WriteString("\n\n" + p)
	}
	return b.String()
}

// paragraphs are those of the manual, without what is about a command line alone.
func (w *wording) paragraphs(o *op.Op) []string {
	var all []string
	for _, p := range strings.Split(o.Doc, "\n\n") {
		p = w.text(o, w.fitting(o, strings.TrimSpace(p)))
		if p != "" && !strings.HasPrefix(p, "Exit status:") && strings.TrimSuffix(p, ".") != strings.TrimSuffix(o.Summary, ".") {
			all = append(all, p)
		}
	}
	return all
}

// sentence is one, with the space behind it.
var sentence = regexp.MustCompile(`(?s).+?(?:\.\s+|$)`)

// fitting is a paragraph without the sentences about flags that a tool has not,
// and about command lines.
func (w *wording) fitting(o *op.Op, paragraph string) string {
	var b strings.Builder
	for _, s := range sentence.FindAllString(paragraph, -1) {
		if !strings.Contains(s, "command line") && !slices.ContainsFunc(flags.FindAllString(s, -1), func(flag string) bool {
			_, ok := w.field(o, flag)
			return !ok
		}) {
			b.WriteString(s)
		}
	}
	return strings.TrimSpace(b.String())
}

// schema makes a schema one that every client takes: with an object at its root,
// and without the name of its dialect, which older clients know another one of.
func (w *wording) schema(o *op.Op, raw json.RawMessage) json.RawMessage {
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
func (w *wording) descriptions(o *op.Op, tree any) {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			if text, ok := value.(string); ok && key == "description" && o.Description == "" {
				node[key] = w.text(o, text)
			}
			w.descriptions(o, value)
		}
	case []any:
		for _, value := range node {
			w.descriptions(o, value)
		}
	}
}
