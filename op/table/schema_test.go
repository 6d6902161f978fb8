package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSchemas(t *testing.T) {
	for _, o := range All() {
		t.Run(o.Name, func(t *testing.T) {
			var b bytes.Buffer
			for _, s := range []json.RawMessage{o.InputSchema(), o.OutputSchema()} {
				if err := json.Indent(&b, s, "", "  "); err != nil {
					t.Fatal(err)
				}
				b.WriteByte('\n')
			}
			file := filepath.Join("..", "testdata", "schema", o.Name+".json")
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("the schemas are others than in %s (go test -update writes it anew):\n%s", file, diff)
			}
		})
	}
}

// node is a schema as a client reads it.
type node map[string]any

func parsed(t *testing.T, text json.RawMessage) node {
	t.Helper()
	var n node
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n node) types() []string {
	switch v := n["type"].(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, fmt.Sprint(one))
		}
		return all
	}
	return nil
}

func (n node) below(key string) node {
	m, _ := n[key].(map[string]any)
	return m
}

// check says where a value is not as the schema wants it.
func (n node) check(v any, path string) []string {
	types := n.types()
	if len(types) == 0 {
		return nil
	}
	is := map[bool]string{true: "null"}[v == nil]
	var wrong []string
	switch v := v.(type) {
	case map[string]any:
		is = "object"
		wrong = n.checkObject(v, path)
	case []any:
		is = "array"
		for i, one := range v {
			wrong = append(wrong, n.below("items").check(one, fmt.Sprint(path, "[", i, "]"))...)
		}
	case string:
		is = "string"
		if p, ok := n["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			wrong = append(wrong, path+" does not match "+p)
		}
		if enum, ok := n["enum"].([]any); ok && !slices.Contains(enum, any(v)) {
			wrong = append(wrong, path+" is none of "+fmt.Sprint(enum))
		}
	case float64:
		is = "number"
		if v == float64(int64(v)) && !slices.Contains(types, "number") {
			is = "integer"
		}
		if low, ok := n["minimum"].(float64); ok && v < low {
			wrong = append(wrong, path+" is too small")
		}
	case bool:
		is = "boolean"
	}
	if !slices.Contains(types, is) {
		return append(wrong, fmt.Sprint(path, " is a ", is, ", not ", types))
	}
	return wrong
}

func (n node) checkObject(v map[string]any, path string) []string {
	var wrong []string
	props := n.below("properties")
	for key, value := range v {
		of := props.below(key)
		if of == nil {
			if n["additionalProperties"] == false {
				wrong = append(wrong, path+"."+key+" is unknown")
				continue
			}
			of = n.below("additionalProperties")
		}
		wrong = append(wrong, of.check(value, path+"."+key)...)
	}
	required, _ := n["required"].([]any)
	for _, key := range required {
		if _, ok := v[fmt.Sprint(key)]; !ok {
			wrong = append(wrong, path+"."+fmt.Sprint(key)+" is missing")
		}
	}
	return wrong
}

// example is a value that the schema allows.
func (n node) example() any {
	if enum, ok := n["enum"].([]any); ok {
		return enum[0]
	}
	types := n.types()
	if len(types) == 0 {
		return "anything"
	}
	switch types[0] {
	case "object":
		v := map[string]any{}
		for key := range n.below("properties") {
			v[key] = n.below("properties").below(key).example()
		}
		return v
	case "array":
		return []any{n.below("items").example()}
	case "string":
		return n.text()
	case "integer", "number":
		low, _ := n["minimum"].(float64)
		return low
	}
	return true
}

// text is a string that the schema allows.
func (n node) text() string {
	p, _ := n["pattern"].(string)
	for _, try := range []string{"text", "1", "1MiB", "1s"} {
		if p == "" || regexp.MustCompile(p).MatchString(try) {
			return try
		}
	}
	return ""
}

// TestExamplesAreRead: what a schema allows is read, in all its fields.
func TestExamplesAreRead(t *testing.T) {
	for _, o := range All() {
		schema := parsed(t, o.InputSchema())
		example := schema.example()
		text, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := schema.check(example, ""); len(wrong) > 0 {
			t.Errorf("%s: the example is %s: %q", o.Name, text, wrong)
		}
		if err := o.Check(text); err != nil {
			t.Errorf("%s: %s: %v", o.Name, text, err)
		}
	}
}

