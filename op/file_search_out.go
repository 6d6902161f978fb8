package op

import (
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/wire"
)

// FileSearchOutput is what was found, in the order of paths and lines.
type FileSearchOutput struct {
	Path  string            `json:"path"` // that was searched, from the workspace
	Files []FileSearchFound `json:"files"`
	// Matches are lines that match, shown or not, up to where the search ended.
	Matches int64 `json:"matches"`
	// Searched are the files that were searched; Binary those that were not, or not
	// to their end, for they are no text; Ignored the files and directories that
	// .gitignore files left out; Unreadable those that could not be read.
	Searched   int64 `json:"searched"`
	Binary     int64 `json:"binary"`
	Ignored    int64 `json:"ignored"`
	Unreadable int64 `json:"unreadable"`
	// TooLong are lines of more than 1 MiB, which were not searched.
	TooLong int64 `json:"too_long,omitempty"`
	// Truncated says why there may be more: limit, size or time.
	Truncated  string `json:"truncated,omitempty"`
	NextCursor string `json:"next_cursor,omitempty"`

	asked FileSearchInput
}

// FileSearchFound is one file.
type FileSearchFound struct {
	Path  string           `json:"path"`            // from the workspace
	Count int64            `json:"count,omitempty"` // lines that match; not with output files
	Lines []FileSearchLine `json:"lines,omitempty"`
}

// FileSearchLine is one line.
type FileSearchLine struct {
	Line   int64  `json:"line"`             // from 1
	Column int64  `json:"column,omitempty"` // where the first match begins, in bytes from 1; not of lines around
	Text   string `json:"text"`             // what cannot be seen by number, as file_read shows it
	// CutBefore and CutAfter are how many bytes of the line are not shown.
	CutBefore int64 `json:"cut_before,omitempty"`
	CutAfter  int64 `json:"cut_after,omitempty"`
}

func newFileSearchOutput(in FileSearchInput, r wire.SearchResult) FileSearchOutput {
	out := FileSearchOutput{Path: plainPath(r.Path), Files: make([]FileSearchFound, 0, len(r.Files)), Matches: r.Matches, Searched: r.Searched,
		Binary: r.Binary, Ignored: r.Ignored, Unreadable: r.Unreadable, TooLong: r.TooLong, Truncated: r.Truncated, NextCursor: r.NextCursor, asked: in}
	for _, f := range r.Files {
		found := FileSearchFound{Path: plainPath(f.Path), Count: f.Count}
		if in.Output == wire.SearchPaths {
			found.Count = 0
		}
		for _, l := range f.Lines {
			found.Lines = append(found.Lines, FileSearchLine{Line: l.Line, Column: l.Column, Text: Reveal(strings.TrimSuffix(l.Text, "\r")), CutBefore: l.Start, CutAfter: l.Rest})
		}
		out.Files = append(out.Files, found)
	}
	return out
}

// around says that lines around those that match were asked for.
func (o FileSearchOutput) around() bool { return o.asked.Context+o.asked.Before+o.asked.After > 0 }

// shown is a line, marked where it is cut.
func (l FileSearchLine) shown() string {
	text := l.Text
	if l.CutBefore > 0 {
		text = "…" + text
	}
	if l.CutAfter > 0 {
		text += "…"
	}
	return text
}

// Tell is for [Teller]: each path once, and its lines below it.
func (o FileSearchOutput) Tell(w io.Writer) error {
	var b strings.Builder
	for i, f := range o.Files {
		if len(f.Lines) == 0 {
			b.WriteString(o.entry(f))
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(NameText(f.Path))
		if hidden := f.Count - f.matches(); hidden > 0 {
			fmt.Fprintf(&b, " (%d more lines match)", hidden)
		}
		b.WriteByte('\n')
		o.lines(&b, f, "")
	}
	if len(o.Files) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(o.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// renderFileSearch writes lines as grep does.
func renderFileSearch(w io.Writer, o FileSearchOutput) error {
	var b strings.Builder
	for i, f := range o.Files {
		if len(f.Lines) == 0 {
			b.WriteString(o.entry(f))
			continue
		}
		if i > 0 && o.around() {
			b.WriteString("--\n")
		}
		o.lines(&b, f, NameText(f.Path))
	}
	if o.Truncated != "" || o.TooLong > 0 {
		b.WriteString(o.summary())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// entry is a file without lines.
func (o FileSearchOutput) entry(f FileSearchFound) string {
	if f.Count == 0 {
		return NameText(f.Path) + "\n"
	}
	return fmt.Sprintf("%s:%d\n", NameText(f.Path), f.Count)
}

// matches are the lines that match, of those shown.
func (f FileSearchFound) matches() (n int64) {
	for _, l := range f.Lines {
		if l.Column > 0 {
			n++
		}
	}
	return n
}

// lines writes the lines of a file: a colon follows the number of one that
// matches, a minus that of another.
func (o FileSearchOutput) lines(b *strings.Builder, f FileSearchFound, path string) {
	for i, l := range f.Lines {
		if i > 0 && l.Line != f.Lines[i-1].Line+1 && o.around() {
			b.WriteString("--\n")
		}
		mark := byte(':')
		if l.Column == 0 {
			mark = '-'
		}
		if path != "" {
			b.WriteString(path)
			b.WriteByte(mark)
		}
		fmt.Fprintf(b, "%d%c%s\n", l.Line, mark, l.shown())
	}
}

// summary says in a line or two what was searched, and how to go on.
func (o FileSearchOutput) summary() string {
	var b strings.Builder
	switch {
	case o.asked.Pattern == "":
		fmt.Fprintf(&b, "[%s", count(int64(len(o.Files)), "file"))
	case o.asked.Output == wire.SearchPaths:
		fmt.Fprintf(&b, "[%s with a match, of %d searched", count(int64(len(o.Files)), "file"), o.Searched)
	default:
		fmt.Fprintf(&b, "[%s in %s, of %d searched", count(o.Matches, "matching line"), count(int64(len(o.Files)), "file"), o.Searched)
	}
	for _, left := range []struct {
		n    int64
		what string
	}{{o.Ignored, "ignored by .gitignore (no_ignore searches them)"}, {o.Binary, "no text"}, {o.Unreadable, "not readable"}, {o.TooLong, "lines longer than 1 MiB"}} {
		if left.n > 0 {
			fmt.Fprintf(&b, "; %d %s", left.n, left.what)
		}
	}
	b.WriteString("]\n")
	why := map[string]string{"limit": "the limit is reached", "size": "the answer is full", "time": "the time is up"}[o.Truncated]
	if o.Truncated != "" {
		fmt.Fprintf(&b, "[there may be more: %s. Go on with cursor %s, or narrow glob or path]\n", why, o.NextCursor)
	}
	return b.String()
}

// count is a number of things.
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
