package mcp_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/server/mcp"
)

// maxTold bounds what a model is given of the default tools in each request, in
// characters: names, descriptions and schemas of inputs, as clients hand them on.
const maxTold = 14000

// TestBriefs: the default profile has all of its tools, described in few words, in
// those of tools alone.
func TestBriefs(t *testing.T) {
	tools := listed(t, dial(t, serveText(t, mcp.Options{Profile: op.ProfileWorkspace}), nil))
	if len(tools) != 19 {
		t.Errorf("%d tools", len(tools))
	}
	size, fields := 0, 0
	for name, tool := range tools {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		size += utf8.RuneCountInString(name+tool.Description) + utf8.RuneCount(schema) + len(`{"name":"","description":"","input_schema":},`)
		own := properties(t, tool)
		fields += len(own)
		for _, word := range []string{"--", "command line", "paddock "} {
			if strings.Contains(tool.Description+string(schema), word) {
				t.Errorf("%s speaks of %q", name, word)
			}
		}
		if tool.OutputSchema != nil {
			t.Errorf("%s has an output schema", name)
		}
	}
	if size > maxTold || fields < 75 {
		t.Errorf("a model is given %d characters (at most %d) with %d fields", size, maxTold, fields)
	}
}

// TestBriefsAreOfFields: each field of a brief is one of its operation's, and what
// an operation requires is in its brief.
func TestBriefsAreOfFields(t *testing.T) {
	short := listed(t, dial(t, serveText(t, mcp.Options{Profile: op.ProfileWorkspace}), nil))
	whole := listed(t, dial(t, serveText(t, mcp.Options{Profile: op.ProfileFull}), nil))
	for name, fields := range mcp.BriefFields() {
		if short[name] == nil || whole[name] == nil {
			t.Errorf("there is no tool %s", name)
			continue
		}
		own, all := properties(t, short[name]), properties(t, whole[name])
		for _, field := range fields {
			if strings.Contains(field, ".") {
				continue
			}
			if all[field] == nil || own[field] == nil {
				t.Errorf("%s has no field %s", name, field)
			}
		}
		if a, b := required(t, short[name]), required(t, whole[name]); !slices.Equal(a, b) {
			t.Errorf("%s requires %q, and its brief %q", name, b, a)
		}
	}
}

// TestHostsInDescriptions: tools that run commands say which hosts these reach, in few words,
// and what a model asks the user for.
func TestHostsInDescriptions(t *testing.T) {
	network := policy.Network{Mode: policy.NetworkAllow}
	for i := range 12 {
		network.Allow = append(network.Allow, policy.NetworkRule{Host: "h" + strconv.Itoa(i) + ".example", Ports: []policy.Port{policy.Port(8000 + i)}})
	}
	for _, profile := range []op.Profile{op.ProfileWorkspace, op.ProfileFull} {
		for _, tokens := range []bool{false, true} {
			env := func(string) (*op.Env, error) {
				return &op.Env{Principal: &privilege.Principal{Name: "ann"}, Default: &policy.Spec{Network: network}}, nil
			}
			tools := listed(t, dial(t, serveText(t, mcp.Options{Profile: profile, Tokens: tokens, Env: env}), nil))
			want := " Network: h0.example:8000, h1.example:8001, h2.example:8002, h3.example:8003, h4.example:8004, h5.example:8005, h6.example:8006, h7.example:8007 and 4 more, and nothing else. " +
				"Only the user can open another host, with paddock mcp --allow HOST: ask, and name the host."
			if tokens {
				want = strings.Replace(want, "paddock mcp --allow HOST", "network.allow in the spec of paddock token create", 1)
			}
			for name, tool := range tools {
				reaches := name == "run" || name == "exec" || name == "session_run" || name == "service_start"
				if strings.HasSuffix(tool.Description, want) != reaches {
					t.Errorf("%s: %q", name, tool.Description)
				}
			}
		}
	}
}

// TestText: answers are text alone unless the operator wants fields, too.
func TestText(t *testing.T) {
	c := dial(t, serveText(t, mcp.Options{Ops: []op.Op{echo()}}), nil)
	res := call(t, c, "echo", json.RawMessage(`{"text":"hello"}`))
	if text(t, res) != "hello" || res.StructuredContent != nil {
		t.Errorf("%q, %v", text(t, res), res.StructuredContent)
	}
	const budget = mcp.MinBudget
	c = dial(t, serveText(t, mcp.Options{Ops: []op.Op{echo()}, Budget: budget}), nil)
	long := text(t, call(t, c, "echo", map[string]any{"text": strings.Repeat("x", 3*budget)}))
	if n := utf8.RuneCountInString(long); n > budget || n < budget*9/10 {
		t.Errorf("a long answer has %d characters of %d", n, budget)
	}
}

// TestRevisions: a client that wants a revision of the protocol which is not
// offered gets the newest that is.
func TestRevisions(t *testing.T) {
	c := dial(t, serveText(t, mcp.Options{Ops: []op.Op{echo()}}), nil)
	if got := c.InitializeResult().ProtocolVersion; got != "2025-11-25" {
		t.Errorf("revision %s", got)
	}
}

func listed(t *testing.T, c *sdk.ClientSession) map[string]*sdk.Tool {
	t.Helper()
	tools := map[string]*sdk.Tool{}
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	return tools
}

func properties(t *testing.T, tool *sdk.Tool) map[string]any {
	t.Helper()
	schema, _ := tool.InputSchema.(map[string]any)
	own, ok := schema["properties"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no properties: %v", tool.Name, tool.InputSchema)
	}
	return own
}

func required(t *testing.T, tool *sdk.Tool) []string {
	t.Helper()
	var need []string
	schema, _ := tool.InputSchema.(map[string]any)
	list, _ := schema["required"].([]any)
	for _, one := range list {
		name, _ := one.(string)
		need = append(need, name)
	}
	slices.Sort(need)
	return need
}
