package mcp

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
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
	words      *strings.Replacer
}

// flags are those of command lines, in a text.
var flags = regexp.MustCompile(`--[a-z][a-z-]*`)

func newWording(all []op.Op, c *policy.Ceiling, opts Options) *wording {
	commands := map[string]string{}
	var pairs []string
	for _, o := range all {
		command := "paddock " + strings.Join(o.CLI, " ")
		if len(o.CLI) > 0 && (!opts.Profile.Offers(o.Profile) || o.Local) {
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
	return &wording{c, opts.Profile, opts.Structured, opts.Tokens, strings.NewReplacer(pairs...)}
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

// foreign is what follows the name of another program in a hint, or of a command that
// is the operator's: its flags.
var foreign = regexp.MustCompile(`\b(?:docker|podman|bwrap|systemctl|systemd-run|paddock mcp install)\b[^;)]*`)

// hint is text for what is said of a failure: what a tool cannot ask for, the
// operator can give, by what this door has.
func (w *wording) hint(o *op.Op, text string) string {
	text, note := w.words.Replace(text), ""
	others := strings.Join(foreign.FindAllString(text, -1), "")
	text = flags.ReplaceAllStringFunc(text, func(flag string) string {
		if name, ok := w.field(o, flag); ok {
			return name
		}
		key, known := specKeys()[flag]
		switch {
		case !known && strings.Contains(others, flag):
			return flag
		case !known:
		case w.tokens && key != "":
			note = " (in the spec of paddock token create)"
			flag = key
		default:
			flag = "paddock mcp " + flag
		}
		return "the operator's " + flag
	})
	return text + note
}

// specKeys are the flags of paddock mcp that hints may name, and the keys of a spec
// that say the same; empty where none does.
var specKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{"--audit": "", "--privileges": ""}
	for _, f := range op.SpecFields() {
		switch f.JSON {
		case "ro", "rw":
			keys["--"+f.Flag] = "mounts"
		case "env_pass":
			keys["--"+f.Flag] = "env"
		case "unprotect":
			keys["--"+f.Flag] = "workspace.unprotected"
		case "workspace_mode":
			keys["--"+f.Flag] = "workspace.mode"
		case "max_output":
			keys["--"+f.Flag] = "limits.output"
		case "redact":
			keys["--"+f.Flag] = "redaction"
		default:
			keys["--"+f.Flag] = f.JSON
			for i := range reflect.TypeFor[policy.Limits]().NumField() {
				if key, _, _ := strings.Cut(reflect.TypeFor[policy.Limits]().Field(i).Tag.Get("json"), ","); key == f.JSON {
					keys["--"+f.Flag] = "limits." + key
				}
			}
		}
	}
	return keys
})

// say puts the hints of an operation into the words of this view's tools.
func (v *view) say(o *op.Op) func(hint string) string {
	return func(hint string) string { return v.words().hint(o, hint) }
}

// hinted is an output with the hints of its denials as say tells them. The
// operation's own stays as it is.
func hinted(out any, say func(string) string) any {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Struct {
		return out
	}
	own := v.FieldByName("Denials")
	if !own.IsValid() || own.Type() != reflect.TypeFor[[]paddock.Denial]() || own.Len() == 0 {
		return out
	}
	list := slices.Clone(own.Interface().([]paddock.Denial))
	for i := range list {
		list[i].Hint = say(list[i].Hint)
	}
	told := reflect.New(v.Type()).Elem()
	told.Set(v)
	told.FieldByName("Denials").Set(reflect.ValueOf(list))
	return told.Interface()
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
