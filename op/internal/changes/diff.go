package changes

import (
	"context"
	"errors"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type DiffInput struct {
	ID         string        `json:"id" arg:"NAME" complete:"sandbox" help:"the sandbox, by name or id, as paddock layers shows it"`
	Paths      osstring.List `json:"paths,omitempty" arg:"[PATH]..." max:"4096" help:"only what changed at and below these, relative to the workspace (default: everything)"`
	Stat       bool          `json:"stat,omitempty" flag:"stat" help:"how many lines of each file come and go"`
	NameStatus bool          `json:"name_status,omitempty" flag:"name-status" help:"a line for each path: A new, M changed, D gone, T another type, R a renamed directory"`
	Tar        bool          `json:"tar,omitempty" flag:"tar" help:"a tar archive, as a layer of an OCI image: .wh.NAME is gone"`
	Binary     bool          `json:"binary,omitempty" flag:"binary" help:"have the patch contain binary files, which it otherwise names"`
	Quiet      bool          `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print no notes on standard error, only errors, and look for nothing that is held back"`
}

type DiffOutput struct {
	ID      string   `json:"id"`
	Changes []Change `json:"changes"`
	// Findings are the changes that would run programs on the host, or steer what does.
	Findings []Finding `json:"findings,omitempty"`
	// Left are the devices and sockets that an archive does not have.
	Left osstring.List `json:"left,omitempty"`
}

func (DiffInput) Desc() op.Desc {
	return op.Desc{
		Name:    "diff",
		CLI:     []string{"diff"},
		Summary: "Show what commands changed in a layer",
		Doc: `Show what commands changed in a workspace of mode overlay, against its directory on the
host: a patch that git apply takes, or one of the other forms. Nothing of the layer is
executed, and no git is run.
A PATH is relative to the workspace, not to the current directory.

What would run programs on the host, or steer what does, is named on standard error:
"held back" is what paddock commit lands only if you accept it.

A sandbox may run meanwhile: paddock pause holds it still for as long as you look.

From the first diff on, of one that is stopped, it is recorded what the host's files had at the paths that
changed, so that a later commit tells exactly whether they have changed since.
--name-status reads no files, and records nothing.

Of a patch it is recorded what you have been shown, also while a sandbox runs: a later
commit says so if a change is another one by then. On a terminal, characters that are
invisible, or that control it or the direction of text, are shown by number.`,
		Examples: `  paddock diff --stat pd-k3v9q2mx7wzra
  paddock diff pd-k3v9q2mx7wzra src | git apply --check
  paddock diff --name-status pd-k3v9q2mx7wzra`,
		Local:   true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true},
		Streams: op.Streams{Out: true},
	}
}

// Do writes the form that was asked for.
func (in DiffInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out DiffOutput, err error) {
	forms := 0
	for _, is := range []bool{in.Stat, in.NameStatus, in.Tar, in.Binary} {
		if is {
			forms++
		}
	}
	if forms > 1 {
		return out, &policy.FieldError{Field: "stat", Reason: "of stat, name_status, tar and binary it can be one", Hint: "leave the others out"}
	}
	at, err := paths("paths", in.Paths)
	if err != nil {
		return out, err
	}
	ctx, stop := stream.UntilInterrupted(ctx)
	defer func() {
		if by := (*op.InterruptedError)(nil); errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &by) {
			err = by
		}
		stop()
	}()
	l, err := open(ctx, env, in.ID, paddock.ReadLayer)
	if err != nil {
		return out, err
	}
	defer l.Close()
	silent := stream.Stdout != nil && (in.Quiet || stream.Stderr == nil) // nobody sees what was found
	if !silent {
		findings, err := l.Screen(ctx, at...)
		if err != nil {
			return out, err
		}
		out.Findings = findingsOf(findings)
	}
	found, err := l.Changes(ctx, at...)
	if err != nil {
		return out, err
	}
	out.ID, out.Changes = in.ID, changesOf(found)
	if stream.Stdout == nil {
		return out, nil // the changes say it
	}
	if err := in.write(ctx, l, stream.Stdout, &out, at); err != nil || silent {
		return out, err
	}
	err = writeLines(stream.Stderr, out.Findings, func(f Finding) string { return "paddock: " + f.line() })
	return out, errors.Join(err, writeLines(stream.Stderr, out.Left, func(p string) string { return "paddock: not in the archive: " + name(p) }))
}

// write writes the changes in one form.
func (in DiffInput) write(ctx context.Context, l *paddock.Layer, w io.Writer, result *DiffOutput, at []string) (err error) {
	switch {
	case in.Stat:
		err = l.WriteStat(ctx, w, at...)
	case in.NameStatus:
		err = l.WriteStatus(ctx, w, at...)
	case in.Tar:
		result.Left, err = l.WriteTar(ctx, w, at...)
	default:
		out, end := shown(w)
		err = errors.Join(l.WritePatch(ctx, out, in.Binary, at...), end())
	}
	return err
}

// Render writes nothing more: the form that was asked for has been written.
func (DiffOutput) Render(io.Writer) error { return nil }
