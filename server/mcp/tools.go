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
	known  map[string]*op.Op // of every profile, for the server's own use
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

// find gives an operation by its name, nil where the profile has none of it.
func (t *tools) find(name string) *op.Op { return t.byName[name] }

// told is what clients are told of ops, in their order.
func (t *tools) told(w *wording) []*sdk.Tool {
	list := make([]*sdk.Tool, len(t.ops))
	for i := range t.ops {
		list[i] = w.tool(&t.ops[i])
	}
	return list
}

// listed are the tools that the principal may use now: those that need a
// privilege which it does not hold are not offered.
func (v *view) listed(ctx context.Context) []*sdk.Tool {
	held := map[privilege.Set]bool{0: true}
	list := []*sdk.Tool{} // as JSON a list, also where it is empty
	for i, tool := range v.told() {
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

// tool describes an operation to clients: in a profile by its brief where it has
// one, else by its manual. The form of answers is described where they have one.
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
