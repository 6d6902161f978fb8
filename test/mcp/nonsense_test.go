//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// nonsense is one set of arguments that make no sense.
type nonsense struct {
	what  string         // what is wrong, for messages
	field string         // what an error must name; empty: it may also be taken
	args  map[string]any // what is asked for
}

// opens are tools that make a sandbox for each call that they take: they are not
// tried with what may be taken.
var opens = map[string]bool{"run": true, "execute": true, "sandbox_create": true, "session_open": true}

// otherwise is what tools say that do not name the field, where a contract or the
// command line, too, has these words.
var otherwise = map[string]string{
	"run argv": "no command was given", "execute command": "(?i)empty command",
	"session_run session_id": "cannot find session", "session_restart session_id": "cannot find session", "session_close session_id": "cannot find session",
}

// TestNonsense sends nonsense to every field of every tool.
func TestNonsense(t *testing.T) {
	boxtest.RequireWalls(t)
	requireTime(t)
	c := startStdio(t, everything(t))
	tools := c.tools(t)
	last := map[string]map[string]any{}
	calls := 0
	for _, e := range examples {
		tool := tools[e.tool]
		if tool == nil {
			continue // who may not cannot
		}
		t.Run(e.tool, func(t *testing.T) {
			good := fill(t, e.good, last)
			if got := c.try(t, e.tool, json.RawMessage(good)); !got.IsError {
				last[e.tool] = schemaMap(t, got.StructuredContent)
			}
			sound := schemaMap(t, json.RawMessage(good))
			delete(sound, "name") // of a sandbox that is there now
			for _, n := range allNonsense(t, tool, sound) {
				if n.field == "" && (opens[e.tool] || e.host) {
					continue
				}
				calls++
				c.sendNonsense(t, e, n)
			}
		})
	}
	c.call(t, "version", nil) // the server is alive
	t.Logf("%d calls", calls)
}

// sendNonsense calls a tool and looks at what it says. What may be taken is
// cancelled after a while.
func (c *client) sendNonsense(t *testing.T, e example, n nonsense) {
	t.Helper()
	ctx := t.Context()
	if n.field == "" {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		ctx = short
	}
	got, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: e.tool, Arguments: n.args})
	said, failed := fmt.Sprint(err), true
	if err == nil {
		said, failed = textOf(got), got.IsError
		checkText(t, got)
	}
	if n.field == "" || e.host {
		return // a contract fixes what these take, and say
	}
	names := regexp.QuoteMeta(n.field) + "|" + strings.ReplaceAll(n.field, "_", "[. ]") + "|deeper than"
	if also := otherwise[e.tool+" "+n.field]; also != "" {
		names += "|" + also
	}
	if !failed {
		t.Errorf("%s was taken: %s", n.what, clip(said))
	} else if !regexp.MustCompile(names).MatchString(said) {
		t.Errorf("%s: the error does not name %s: %s", n.what, n.field, clip(said))
	}
}

// allNonsense is what can be wrong with the arguments of a tool; sound are such as
// would be taken.
func allNonsense(t *testing.T, tool *sdk.Tool, sound map[string]any) []nonsense {
	t.Helper()
	schema := schemaMap(t, tool.InputSchema)
	g := generator{sound: sound}
	g.object(schema, nil)
	return g.all
}

// generator walks through a schema.
type generator struct {
	sound map[string]any
	all   []nonsense
}