// TestWrongTypesAreRefused puts each kind of value into each field. A schema
// that a contract fixes comes with errors of the operation's own, and null is as if
// the field were not there.
func TestWrongTypesAreRefused(t *testing.T) {
	own := []string{"session_run command", "cgroup_stat path"} // with a contract's errors, too
	kinds := map[string]any{"boolean": true, "number": 1.5, "string": "x\x00y", "array": []any{}, "object": map[string]any{}}
	for _, o := range All() {
		if o.Schema != nil {
			continue
		}
		props := parsed(t, o.InputSchema()).below("properties")
		for key := range props {
			of := props.below(key)
			if err := o.Check([]byte(`{"` + key + `":null}`)); err != nil {
				t.Errorf("%s: null for %s: %v", o.Name, key, err)
			}
			if slices.Contains(own, o.Name+" "+key) {
				continue
			}
			for kind, value := range kinds {
				if len(of.check(value, "")) == 0 || kind == "string" && slices.Contains(of.types(), "string") {
					continue
				}
				text, err := json.Marshal(map[string]any{key: value})
				if err != nil {
					t.Fatal(err)
				}
				if err := o.Check(text); err == nil || !strings.Contains(err.Error(), key) {
					t.Errorf("%s: %s: %v", o.Name, text, err)
				}
			}
		}
	}
}

// TestOutputsAreAsTheSchemasSay compares what operations really answer.
func TestOutputsAreAsTheSchemasSay(t *testing.T) {
	report := backend.Report{Backend: "linux", Features: []backend.Feature{{Name: "x", NeededBy: []string{"y"}}}}
	env := office(t)
	self, err := os.Executable() // stands in for the agent
	if err != nil {
		t.Fatal(err)
	}
	env.Options = paddock.Options{Backend: bare{report: report, plan: &confine.Plan{}}, Dir: t.TempDir(), Agent: self, StateDir: t.TempDir()}
	if _, err := tool(0, op.Hints{}, done).Call(t.Context(), env, []byte(`{"path":"/"}`), nil); err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{"plan": `{"memory":"1GiB"}`, "doctor": `{}`, "version": `{}`, "audit_read": `{}`, "audit_verify": `{}`}
	for _, o := range All() {
		input, ok := calls[o.Name]
		if !ok {
			continue
		}
		delete(calls, o.Name)
		out, err := o.Call(t.Context(), env, []byte(input), nil)
		if err != nil {
			t.Errorf("%s: %v", o.Name, err)
			continue
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		if wrong := parsed(t, o.OutputSchema()).check(value, o.Name); len(wrong) > 0 {
			t.Errorf("%s answers %s: %q", o.Name, text, wrong)
		}
	}
	if len(calls) > 0 {
		t.Errorf("there are no operations %v", slices.Collect(maps.Keys(calls)))
	}
	out, err := json.Marshal(exec.RunOutput{})
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(out, &value); err != nil {
		t.Fatal(err)
	}
	if wrong := parsed(t, op.Of[exec.RunInput]().OutputSchema()).check(value, "run"); len(wrong) > 0 {
		t.Errorf("run answers %q", wrong)
	}
}

// words take a text for a list of one.
type words []string

func (*words) UnmarshalJSON([]byte) error { return nil }
func (*words) JSONSchema() string {
	return `{"type":["string","array"],"items":{"type":"string"}}`
}

func TestSchemaOfItsOwn(t *testing.T) {
	type input struct {
		Words words           `json:"words"`
		Any   json.RawMessage `json:"any,omitempty"`
		Again *struct {
			Deep map[string]*input2 `json:"deep"`
		} `json:"again,omitempty"`
	}
	o := op.New(op.Desc{}, func(context.Context, *op.Env, input, *op.Stream) (input, error) { return input{}, nil }, func(io.Writer, input) error { return nil })
	want := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
		`"words":{"type":["string","array"],"items":{"type":"string"}},"any":{},` +
		`"again":{"type":"object","properties":{"deep":{"type":"object","additionalProperties":{"type":"object","properties":{"below":{}},"additionalProperties":false}}},` +
		`"required":["deep"],"additionalProperties":false}},"required":["words"],"additionalProperties":false}`
	if got := string(o.InputSchema()); got != want {
		t.Errorf("the schema is\n%s\nwant\n%s", got, want)
	}
	o.Schema = json.RawMessage(`{"type":"object"}`)
	if got := string(o.InputSchema()); got != `{"type":"object"}` {
		t.Errorf("the contract's schema has become %s", got)
	}
}

// input2 holds itself.
type input2 struct {
	Below *input2 `json:"below,omitempty"`
}
