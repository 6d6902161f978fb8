package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// tools are the operations of a profile.
type tools struct {
	all    []op.Op
	ops    []op.Op
	byName map[string]*op.Op
	known  map[string]*op.Op // tools of every profile, for the server's own use
}

func newTools(all []op.Op, profile op.Profile) *tools {
	t := &tools{all: all, byName: map[string]*op.Op{}, known: map[string]*op.Op{}}
	for i, o := range all {
		if !o.Local {
			t.known[o.Name] = &all[i]
		}
		if !o.Local && profile.Offers(o.Profile) {
			t.ops = append(t.ops, o)
		}
	}
	for i := range t.ops {
		t.byName[t.ops[i].Name] = &t.ops[i]
	}
	return t
}

// find returns an operation of the profile by name, or nil.
func (t *tools) find(name string) *op.Op { return t.byName[name] }

// offeredTools returns the tools that the principal may use now, without those that need a
// privilege that it does not hold.
func (v *view) offeredTools(ctx context.Context) []*sdk.Tool {
	held := map[privilege.Set]bool{0: true}
	list := []*sdk.Tool{} // not nil, which would be null in JSON
	for i, tool := range v.toolList() {
		need := v.server.tools.ops[i].Needs
		if _, asked := held[need]; !asked {
			held[need] = privilege.CheckOpened(ctx, v.env.Privileges, v.env.Principal, need) == nil
		}
		if held[need] {
			list = append(list, tool)
		}
	}
	return list
}

// maxDescription bounds a tool's description, in bytes. Some clients cut longer ones in the
// middle of a word.
const maxDescription = 2000

// wording rewrites the manuals and hints of operations, which are written for people at a
// terminal, for models: fields replace flags, and tools replace commands.
type wording struct {
	ceiling    *policy.Ceiling
	profile    op.Profile
	structured bool
	tokens     bool
	network    string          // which hosts commands of the default sandbox reach; "" for none or all
	absent     map[string]bool // the tools of other profiles
	words      *strings.Replacer
}

var (
	flags     = lazyregexp.New(`--[a-z][a-z-]*`)
	toolNames = lazyregexp.New(`[a-z]+(?:_[a-z]+)+`) // and other words with "_"
	degraded  = lazyregexp.New("`allow_degraded`=(\\w+)")
	sentence  = lazyregexp.New(`(?s).+?(?:\.\s+|$)`) // with the space after it
)

func newWording(all []op.Op, env *op.Env, opts Options) *wording {
	commands, absent := map[string]string{}, map[string]bool{}
	var pairs []string
	for _, o := range all {
		absent[o.Name] = !opts.Profile.Offers(o.Profile) || o.Local
		command := "paddock " + strings.Join(o.CLI, " ")
		if len(o.CLI) > 0 && absent[o.Name] {
			commands[command] = command // only the operator can run it
			continue
		}
		if len(o.CLI) > 0 {
			commands[command] = o.Name
		}
		if noun, verb, ok := strings.Cut(o.Name, "_"); ok {
			pairs = append(pairs, verb+"_"+noun, o.Name) // the agent's protocol has names such as close_session
		}
	}
	// Longer commands come first: "policy check" before "policy".
	for _, command := range slices.SortedFunc(maps.Keys(commands), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		pairs = append(pairs, command, commands[command])
	}
	pairs = append(pairs, " (may be repeated)", "", " (or at another address: 127.0.0.1:8080:3000)", "")
	return &wording{env.Ceiling, opts.Profile, opts.Structured, opts.Tokens, networkText(env.DefaultSpec().Network, opts.Tokens), absent, strings.NewReplacer(pairs...)}
}

// reaching are the tools whose commands reach hosts.
var reaching = []string{"run", "exec", "session_run", "service_start"}

// networkText says which hosts commands reach, and how others can be opened.
func networkText(n policy.Network, tokens bool) string {
	if n.Asked() != policy.NetworkAllow {
		return ""
	}
	words := "paddock mcp --allow HOST"
	if tokens {
		words = "network.allow in the spec of paddock token create"
	}
	egress := n.Egress("")
	given := ""
	for _, injected := range egress.Injected {
		host, rest, _ := strings.Cut(injected, " ")
		header, _, _ := strings.Cut(rest, " ")
		given += " Requests to " + host + " get their " + header + " outside of the sandbox."
	}
	return "Network: " + op.Hosts(egress.Allow) + ", and nothing else." + given + " Only the user can open another host, with " + words + ": ask, and name the host."
}

