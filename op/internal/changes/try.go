package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/policy"
)

type TryInput struct {
	exec.RunInput
}

// TryOutput is how the command ended, and what has become of its changes.
type TryOutput struct {
	exec.RunOutput
	Trial
}

// Trial is what a command has changed in a layer of its own, and what has become of it.
type Trial struct {
	Changes  []Change  `json:"changes"`
	Findings []Finding `json:"findings,omitempty"`
	// Decided is "none" (nothing changed), "kept", "committed" or "discarded". A layer that is
	// kept has the sandbox's id.
	Decided string `json:"decided"`
	// Commit is what a commit did.
	Commit *CommitOutput `json:"commit,omitempty"`
}

func (TryInput) Desc() op.Desc {
	return op.Desc{
		Name:    "try",
		CLI:     []string{"try"},
		Summary: "Run a command, look at its changes, and only then let them land",
		Doc: `Run a command as paddock run does, in a workspace of mode overlay: what it changes goes
to a layer above the directory, which stays as it is. At the end the changes are shown,
and at a terminal you are asked what becomes of them:

  commit   they land in the directory; what would run on the host is held back and named
  discard  they are thrown away
  keep     they stay in the layer: paddock diff, commit and discard work on it, by its id

Without a terminal they are kept, and the id is printed: with --quiet it alone, to standard
error. Nothing of the workspace is
read-only for the command: .git/hooks can be changed, too, and lands only if you accept
it by name.

A signal that ends this program keeps the changes.

Do not edit the directory while the command runs. Exit status: that of the command; 125
if its changes could not be shown, or did not land although you asked for it.`,
		Examples: `  paddock try -- npm install left-pad
  paddock try --allow api.example.com -- make release

  # what a script keeps, by its id
  id=$(paddock try --json -- ./migrate | jq -r .sandbox)
  paddock diff --stat "$id" && paddock commit "$id"`,
		Local:   true,
		Opens:   true,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

// Do runs the command, and decides about its changes.
func (in TryInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out TryOutput, err error) {
	out.Changes = []Change{}
	if len(in.Argv) == 0 {
		return out, &paddock.Error{Message: "cannot try: no command was given", Hint: "paddock try [flags of run] -- CMD [ARG]..."}
	}
	if err := in.Check(env, stream); err != nil {
		return out, err
	}
	spec, err := in.ReadSpec(ctx, env)
	if err != nil {
		return out, err
	}
	out.RunOutput, out.Trial, err = Try(ctx, env, stream, in.RunInput, spec, exec.Around{})
	return out, err
}

// Try runs the command of a checked input in a new sandbox whose workspace is an overlay, shows what it
// has changed, and does with the changes what the person at the terminal says.
func Try(ctx context.Context, env *op.Env, stream *op.Stream, in exec.RunInput, spec policy.Spec, around exec.Around) (run exec.RunOutput, out Trial, err error) {
	out.Changes = []Change{}
	if spec.Workspace, err = Overlay(in, spec.Workspace, "or use paddock run"); err != nil {
		return run, out, err
	}
	env.Options.Layer = paddock.LayerOptions{Keep: true, Command: in.Argv}
	running, lent := *stream, &lentInput{}
	if terminal, ok := stream.Stdin.(*os.File); ok && stream.Choose != nil {
		lent.file, running.Stdin = terminal, lent
	}
	run, err = in.Within(ctx, env, &running, spec, around)
	lent.takeBack()
	if run.Sandbox == "" { // nothing was started
		return run, out, err
	}
	ctx, end := untilSignal(context.WithoutCancel(ctx), stream.Signals) // what was done is shown, however the command ended
	defer end()
	t := &trial{RunInput: in, id: run.Sandbox, Trial: &out}
	if derr := t.decide(ctx, env, stream); derr != nil {
		if ctx.Err() != nil {
			out.Decided, derr = "kept", context.Cause(ctx)
		}
		return run, out, fmt.Errorf("the changes are kept in layer %s: %w", run.Sandbox, derr)
	}
	return run, out, err
}

// Overlay returns the workspace of a command whose changes are looked at. It refuses an input that asks for
// another mode; instead is what to do where that is wanted.
func Overlay(in exec.RunInput, ws policy.Workspace, instead string) (policy.Workspace, error) {
	if in.Mode != nil && *in.Mode != policy.ModeOverlay {
		return ws, &policy.FieldError{Field: "workspace_mode", Value: *in.Mode, Reason: "changes can be looked at in an overlay alone", Hint: "leave it out, " + instead}
	}
	ws.Mode, ws.Unprotected = policy.ModeOverlay, nil
	return ws, nil
}

// trial is a command that has ended, and its changes.
type trial struct {
	exec.RunInput
	*Trial
	id string // of its layer
}

// untilSignal returns a context that ends with the first signal that asks this program to end. An
// interrupt that came before was meant for the command.
func untilSignal(ctx context.Context, signals <-chan string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done); cancel(nil) })
	asked := func(name string) bool {
		if err := op.Interrupted(name); err != nil {
			cancel(err)
		}
		return ctx.Err() != nil
	}
	for queued := len(signals); queued > 0; queued-- {
		if name := <-signals; name != "SIGINT" {
			asked(name)
		}
	}
	go func() {
		for {
			select {
			case name := <-signals:
				if asked(name) {
					return
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, end
}

// unless calls do, and returns its error, unless the context ends before: then it goes on by
// itself, since it waits for a person.
func unless(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decide shows the changes, and does with them what the person at the terminal says.
func (t *trial) decide(ctx context.Context, env *op.Env, stream *op.Stream) error {
	l, err := open(ctx, env, t.id, paddock.OpenLayer)
	if err != nil {
		return err
	}
	closing := l.Close
	defer func() { closing() }()
	notes := t.Notes(stream)
	tell := func(format string, args ...any) {
		if notes != nil {
			_, _ = fmt.Fprintf(notes, "paddock: "+format+"\n", args...) // a failure to print it does not matter
		}
	}
	found, err := l.Changes(ctx)
	if errors.Is(err, paddock.ErrClosedLayer) {
		t.Decided = "kept"
		tell("commands closed something to its owner; the changes are kept: paddock diff %s, paddock commit %s, paddock discard %s", t.id, t.id, t.id)
		return nil
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		t.Decided, closing = "none", func() {}
		tell("nothing changed")
		return l.Remove(ctx)
	}
	findings, err := l.Screen(ctx)
	if err != nil {
		return err
	}
	t.Changes, t.Findings = changesOf(found), findingsOf(findings)
	if err := unless(ctx, func() error { return t.show(ctx, l, notes, findingsOf(findings)) }); err != nil {
		return err
	}
	answer := "keep"
	if stream.Choose != nil && stream.Stdout != nil {
		chosen := make(chan string, 1)
		if err := unless(ctx, func() error {
			word, err := stream.Choose("What becomes of the changes?", "commit", "discard", "keep")
			chosen <- word
			return err
		}); err != nil {
			return err
		}
		answer = <-chosen
	}
	switch answer {
	case "commit":
		closing = func() {} // commit closes it
		done, err := CommitInput{ID: t.id}.commit(ctx, l, stream)
		t.Commit, t.Decided = &done, "kept"
		if err != nil {
			return err
		}
		t.Decided = "committed"
		if notes != nil {
			return done.Render(notes)
		}
		return nil
	case "discard":
		t.Decided, closing = "discarded", func() {}
		if err := l.Remove(ctx); err != nil {
			return err
		}
		tell("the changes are discarded")
		return nil
	}
	t.Decided = "kept"
	if t.Quiet && stream.Stdout != nil && stream.Stderr != nil { // nothing else says it
		_, _ = fmt.Fprintln(stream.Stderr, t.id)
	}
	tell("the changes are kept: paddock diff %s, paddock commit %s, paddock discard %s", t.id, t.id, t.id)
	return nil
}

// show writes a summary of the changes, and what of them would run on the host.
func (t *trial) show(ctx context.Context, l *paddock.Layer, notes io.Writer, findings []Finding) error {
	if notes == nil {
		return nil
	}
	if _, err := fmt.Fprintln(notes, "paddock: what has changed:"); err != nil {
		return err
	}
	if err := l.WriteStat(ctx, notes); err != nil {
		return err
	}
	return writeLines(notes, findings, func(f Finding) string { return "paddock: " + f.line() })
}
