package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type CommitInput struct {
	ID         string        `json:"id" arg:"NAME" complete:"sandbox" help:"the sandbox, by name or id, as paddock layers shows it"`
	Paths      osstring.List `json:"paths,omitempty" arg:"[PATH]..." max:"4096" help:"only what changed at and below these, relative to the workspace (default: everything)"`
	OnConflict string        `json:"on_conflict,omitempty" flag:"on-conflict" arg:"WHAT" choices:"fail,overwrite,skip" help:"where the host's file has changed since: fail (default: nothing lands), overwrite it, or skip that path"`
	Accept     osstring.List `json:"accept,omitempty" flag:"accept" arg:"PATH" max:"4096" help:"land what is held back at and below this path (may be repeated)"`
	Unreviewed bool          `json:"unreviewed,omitempty" flag:"unreviewed" help:"land what has changed since diff showed it, too, without a question"`
	DryRun     bool          `json:"dry_run,omitempty" flag:"dry-run" help:"say what would land, and change nothing"`
	Quiet      bool          `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print only what did not land"`
}

type CommitOutput struct {
	ID     string `json:"id"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Landed are the changes that are in the workspace now, or would be.
	Landed []Change  `json:"landed"`
	Held   []Finding `json:"held,omitempty"`   // what screening held back
	Marked []Finding `json:"marked,omitempty"` // what landed, and deserves a look
	// Conflicts are paths where the host's directory may have changed, and that did not land;
	// Overwritten are those that landed nevertheless, because that was asked for.
	Conflicts   []Conflict `json:"conflicts,omitempty"`
	Overwritten []Conflict `json:"overwritten,omitempty"`
	// HistoryLanded reports that git's objects, branches or index landed while something was
	// held back: git can write that from them.
	HistoryLanded bool `json:"history_landed,omitempty"`
	// Kept reports that the layer is still there, because it has Left more changes.
	Kept bool `json:"kept"`
	Left int  `json:"left"`

	quiet bool
	asked CommitInput
}

// Conflict is a path where the host's directory may have changed since the layer began.
type Conflict struct {
	Path osstring.String `json:"path"`
	Why  string          `json:"why"`
}

func (CommitInput) Desc() op.Desc {
	return op.Desc{
		Name:    "commit",
		CLI:     []string{"commit"},
		Summary: "Land the changes of a layer in the workspace",
		Doc: `Land what commands changed in a workspace of mode overlay in its directory on the host:
everything, or what is at and below the paths. All of it lands, or nothing: a crash in
the middle is finished, or taken back, by the next command that opens the layer.
A PATH is relative to the workspace, not to the current directory.

What would run programs on the host unasked, or steer what does, is held back and
named with the reason, and the rest lands: git's hooks and configuration, nested
repositories, editors' and agents' files, CI definitions, scripts of packages where
they changed, links that lead out, programs named like others in PATH. --accept PATH
lands it. Devices, sockets and set-id bits never land.

If the host's directory has changed since at a path that would land, nothing lands,
unless --on-conflict says otherwise.

What diff has shown you is what lands. If a change has become another one since, or
one has come where diff showed everything, the commit shows the difference and asks, or
fails where nobody can be asked: look again with diff, or land it with --unreviewed. Of
what diff only named, such as binary files, the content is not compared, and a commit
without a diff before lands what there is.

The layer is removed once nothing is left in it.

Exit status: 0; 1 if something was held back or skipped; 125 if nothing landed, for example
because of conflicts.`,
		Examples: `  paddock commit --dry-run pd-k3v9q2mx7wzra
  paddock commit pd-k3v9q2mx7wzra src docs/guide.md
  paddock commit --accept .github/workflows pd-k3v9q2mx7wzra`,
		Local:   true,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{Progress: true},
	}
}

// Do lands them.
func (in CommitInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (CommitOutput, error) {
	if err := op.OneOf("on_conflict", in.OnConflict, "fail", "overwrite", "skip"); err != nil {
		return CommitOutput{}, err
	}
	l, err := open(ctx, env, in.ID, paddock.OpenLayer)
	if err != nil {
		return CommitOutput{}, err
	}
	return in.commit(ctx, l, stream)
}

// commit lands changes of an open layer, which it closes, and removes if nothing is left in it.
func (in CommitInput) commit(ctx context.Context, l *paddock.Layer, stream *op.Stream) (out CommitOutput, err error) {
	out = CommitOutput{ID: in.ID, DryRun: in.DryRun, Landed: []Change{}, Kept: true, quiet: in.Quiet, asked: in}
	closing := l.Close
	defer func() { closing() }()
	what := paddock.LayerCommitOptions{OnConflict: in.OnConflict, Unreviewed: in.Unreviewed, DryRun: in.DryRun, Progress: progress(stream)}
	if what.Paths, err = paths("paths", in.Paths); err == nil {
		what.Accept, err = paths("accept", in.Accept)
	}
	if i := slices.IndexFunc(what.Accept, func(p string) bool { return path.Clean(p) == "." }); err == nil && i >= 0 {
		err = &policy.FieldError{Field: "accept", Value: in.Accept[i], Reason: "what is held back is not accepted all at once", Hint: "look at it, and name the paths, as commit lists them"}
	}
	if err != nil {
		return out, err
	}
	done, err := l.Commit(ctx, what)
	if unseen := (*paddock.LayerReviewError)(nil); errors.As(err, &unseen) && !in.DryRun && stream != nil && stream.Ask != nil {
		agreed, asked := agree(ctx, l, unseen, stream.Ask)
		if asked != nil {
			err = asked
		}
		if agreed { // the layer is locked: it is what was shown
			what.Unreviewed = true
			done, err = l.Commit(ctx, what)
		}
	}
	out.Landed, out.Held, out.Marked, out.Left = changesOf(done.Landed), findingsOf(done.Held), findingsOf(done.Marked), done.Left
	out.HistoryLanded = len(out.Held) > 0 && slices.ContainsFunc(out.Landed, isHistory)
	to := &out.Conflicts
	if in.OnConflict == "overwrite" {
		to = &out.Overwritten
	}
	for _, c := range done.Conflicts {
		*to = append(*to, Conflict{Path: osstring.String(c.Path), Why: c.Why})
	}
	if by := (*op.InterruptedError)(nil); errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &by) {
		return out, fmt.Errorf("%w: nothing has landed", by)
	}
	if err != nil {
		if len(out.Conflicts) > 0 && stream != nil && stream.Stderr != nil { // the error has only the first
			_ = writeLines(stream.Stderr, out.Conflicts, Conflict.line)
		}
		return out, err
	}
	if in.DryRun || out.Left > 0 {
		return out, nil
	}
	closing = func() {}
	if err := l.Remove(context.WithoutCancel(ctx)); err != nil {
		return out, errors.Join(errors.New("all has landed"), err)
	}
	out.Kept = false
	return out, nil
}

// maxAsked is how many bytes of a difference a question has.
const maxAsked = 1 << 20

// agree shows changes that are not what the person was shown, and asks whether they land. What does
// not fit into a question is not agreed to.
func agree(ctx context.Context, l *paddock.Layer, unseen *paddock.LayerReviewError, ask func(string) (bool, error)) (agreed bool, err error) {
	question := &bounded{most: maxAsked}
	for _, c := range unseen.Changed {
		fmt.Fprintf(question, "changed since diff showed it: %s\n", name(c.Path))
	}
	for _, c := range unseen.Appeared {
		fmt.Fprintf(question, "new since then: %s\n", name(c.Path))
	}
	safe := &visible{to: question}
	if err := errors.Join(l.WriteUnreviewed(ctx, safe, unseen), safe.Close()); err != nil || question.full {
		return false, nil //nolint:nilerr // what cannot be shown is not asked: the commit's error says how to look
	}
	n := len(unseen.Changed) + len(unseen.Appeared)
	answer := make(chan bool, 1)
	if err := unless(ctx, func() error {
		is, err := ask(question.String() + "Land " + text.Count(n, "change") + " that diff did not show like this?")
		answer <- is
		return err
	}); err != nil {
		return false, err
	}
	return <-answer, nil
}

// bounded keeps what is written, up to a number of bytes.
type bounded struct {
	strings.Builder
	most int
	full bool // more was written
}

// Write keeps it, or fails.
func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.Len()+len(p) > b.most; b.full {
		return 0, errors.New("it is too long")
	}
	return b.Builder.Write(p)
}

// isHistory reports whether a change is of what git checks files out from.
func isHistory(c Change) bool {
	_, in, found := strings.Cut("/"+string(c.Path)+"/", "/.git/")
	first, _, _ := strings.Cut(in, "/")
	return found && slices.Contains([]string{"objects", "refs", "packed-refs", "reftable", "index", "modules"}, first)
}

// lfsPaths returns the paths to accept for the objects of git LFS that are held back: one's own, or
// the directory of the objects where there are several.
func lfsPaths(held []Finding) (all []string) {
	const objects = "/lfs/objects"
	own, count := map[string]string{}, map[string]int{}
	for _, f := range held {
		repository, _, found := strings.Cut("/"+string(f.Path), objects+"/")
		if dir := strings.TrimPrefix(repository+objects, "/"); found && f.State == "held" && (f.Tool == "git-lfs" || strings.Contains(repository+"/", "/.git/")) {
			if count[dir]++; count[dir] == 1 {
				all = append(all, dir)
			}
			own[dir] = string(f.Path)
		}
	}
	for i, dir := range all {
		if count[dir] == 1 {
			all[i] = own[dir]
		}
	}
	return all
}

// progress returns what tells how far a commit is, or nil.
func progress(stream *op.Stream) func(path string, files, allFiles int, bytes, all int64) {
	if stream == nil || stream.Progress == nil {
		return nil
	}
	return func(path string, files, allFiles int, bytes, all int64) {
		message := fmt.Sprintf("%d of %d files, %s of %s", files, allFiles, text.Size(bytes), text.Size(all))
		if path != "" {
			message += ", copied " + name(path)
		}
		stream.Progress(float64(bytes), float64(all), message)
	}
}

func (c Conflict) line() string {
	return "conflict: " + name(string(c.Path)) + ": " + text.Escape(c.Why)
}

// ExitStatus returns 1 if something that was asked for did not land, else 0.
func (out CommitOutput) ExitStatus() int {
	if len(out.Held)+len(out.Conflicts) > 0 {
		return 1
	}
	return 0
}

// maxAccepts is how many paths a hint names.
const maxAccepts = 8

func (out CommitOutput) Render(w io.Writer) error {
	var b strings.Builder
	_ = writeLines(&b, out.Held, Finding.line) // a Builder cannot fail
	_ = writeLines(&b, out.Conflicts, Conflict.line)
	_ = writeLines(&b, out.Overwritten, func(c Conflict) string { return "overwritten: " + name(string(c.Path)) + ": " + text.Escape(c.Why) })
	if !out.quiet {
		_ = writeLines(&b, out.Marked, Finding.line)
		verb := "landed"
		if out.DryRun {
			verb = "would land"
		}
		fmt.Fprintf(&b, "%s %s\n", text.Count(len(out.Landed), "change"), verb)
	}
	if out.HistoryLanded {
		b.WriteString("git's history lands, too: if it has what is held back, git checkout, reset and stash write that\n")
	}
	if lfs := lfsPaths(out.Held); out.HistoryLanded && len(lfs) > 0 {
		b.WriteString("git's history lands without files of git LFS that it may name, and that are held back: to land them, too: paddock commit ")
		for _, p := range lfs {
			b.WriteString("--accept " + policy.ShellWord(p) + " ")
		}
		b.WriteString(out.ID + "\n")
	}
	out.writeAccepts(&b)
	if out.Kept && !out.DryRun && !out.quiet {
		fmt.Fprintf(&b, "the layer is kept, with %s: paddock diff %s\n", text.Count(out.Left, "change"), out.ID)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeAccepts writes the commands that land the changes that were held back.
func (out CommitOutput) writeAccepts(w io.Writer) {
	var accept, with []string
	for _, f := range out.Held {
		option := "--accept " + policy.ShellWord(name(string(f.Path))) + " "
		switch {
		case f.With != "": // if that was asked for, it is held back or in conflict, which other lines tell
			if to := argument(name(string(f.With))); len(out.asked.Paths) > 0 && !meets(string(f.With), out.asked.Paths) && !slices.Contains(with, to) {
				with = append(with, to)
			}
		case f.State == "held" && !slices.Contains(accept, option):
			accept = append(accept, option)
		}
	}
	again := out.ID
	if out.asked.OnConflict != "" {
		again = "--on-conflict " + out.asked.OnConflict + " " + again
	}
	for _, p := range out.asked.Paths {
		if out.DryRun || slices.ContainsFunc(out.Held, func(f Finding) bool { return meets(string(f.Path), []string{p}) }) || slices.ContainsFunc(out.Conflicts, func(c Conflict) bool { return meets(string(c.Path), []string{p}) }) {
			again += " " + argument(p) // else all of it has landed
		}
	}
	switch {
	case len(accept) > maxAccepts: // the lines above have them all
		fmt.Fprintf(w, "to land what is held back: paddock commit --accept PATH %s, with --accept for each of these %d, or for directories that they are in\n", again, len(accept))
	case len(accept) > 0:
		fmt.Fprintf(w, "to land what is held back: paddock commit %s%s\n", strings.Join(accept, ""), again)
	}
	switch {
	case len(with) > maxAccepts:
		fmt.Fprintf(w, "to land what was moved: paddock commit %s, with the new places that are named above, or all of it: paddock commit %s\n", again, out.ID)
	case len(with) > 0:
		fmt.Fprintf(w, "to land what was moved: paddock commit %s %s\n", again, strings.Join(with, " "))
	}
}

// argument returns a path as a word of a command line that is no flag.
func argument(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return policy.ShellWord(path)
}

// meets reports whether a path is at, below or above one of others, as they were typed.
func meets(p string, others []string) bool {
	return slices.ContainsFunc(others, func(typed string) bool {
		if plain, err := unquote(typed); err == nil && strings.HasPrefix(typed, `"`) {
			typed = plain
		}
		return within(p, typed) || within(path.Clean(typed), p)
	})
}
