package keep

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type StatusInput struct {
	Name string `json:"name" arg:"NAME" complete:"sandbox" help:"the sandbox, by name or id" min:"1" max:"64"`
}

type StatusOutput struct {
	ID     string            `json:"id"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Principal is whose it is, if a server made it: then Name is that principal's for it.
	Principal string `json:"principal,omitempty"`
	State     string `json:"state"` // running, paused, ending, stopped
	// Silent reports that its agent does not answer.
	Silent    bool            `json:"silent,omitempty"`
	Backend   string          `json:"backend"`
	Workspace osstring.String `json:"workspace"` // its directory on this host
	Network   string          `json:"network"`
	CreatedAt time.Time       `json:"created_at"`
	StartedAt time.Time       `json:"started_at"` // the last time
	Idle      policy.Duration `json:"idle,omitempty"`
	Lifetime  policy.Duration `json:"lifetime,omitempty"`
	Then      string          `json:"then"` // stop or remove, when its time is up
	// Environment names the variables that it was created with.
	Environment []string `json:"environment,omitempty"`
	// End is how it ended the last time.
	End *Ended `json:"end,omitempty"`
	// Isolation is what really holds while it runs, and Running what runs.
	Isolation *policy.Isolation `json:"isolation,omitempty"`
	Use       *Use              `json:"use,omitempty"`
}

func (StatusInput) Desc() op.Desc {
	return op.Desc{
		Name: "status", CLI: []string{"status"},
		Summary: "Describe a persistent sandbox",
		Doc: `Describe a sandbox of "paddock create": whether it runs, since when, what is enforced,
what runs in it, its times, and how it ended the last time and why.`,
		Examples: "  paddock status web",
		Local:    true,
		OfUser:   true,
		Hints:    op.Hints{ReadOnly: true, Idempotent: true, Control: true},
	}
}

func (in StatusInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (StatusOutput, error) {
	if in.Name == "" {
		return StatusOutput{}, op.Unnamed("name")
	}
	k, err := paddock.Find(ctx, in.Name, env.Options)
	if err != nil {
		return StatusOutput{}, err
	}
	out := StatusOutput{ID: k.ID, Name: k.Name, Labels: k.Labels, State: k.State, Backend: k.Backend, Workspace: osstring.String(k.Spec.Workspace.Source), Network: k.Spec.Network.Mode,
		CreatedAt: k.Created, StartedAt: k.Started, Idle: policy.Duration(k.Idle), Lifetime: policy.Duration(k.Life), Then: "stop", Environment: k.Variables}
	if k.Served {
		out.Principal = k.Principal
	}
	if k.Remove {
		out.Then = "remove"
	}
	if k.End != nil {
		e := newEnded(k)
		out.End = &e
	}
	if k.State != paddock.StateRunning && k.State != paddock.StatePaused {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s, err := paddock.Attach(ctx, k.ID, env.Options)
	if err != nil {
		out.Silent = ctx.Err() != nil
		return out, nil // else it has ended meanwhile: what is known is the answer
	}
	defer func() { _ = s.Close() }() // this only detaches
	iso := s.Isolation()
	out.Isolation = &iso
	if use, err := useOf(ctx, s); err == nil {
		out.Use = &use
	}
	out.Silent = ctx.Err() != nil
	return out, nil
}

func (out StatusOutput) Render(w io.Writer) error {
	t := &output.Teller{W: w}
	name := out.ID
	if out.Name != "" {
		name = out.Name + " (" + out.ID + ")"
	}
	t.Line("sandbox %s is %s", name, out.State)
	if out.Silent {
		t.Line("its agent does not answer")
	}
	if out.Principal != "" {
		t.Line("made by a server for %s", text.Label(out.Principal))
	}
	t.Line("workspace %s", text.Escape(text.OrDash(string(out.Workspace))))
	for _, key := range slices.Sorted(maps.Keys(out.Labels)) {
		t.Line("label %s=%s", key, text.Escape(out.Labels[key]))
	}
	t.Line("created %s, started %s", out.CreatedAt.Format(time.RFC3339), out.StartedAt.Format(time.RFC3339))
	then := "stops"
	if out.Then == "remove" {
		then = "is removed"
	}
	if out.Idle > 0 {
		t.Line("%s after %s without use", then, text.Span(time.Duration(out.Idle)))
	}
	if out.Lifetime > 0 {
		t.Line("%s %s after its start", then, text.Span(time.Duration(out.Lifetime)))
	}
	if len(out.Environment) > 0 {
		t.Line("variables that a start needs: %s", strings.Join(out.Environment, ", "))
	}
	if out.Isolation != nil {
		t.Line("%s", op.IsolationNote(*out.Isolation))
	}
	if out.Use != nil {
		out.Use.tell(t)
	}
	if e := out.End; e != nil {
		t.Line("the last time it ended %s: %s", e.At.Format(time.RFC3339), text.Escape(e.Reason))
		if out.State == paddock.StateStopped && e.Left != "" {
			t.Line("%s", e.Left)
		}
		if e.Error != "" {
			t.Line("%s", text.Escape(e.Error))
		}
	}
	return t.Err
}
