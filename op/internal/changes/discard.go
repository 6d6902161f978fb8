package changes

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
)

type DiscardInput struct {
	ID    string        `json:"id" arg:"NAME" complete:"sandbox" help:"the sandbox, by name or id, as paddock layers shows it"`
	Paths osstring.List `json:"paths,omitempty" arg:"[PATH]..." max:"4096" help:"only what changed at and below these, relative to the workspace (default: everything, and the layer)"`
}

type DiscardOutput struct {
	ID string `json:"id"`
	// Discarded is how many changes are gone, of a layer that stays.
	Discarded int `json:"discarded"`
	// Restored are the paths that were moved to what was discarded, and are at their old places again.
	Restored []string `json:"restored,omitempty"`
	Removed  bool     `json:"removed"` // the layer is gone with all of its changes
}

func (DiscardInput) Desc() op.Desc {
	return op.Desc{
		Name:    "discard",
		CLI:     []string{"discard"},
		Summary: "Throw changes of a layer away",
		Doc: `Throw away what commands changed in a workspace of mode overlay: what is at and below the
paths, or all of it with the layer itself, which only a sandbox of "paddock create" keeps. If something
was moved there, the place that it came from is as it was, too; of files whose places were exchanged
none is discarded without the others.
The host's directory is not touched. A PATH is relative to the workspace, not to the current directory.`,
		Examples: `  paddock discard pd-k3v9q2mx7wzra
  paddock discard pd-k3v9q2mx7wzra node_modules`,
		Local: true,
		Hints: op.Hints{Destructive: true, Frees: true, LongRunning: true},
	}
}

// Do throws them away.
func (in DiscardInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (DiscardOutput, error) {
	out := DiscardOutput{ID: in.ID}
	at, err := paths("paths", in.Paths)
	if err != nil {
		return out, err
	}
	l, err := open(ctx, env, in.ID, paddock.OpenLayer)
	if err != nil {
		return out, err
	}
	if len(at) == 0 && !l.Lasting() {
		err := l.Remove(ctx)
		out.Removed = err == nil
		return out, err
	}
	defer l.Close()
	gone, err := l.Discard(ctx, at...)
	out.Discarded = len(gone)
	for _, c := range gone {
		if len(at) > 0 && !slices.ContainsFunc(at, func(top string) bool { return within(c.Path, top) }) {
			out.Restored = append(out.Restored, c.Path)
		}
	}
	return out, err
}

func (out DiscardOutput) Render(w io.Writer) error {
	what := text.Count(out.Discarded, "change") + " discarded"
	if out.Removed {
		what = "layer " + out.ID + " discarded"
	}
	if _, err := fmt.Fprintln(w, what); err != nil {
		return err
	}
	for _, p := range out.Restored {
		if _, err := fmt.Fprintf(w, "%s is at its old place again\n", text.QuoteName(p)); err != nil {
			return err
		}
	}
	return nil
}