// object adds what can be wrong with an object at path, whose own type is right.
func (g *generator) object(schema map[string]any, path []string) {
	properties, _ := schema["properties"].(map[string]any)
	if schema["additionalProperties"] == false {
		g.add("an unknown field", "no_such_field", append(slices.Clone(path), "no_such_field"), 1)
	}
	required, _ := schema["required"].([]any)
	if len(path) == 0 {
		for _, name := range required {
			args := maps.Clone(g.sound)
			delete(args, name.(string))
			g.all = append(g.all, nonsense{"without " + name.(string), name.(string), args})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		of, _ := properties[name].(map[string]any)
		at := append(slices.Clone(path), name)
		if field := ""; len(typesOf(of)) > 0 { // null is as if the field were not there
			if slices.Contains(required, any(name)) {
				field = name
			}
			g.add(strings.Join(at, ".")+" = null", field, at, nil)
		}
		for _, v := range wrongValues(of) {
			g.add(fmt.Sprintf("%s = %s", strings.Join(at, "."), clip(v)), name, at, v)
		}
		for _, v := range oddValues(of) {
			g.add(fmt.Sprintf("%s = %s", strings.Join(at, "."), clip(v)), "", at, v)
		}
		if hasType(of, "object") && of["properties"] != nil {
			g.object(of, at)
		}
	}
}

// add puts a value at path in otherwise sound arguments.
func (g *generator) add(what, field string, path []string, value any) {
	g.all = append(g.all, nonsense{what, field, with(g.sound, path, value)})
}

// with is a copy of args in which path has another value.
func with(args map[string]any, path []string, value any) map[string]any {
	changed := maps.Clone(args)
	if changed == nil {
		changed = map[string]any{}
	}
	if len(path) == 1 {
		changed[path[0]] = value
		return changed
	}
	below, _ := changed[path[0]].(map[string]any)
	changed[path[0]] = with(below, path[1:], value)
	return changed
}

// deep is nested further than anything may be.
var deep = func() any {
	var v any = 1
	for range 100 {
		v = []any{v}
	}
	return v
}()

// wrongValues are values that the schema does not allow.
func wrongValues(of map[string]any) []any {
	if len(typesOf(of)) == 0 {
		return nil // it takes anything
	}
	var wrong []any
	for kind, values := range map[string][]any{
		"string": {"\x00\x1b[2J"}, "integer": {-1 << 62, 1.5}, "number": {}, "boolean": {true},
		"array": {[]any{}, deep}, "object": {map[string]any{"no_such_field": 1}},
	} {
		if !hasType(of, kind) && (kind != "integer" || !hasType(of, "number")) {
			wrong = append(wrong, values...)
		}
	}
	if hasType(of, "integer") && !hasType(of, "number") {
		wrong = append(wrong, 1.5)
	}
	return append(wrong, beyond(of)...)
}

// beyond are values of the right type that are out of bounds.
func beyond(of map[string]any) []any {
	var wrong []any
	bound := func(name string, do func(n int)) {
		if n, ok := of[name].(float64); ok && n < 1<<24 && n > -1<<24 {
			do(int(n))
		}
	}
	bound("minimum", func(n int) { wrong = append(wrong, n-1) })
	bound("maximum", func(n int) { wrong = append(wrong, n+1) })
	bound("minLength", func(n int) {
		if n > 0 {
			wrong = append(wrong, strings.Repeat("x", n-1))
		}
	})
	bound("maxLength", func(n int) {
		if n < 1<<22 {
			wrong = append(wrong, strings.Repeat("x", n+1))
		}
	})
	bound("minItems", func(n int) {
		if n > 0 {
			wrong = append(wrong, make([]any, n-1))
		}
	})
	if of["enum"] != nil || of["pattern"] != nil {
		wrong = append(wrong, "no such choice")
	}
	if items, ok := of["items"].(map[string]any); ok {
		for _, v := range wrongValues(items) {
			wrong = append(wrong, []any{v})
		}
		bound("maxItems", func(n int) {
			if n < 1<<16 {
				wrong = append(wrong, slices.Repeat([]any{"x"}, n+1))
			}
		})
	}
	return wrong
}

// oddValues are values that the schema may allow and that nobody in their
// senses sends. What becomes of them is the tool's affair, within its bounds.
func oddValues(of map[string]any) []any {
	switch {
	case hasType(of, "string") && of["enum"] == nil && of["pattern"] == nil:
		return []any{"", "\x00\x1b[31mred\x1b[0m\u202e", strings.Repeat("é", 1<<16), "../../../../etc/shadow"}
	case hasType(of, "integer"):
		return []any{1<<53 - 1}
	case len(typesOf(of)) == 0:
		return []any{deep}
	}
	return nil
}

func typesOf(of map[string]any) []string {
	switch kind := of["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var all []string
		for _, one := range kind {
			all = append(all, fmt.Sprint(one))
		}
		return all
	}
	return nil
}

func hasType(of map[string]any, kind string) bool { return slices.Contains(typesOf(of), kind) }

// clip is a value short enough for a message.
func clip(v any) string {
	text, ok := v.(string)
	if !ok {
		data, _ := json.Marshal(v) // of what JSON can hold
		text = string(data)
	}
	if len(text) > 200 {
		return fmt.Sprintf("%q…", text[:200])
	}
	return fmt.Sprintf("%q", text)
}
