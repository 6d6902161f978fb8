package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
)

type WrittenInput struct{}

type WrittenOutput struct {
	Written []WrittenEntry `json:"written"`
}

// WrittenEntry is a directory, or a file that was mounted by itself, that commands of sandboxes could
// ever change.
type WrittenEntry struct {
	Path osstring.String `json:"path"`
	Gone bool            `json:"gone,omitempty"` // nothing is there any more, or something else: it may have been moved
	Root bool            `json:"root,omitempty"` // root's sandboxes could, and only root can forget it
	// By are the first and the last sandboxes that could. Empty: unknown.
	By []Writer `json:"by"`
}

// Writer is a sandbox that could write to a directory.
type Writer struct {
	Sandbox string    `json:"sandbox"`
	At      time.Time `json:"at"`    // when it started, or its changes landed
	Field   string    `json:"field"` // of its spec, that named the directory; "commit": changes of its layer landed
}

func writtenEntry(w paddock.WrittenPath) WrittenEntry {
	e := WrittenEntry{Path: osstring.String(w.Path), Gone: w.Gone, Root: w.Lent, By: []Writer{}}
	for _, by := range w.Writers {
		e.By = append(e.By, Writer{Sandbox: by.ID, At: by.At.UTC(), Field: by.Field})
	}
	return e
}

// state says what became of it, for people.
func (e WrittenEntry) state() string {
	switch {
	case e.Root:
		return "root's"
	case e.Gone:
		return "gone"
	}
	return "there"
}