// say returns a function that renders hints of an operation for this view's clients. A field
// that the tool does not have is the operator's to set. Parts of a hint that name tools of
// other profiles are left out.
func (v *view) say(o *op.Op) func(hint string) string {
	return func(hint string) string {
		w, note := v.words(), ""
		parts := slices.DeleteFunc(strings.Split(w.words.Replace(hint), "; "), func(part string) bool {
			return slices.ContainsFunc(toolNames().FindAllString(part, -1), func(name string) bool { return w.absent[name] })
		})
		hint = strings.Join(parts, "; ")
		// The tool may have the field, while the ceiling does not allow this value.
		m := degraded().FindStringSubmatch(hint)
		refused := m != nil && w.ceiling != nil && !slices.Contains(w.ceiling.AllowDegraded, m[1])
		return policy.RenderHint(hint, func(path string) string {
			path, operators := strings.CutPrefix(path, policy.OfCeiling)
			if f := op.FieldAt(o.FieldsWithin(w.ceiling), path); f != nil && !operators && (!refused || path != "allow_degraded") {
				return f.JSON
			}
			if w.tokens && op.FieldAt(op.SpecFields(), path) != nil {
				note = " (in the spec of paddock token create)"
				return "the operator's " + strings.TrimSuffix(strings.TrimSuffix(path, ".ro"), ".rw") // modes of mounts
			}
			return "the operator's paddock mcp " + op.FlagFor(path)
		}) + note
	}
}

// tool describes an operation to clients: by its brief if the profile is not the full one and
// there is a brief, otherwise by its manual. Structured answers have a schema.
func (w *wording) tool(o *op.Op) *sdk.Tool {
	t := &sdk.Tool{
		Name:        o.Name,
		Title:       o.Summary,
		Description: o.Description,
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint:   o.Hints.ReadOnly,
			IdempotentHint: o.Hints.Idempotent || o.Hints.ReadOnly,
			OpenWorldHint:  &o.Hints.OpenWorld,
		},
	}
	if !o.Hints.ReadOnly {
		t.Annotations.DestructiveHint = &o.Hints.Destructive
	}
	short, ok := briefs[o.Name]
	within := o.InputSchemaWithin(w.ceiling)
	if ok && w.profile != op.ProfileFull {
		t.Description, t.InputSchema = short.text, short.schema(within)
	} else {
		t.InputSchema = w.schema(o, within)
	}
	if t.Description == "" {
		t.Description = w.describe(o)
	}
	if w.network != "" && slices.Contains(reaching, o.Name) {
		t.Description += " " + w.network
	}
	if w.structured {
		t.OutputSchema = w.schema(o, o.OutputSchema())
	}
	return t
}

// describe returns an operation's summary, and as many paragraphs of its manual as there is
// room for.
func (w *wording) describe(o *op.Op) string {
	text := strings.TrimSuffix(o.Summary, ".") + "."
	for _, p := range w.paragraphs(o) {
		if len(text)+len(p)+2 > maxDescription {
			break
		}
		text += "\n\n" + p
	}
	return text
}

// paragraphs returns the paragraphs of the manual that do not repeat the summary, and are not
// about the command line.
func (w *wording) paragraphs(o *op.Op) []string {
	var all []string
	for _, p := range strings.Split(o.Doc, "\n\n") {
		p = w.text(o, w.offered(o, strings.TrimSpace(p)))
		if p != "" && !strings.HasPrefix(p, "Exit status:") && strings.TrimSuffix(p, ".") != strings.TrimSuffix(o.Summary, ".") {
			all = append(all, p)
		}
	}
	return all
}

// offered returns a paragraph without the sentences about command lines, and about flags whose
// fields the tool does not have.
func (w *wording) offered(o *op.Op, paragraph string) string {
	var b strings.Builder
	for _, s := range sentence().FindAllString(paragraph, -1) {
		if !strings.Contains(s, "command line") && !slices.ContainsFunc(flags().FindAllString(s, -1), func(flag string) bool { return w.field(o, flag) == "" }) {
			b.WriteString(s)
		}
	}
	return strings.TrimSpace(b.String())
}

// text returns a text of a manual with fields for flags, and tools for commands.
func (w *wording) text(o *op.Op, text string) string {
	return flags().ReplaceAllStringFunc(w.words.Replace(text), func(flag string) string { return cmp.Or(w.field(o, flag), flag) })
}

// field returns the tool's field for a flag, or "".
func (w *wording) field(o *op.Op, flag string) string {
	for _, f := range o.FieldsWithin(w.ceiling) {
		if "--"+f.Flag == flag {
			return f.JSON
		}
	}
	return ""
}

// schema returns a schema that every client accepts: with an object at its root, and without the
// name of its dialect, since older clients know only another one.
func (w *wording) schema(o *op.Op, raw json.RawMessage) json.RawMessage {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return json.RawMessage(`{"type":"object"}`) // never for the table's schemas, which tests check
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

// descriptions rewords the descriptions in a schema.
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
