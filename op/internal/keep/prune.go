package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type PruneInput struct {
	Older  *policy.Duration `json:"older,omitempty" flag:"older" arg:"DUR" help:"only those that ended at least this long ago, such as 24h"`
	Filter []string         `json:"filter,omitempty" flag:"filter" arg:"WHAT=VALUE" help:"only those that it describes, as for list (may be repeated)" max:"64"`
	Yes    bool             `json:"yes,omitempty" flag:"yes" short:"y" help:"do not ask"`
}

type PruneOutput struct {
	Removed []Ended `json:"removed"`
	// Offered are those that would be removed, if nobody agreed.
	Offered []string `json:"offered,omitempty"`
	// Unlanded are those that stay, because they have changes that have not landed.
	Unlanded []string `json:"unlanded,omitempty"`
}

func (PruneInput) Desc() op.Desc {
	return op.Desc{
		Name: "prune", CLI: []string{"prune"},
		Summary: "Remove all stopped persistent sandboxes",
		Doc: `Remove the records of all stopped sandboxes of "paddock create", and free their names.
Those that run stay, those with changes that have not landed, and workspaces. It
asks first; without a terminal it removes nothing unless --yes is given, and lists
what it would remove.

Exit status: 0; 1 if something could be removed and nobody agreed.`,
		Examples: "  paddock prune --older 24h\n  paddock prune --filter label=ci=yes --yes",
		Local:    true, Each: true,
		Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

func (in PruneInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (PruneOutput, error) {
	out := PruneOutput{Removed: []Ended{}}
	filter, err := NewFilter(in.Filter)
	if err != nil {
		return out, err
	}
	kept, err := paddock.ListLasting(ctx, env.Options)
	if err != nil {
		return out, err
	}
	var chosen []paddock.Listed
	for _, k := range kept {
		old := in.Older == nil || k.End != nil && time.Since(k.End.At) >= time.Duration(*in.Older)
		if k.State == paddock.StateStopped && old && filter.Fits(k) {
			chosen = append(chosen, k)
		}
	}
	agreed := in.Yes
	if !agreed && len(chosen) > 0 && stream.Ask != nil {
		var question strings.Builder
		for _, k := range chosen {
			fmt.Fprintf(&question, "%s  %s\n", k.ID, text.Escape(k.Name))
		}
		if agreed, err = stream.Ask(question.String() + "Remove " + text.Count(len(chosen), "sandbox") + "?"); err != nil {
			return out, err
		}
	}
	var errs []error
	for _, k := range chosen {
		if !agreed {
			out.Offered = append(out.Offered, k.Called())
			continue
		}
		removed, err := paddock.Remove(ctx, k.ID, false, env.Options)
		switch {
		case err == nil:
			env.RecordSandbox(k.ID)
			out.Removed = append(out.Removed, newEnded(removed))
		case errors.Is(err, paddock.ErrUnlanded):
			out.Unlanded = append(out.Unlanded, k.Called())
		case !errors.Is(err, paddock.ErrNotFound): // else another process has removed it
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// ExitStatus returns 1 if nobody agreed.
func (out PruneOutput) ExitStatus() int { return min(len(out.Offered), 1) }

func (out PruneOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	for _, e := range out.Removed {
		e.tell(t, "is removed")
	}
	for _, name := range out.Offered {
		t.Line("would remove %s", name)
	}
	for _, name := range out.Unlanded {
		t.Line("sandbox %s stays: it has changes that have not landed", name)
	}
	if len(out.Removed)+len(out.Offered)+len(out.Unlanded) == 0 {
		t.Line("there is no stopped sandbox to remove")
	}
	return t.Err
}
