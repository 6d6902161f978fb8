package changes

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type LayersInput struct{}

type LayersOutput struct {
	Layers []Layer `json:"layers"`
}

// Layer is a layer that is kept, or that a running sandbox has.
type Layer struct {
	ID        string          `json:"id"`
	State     string          `json:"state"` // kept; in use, by its sandbox or another command; left, by an owner that was killed; damaged
	Workspace osstring.String `json:"workspace,omitempty"`
	Dir       osstring.String `json:"dir,omitempty"`
	Began     time.Time       `json:"began,omitzero"`
	Command   osstring.List   `json:"command,omitempty"`
	Error     string          `json:"error,omitempty"` // why its record cannot be read
}

func (LayersInput) Desc() op.Desc {
	return op.Desc{
		Name:    "layers",
		CLI:     []string{"layers"},
		Summary: "List the layers with changes that are kept",
		Doc: `List the layers of workspaces of mode overlay: those that "paddock try" kept, and those
of running sandboxes. paddock diff shows the changes in one, paddock commit lands them
in the workspace, and paddock discard removes them.

A layer that ends with its sandbox, and whose owner was killed, is "left": the next
start with an overlay removes it.`,
		Examples: `  paddock layers
  paddock layers --json | jq -r '.layers[].id'`,
		Local:  true,
		OfUser: true,
		Hints:  op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do lists them.
func (LayersInput) Do(_ context.Context, env *op.Env, _ *op.Stream) (LayersOutput, error) {
	found, err := paddock.Layers(env.Options)
	out := LayersOutput{Layers: []Layer{}}
	for _, l := range found {
		one := Layer{ID: l.ID, State: "kept", Workspace: osstring.String(l.Source), Dir: osstring.String(l.Dir), Began: l.Began.UTC(), Command: l.Command, Error: l.Damaged}
		switch {
		case l.Damaged != "":
			one.State = "damaged"
		case l.InUse:
			one.State = "in use"
		case l.Ends:
			one.State = "left"
		}
		out.Layers = append(out.Layers, one)
	}
	return out, err
}

func (out LayersOutput) Render(w io.Writer) error {
	if len(out.Layers) == 0 {
		_, err := fmt.Fprintln(w, "no layer is kept")
		return err
	}
	t := output.Teller{W: w}
	t.Err = output.Table(w, func(row output.Row) {
		row("ID\tSTATE\tBEGAN\tWORKSPACE\tCOMMAND")
		for _, l := range out.Layers {
			began := "-"
			if !l.Began.IsZero() {
				began = l.Began.Local().Format("2006-01-02 15:04")
			}
			row("%s\t%s\t%s\t%s\t%s", l.ID, l.State, began, text.Escape(text.OrDash(string(l.Workspace))), text.Label(text.OrDash(strings.Join(l.Command, " "))))
		}
	})
	for _, l := range out.Layers {
		if l.Error != "" {
			t.Line("%s: %s", l.ID, text.Escape(l.Error))
		}
	}
	return t.Err
}