func (WrittenInput) Desc() op.Desc {
	return op.Desc{
		Name:    "written",
		CLI:     []string{"written"},
		Summary: "List what sandboxes could ever write",
		Doc: `List the directories, and files that were mounted by themselves, that commands of
sandboxes could ever change, by which sandbox last, and since when. What lies in them
is not trusted: no link in them is followed, no program in them is executed outside of
a sandbox, and nothing of Paddock's own is kept there.

Of directories that an earlier version listed it is unknown by which sandbox. One whose
directory is gone stays, since it may have been moved. paddock written forget takes an
entry off the list.`,
		Examples: `  paddock written
  paddock written --json | jq -r '.written[].path'`,
		Local:  true,
		OfUser: true,
		Hints:  op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do lists them.
func (WrittenInput) Do(_ context.Context, env *op.Env, _ *op.Stream) (WrittenOutput, error) {
	all, err := paddock.Written(env.Options)
	out := WrittenOutput{Written: []WrittenEntry{}}
	for _, w := range all {
		out.Written = append(out.Written, writtenEntry(w))
	}
	return out, err
}

func (out WrittenOutput) Render(w io.Writer) error {
	if len(out.Written) == 0 {
		_, err := fmt.Fprintln(w, "no sandbox could write anything yet")
		return err
	}
	return output.Table(w, func(row output.Row) {
		row("STATE\tSINCE\tLAST\tBY\tPATH")
		for _, e := range out.Written {
			since, last, by := "unknown", "unknown", "unknown"
			if n := len(e.By); n > 0 {
				since, last, by = e.By[0].At.Local().Format("2006-01-02 15:04"), e.By[n-1].At.Local().Format("2006-01-02 15:04"), e.By[n-1].Sandbox
			}
			row("%s\t%s\t%s\t%s\t%s", e.state(), since, last, text.Escape(by), text.Escape(string(e.Path)))
		}
	})
}

type WrittenForgetInput struct {
	Path osstring.String `json:"path" arg:"PATH" complete:"dir" help:"the directory or file, as paddock written lists it"`
	Yes  bool            `json:"yes,omitempty" flag:"yes" short:"y" help:"do not ask"`
}

type WrittenForgetOutput struct {
	Forgotten bool           `json:"forgotten"`
	Entries   []WrittenEntry `json:"entries"`
	// Obeyed are files in it that programs of the host execute or obey, Links those that lead out of
	// it, and Programs those that can be executed, each up to a bound.
	Obeyed   []ObeyedFile `json:"obeyed"`
	Links    []string     `json:"links"`
	Programs []string     `json:"programs"`
	// MoreLinks and MorePrograms are how many are not named, and NotLooked is what was not looked at.
	MoreLinks    int      `json:"more_links,omitempty"`
	MorePrograms int      `json:"more_programs,omitempty"`
	NotLooked    []string `json:"not_looked,omitempty"`
	// Again is what would put it on the list again.
	Again []string `json:"again,omitempty"`

	asked bool
	path  string
}

// ObeyedFile is a file that programs of the host execute or obey.
type ObeyedFile struct {
	Path    osstring.String `json:"path"`
	Tool    string          `json:"tool"`
	Why     string          `json:"why"`
	Unasked bool            `json:"unasked"` // nobody has to ask for it
}

func (WrittenForgetInput) Desc() op.Desc {
	return op.Desc{
		Name:    "written_forget",
		CLI:     []string{"written", "forget"},
		Summary: "Take a directory off the list of what sandboxes could write",
		Doc: `Show what lies in a directory that sandboxes could write and what the host would
execute or obey of it: settings and hooks, links that lead out of it, and programs. Once
you say yes it is trusted again as if no sandbox had ever written to it, with everything
that is in it. Remove first what you do not know.

A directory that a running sandbox can write stays on the list, and one comes back when
a sandbox is started over it again. It asks first; without a terminal nothing is
forgotten unless --yes is given.

Exit status: 0; 1 if it could have been forgotten and nobody agreed.`,
		Examples: `  paddock written forget /tmp
  paddock written forget --yes ~/src/app`,
		Local: true,
		Hints: op.Hints{Destructive: true, Idempotent: true, LongRunning: true},
	}
}

// Do shows what is in it, asks, and forgets it.
func (in WrittenForgetInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (WrittenForgetOutput, error) {
	out := WrittenForgetOutput{Entries: []WrittenEntry{}, Obeyed: []ObeyedFile{}, Links: []string{}, Programs: []string{}, path: string(in.Path)}
	found, err := paddock.FindWritten(ctx, string(in.Path), env.Options)
	if err != nil {
		return out, err
	}
	for _, e := range found.Entries {
		out.Entries = append(out.Entries, writtenEntry(e))
	}
	out.add(found.In)
	out.Again = found.Again
	agreed := in.Yes
	if !agreed && stream.Ask != nil {
		out.asked = true
		if agreed, err = stream.Ask(out.text() + "Trust everything in it again?"); err != nil {
			return out, err
		}
	}
	if agreed {
		err = found.Forget(ctx, env.Options)
		out.Forgotten = err == nil
	}
	return out, errors.Join(err, ctx.Err())
}

// add adds what is in the directory.
func (out *WrittenForgetOutput) add(in obeyed.Inspection) {
	for _, c := range in.Obeyed {
		out.Obeyed = append(out.Obeyed, ObeyedFile{Path: osstring.String(c.Path), Tool: c.By.Tool, Why: c.By.Why, Unasked: c.Unasked()})
	}
	out.Links, out.Programs = append(out.Links, in.Links...), append(out.Programs, in.Programs...)
	out.MoreLinks, out.MorePrograms, out.NotLooked = in.MoreLinks, in.MorePrograms, in.Unseen
}

// ExitStatus returns 1 if it was not forgotten, else 0.
func (out WrittenForgetOutput) ExitStatus() int {
	if !out.Forgotten {
		return 1
	}
	return 0
}

// maxObeyedLines is how many files that the host obeys are printed.
const maxObeyedLines = 50

// text returns what is in the directory, in lines.
func (out WrittenForgetOutput) text() string {
	var b strings.Builder
	for _, e := range out.Entries {
		fmt.Fprintf(&b, "%s: ", text.Escape(string(e.Path)))
		switch n := len(e.By); {
		case e.Gone:
			b.WriteString("nothing is there any more, or another directory; it may have been moved, with links that commands made in it\n")
		case n == 0:
			b.WriteString("sandboxes could write it; which and when is unknown\n")
		default:
			fmt.Fprintf(&b, "sandboxes could write it, at first %s (%s), last %s (%s)\n", text.Escape(e.By[0].Sandbox), e.By[0].At.Local().Format("2006-01-02 15:04"),
				text.Escape(e.By[n-1].Sandbox), e.By[n-1].At.Local().Format("2006-01-02 15:04"))
		}
	}
	part := func(title string, lines []string, more int) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:\n", title)
		for _, line := range lines {
			b.WriteString("  " + text.Escape(line) + "\n")
		}
		if more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	var obeyed []string
	for _, o := range out.Obeyed {
		obeyed = append(obeyed, string(o.Path)+" ("+o.Tool+": "+o.Why+")")
	}
	most := min(len(obeyed), maxObeyedLines)
	part("The host executes or obeys", obeyed[:most], len(obeyed)-most)
	part("Links lead out of it", out.Links, out.MoreLinks)
	part("Programs in it", out.Programs, out.MorePrograms)
	part("Not looked at", out.NotLooked, 0)
	part("It comes back to the list with", out.Again, 0)
	if len(obeyed)+len(out.Links)+len(out.Programs)+len(out.NotLooked) == 0 {
		b.WriteString("Nothing in it is a program, a link that leads out of it, or anything else that the host obeys.\n")
	}
	return b.String()
}

func (out WrittenForgetOutput) Render(w io.Writer) error {
	var b strings.Builder
	if !out.asked {
		b.WriteString(out.text())
	}
	switch {
	case out.Forgotten:
		fmt.Fprintf(&b, "forgotten: %s is trusted again\n", text.Escape(string(out.Entries[0].Path)))
	default:
		fmt.Fprintf(&b, "nothing was forgotten; to forget it: paddock written forget --yes %s\n", quoted(out.path))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
