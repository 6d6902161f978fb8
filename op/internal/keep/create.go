// Package keep has the operations on sandboxes that outlive the process which made them:
// creating, starting, stopping and removing them, and what they are.
package keep

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type CreateInput struct {
	op.SpecInput
	Name   string           `json:"name,omitempty" arg:"[NAME]" help:"the sandbox's name (default: its id)" max:"64"`
	Labels []string         `json:"labels,omitempty" flag:"label" arg:"K=V" help:"a label, to find it by in lists (may be repeated)" max:"64"`
	Idle   *policy.Duration `json:"idle,omitempty" flag:"idle" arg:"DUR" help:"end it once nothing was done in it for this long, such as 30m"`
	Life   *policy.Duration `json:"lifetime,omitempty" flag:"lifetime" arg:"DUR" help:"end it once it has run for this long"`
	Then   *string          `json:"then,omitempty" flag:"then" arg:"WHAT" choices:"stop,remove" help:"when its time is up: stop it (default), or remove it as well"`
	Quiet  bool             `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print its id alone, and no notes"`
}

type CreateOutput struct {
	ID        string           `json:"id"`
	Name      string           `json:"name,omitempty"`
	Isolation policy.Isolation `json:"isolation"`

	quiet bool
}

func (CreateInput) Desc() op.Desc {
	return op.Desc{
		Name: "create", CLI: []string{"create"},
		Summary: "Create a persistent sandbox",
		Doc: `Create a sandbox that outlives this command, without a daemon: a small process of its
own, its keeper, owns it. It lasts until "paddock stop", until its time is up, or
until the host is restarted; its record stays until "paddock rm", and "paddock start"
starts it again with what it was created with. Its workspace is a directory of the
host as with "paddock run"; /tmp and HOME are private, and end with it.

The flags are those of "paddock run", without --publish, for which there is "paddock
forward". "paddock exec NAME -- CMD" runs a command in it, and every other command about
sandboxes takes its name, too.

--idle ends it once nothing has run in it for that time and nobody has asked it
anything, --lifetime once it has run for so long. Both clocks also run while the
machine sleeps. --then remove removes it then, and its record; one with changes that
have not landed is stopped.

Values of --env and --env-pass are not stored, since they may be secret: "paddock
start" wants them again.`,
		Examples: `  # a sandbox over this directory that ends after an hour without use
  paddock create web --idle 1h
  paddock exec web -- npm ci
  paddock stop web

  # one for a branch of a review, found by its label
  paddock create --label review=42 -w ~/src/app
  paddock list --filter label=review=42`,
		Local: true, Opens: true, Refuses: []string{"publish"},
		Hints: op.Hints{LongRunning: true},
	}
}

func (in CreateInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (CreateOutput, error) {
	if in.Quiet && env.Project != nil {
		env.Project = func(string) {}
	}
	what := paddock.Lasting{Name: in.Name, Remove: in.Then != nil && *in.Then == "remove"}
	var err error
	if what.Labels, err = Labels(in.Labels); err != nil {
		return CreateOutput{}, err
	}
	if err := SetTimes(&what, in.Idle, in.Life); err != nil {
		return CreateOutput{}, err
	}
	if in.Then != nil && in.Idle == nil && in.Life == nil {
		return CreateOutput{}, &policy.FieldError{Field: "then", Value: *in.Then, Reason: "no time is given that could be up", Hint: "add `idle` or `lifetime`"}
	}
	spec, err := in.Spec(ctx, env)
	if err != nil {
		return CreateOutput{}, err
	}
	s, err := env.Create(ctx, spec, what)
	if err != nil {
		return CreateOutput{}, err
	}
	return CreateOutput{ID: s.ID(), Name: in.Name, Isolation: s.Isolation(), quiet: in.Quiet}, s.Close() // this only detaches
}

// SetTimes sets the times that are given.
func SetTimes(what *paddock.Lasting, idle, life *policy.Duration) error {
	for _, d := range []struct {
		name string
		from *policy.Duration
		to   *time.Duration
	}{{"idle", idle, &what.Idle}, {"lifetime", life, &what.Life}} {
		if d.from == nil {
			continue
		}
		if *d.from <= 0 {
			return &policy.FieldError{Field: d.name, Value: d.from.String(), Reason: "it must be above 0", Hint: "leave it out for the default"}
		}
		*d.to = time.Duration(*d.from)
	}
	return nil
}

// Labels reads labels, NAME=VALUE.
func Labels(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &policy.FieldError{Field: "labels", Value: text, Reason: "it is not NAME=VALUE"}
		}
		if _, twice := all[name]; twice {
			return nil, &policy.FieldError{Field: "labels", Value: text, Reason: "the label is given twice"}
		}
		all[name] = value
	}
	return all, nil
}

func (out CreateOutput) Render(w io.Writer) error {
	t := output.Teller{W: w}
	switch {
	case out.quiet:
		t.Line("%s", out.ID)
	case out.Name == "":
		t.Line("sandbox %s is ready", out.ID)
	default:
		t.Line("sandbox %s is ready (%s)", out.Name, out.ID)
	}
	if lost := op.StartNote(out.Isolation); lost != "" && !out.quiet {
		t.Line("%s", lost)
	}
	return t.Err
}
