package keep

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type StopInput struct {
	Names []string `json:"names" arg:"NAME..." complete:"sandbox" help:"the sandboxes, by name or id" max:"256"`
}

// Ended is how a sandbox has ended.
type Ended struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// DeathProved reports that the kernel has confirmed that nothing is left.
	DeathProved bool `json:"death_proved"`
	// Layer says that it has a layer, which stays: paddock diff shows what changed.
	Layer bool `json:"layer,omitempty"`
	// Discarded is how many changed paths of an overlay were removed with it.
	Discarded int `json:"discarded,omitempty"`
	// Left describes what the commands left that programs of the host execute or obey.
	Left string `json:"left,omitempty"`
	// Error is what the end could not do.
	Error string `json:"error,omitempty"`
}

type StopOutput struct {
	Sandboxes []Ended `json:"sandboxes"`
}

func (StopInput) Desc() op.Desc {
	return op.Desc{
		Name: "stop", CLI: []string{"stop"},
		Summary: "Stop persistent sandboxes, and keep their records",
		Doc: `End sandboxes of "paddock create": everything that runs in them is killed, and it is
proved that nothing is left. Their records stay, for "paddock start". For one that
does not run, how it ended before is printed.

What the commands have left that programs of the host execute or obey is printed, as
after "paddock run".`,
		Examples: "  paddock stop web",
		Local:    true, Each: true,
		Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true},
	}
}

func (in StopInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (StopOutput, error) {
	all, err := each(in.Names, func(name string) (Ended, error) {
		k, err := paddock.Stop(ctx, name, env.Options)
		if err != nil {
			return Ended{}, err
		}
		env.RecordSandbox(k.ID)
		return newEnded(k), nil
	})
	return StopOutput{all}, err
}

// each calls do for each of some sandboxes, of which there must be one, and returns what
// succeeded with the errors of the rest.
func each[T any](names []string, do func(name string) (T, error)) ([]T, error) {
	all := []T{}
	if len(names) == 0 {
		return all, op.Unnamed("names")
	}
	var errs []error
	for _, name := range names {
		one, err := do(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

func newEnded(k paddock.Listed) Ended {
	e := Ended{ID: k.ID, Name: k.Name, Layer: k.Spec.Workspace.Mode == policy.ModeOverlay, Discarded: k.Discarded}
	if k.End != nil {
		e.At, e.Reason, e.DeathProved, e.Left, e.Error = k.End.At, k.End.Reason, k.End.Proved, k.End.Left, k.End.Error
	}
	return e
}

// tell writes how the sandbox ended. verb is what was done to it.
func (e Ended) tell(t *output.Teller, verb string) {
	name := cmp.Or(e.Name, e.ID)
	proof := "nothing runs in it any more"
	if !e.DeathProved {
		proof = "it is not proved that nothing runs in it any more"
	}
	if e.Reason != "" {
		verb += ": " + e.Reason
	}
	if e.Reason != "" || !e.At.IsZero() { // it ran
		verb += "; " + proof
	}
	t.Line("sandbox %s %s", name, verb)
	if e.Left != "" {
		t.Line("%s", e.Left)
	}
	if e.Discarded > 0 {
		t.Line("%s of the overlay ended with it", text.Count(e.Discarded, "changed path"))
	}
	if e.Error != "" {
		t.Line("%s", e.Error)
	}
}

func (out StopOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	for _, e := range out.Sandboxes {
		e.tell(t, "has ended")
		if e.Layer {
			name := policy.ShellWord(cmp.Or(e.Name, e.ID))
			t.Line("what changed is kept: paddock diff %s, paddock commit %s, paddock discard %s", name, name, name)
		}
	}
	return t.Err
}
