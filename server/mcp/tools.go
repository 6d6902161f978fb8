package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
)

// tools are the operations of a profile.
type tools struct {
	all    []op.Op
	ops    []op.Op
	byName map[string]*op.Op
	known  map[string]*op.Op // those of every profile, for the server's own use
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

// describe returns the descriptions of ops for clients, in their order.
func (t *tools) describe(w *wording) []*sdk.Tool {
	list := make([]*sdk.Tool, len(t.ops))
	for i := range t.ops {
		list[i] = w.tool(&t.ops[i])
	}
	return list
}

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
	if w.structured {
		t.OutputSchema = w.schema(o, o.OutputSchema())
	}
	return t
}
