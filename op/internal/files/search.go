package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/search"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Defaults of a search.
const (
	defaultLines       = 200 // lines that match
	defaultFiles       = 1000
	defaultLineBytes   = 300
	defaultSearchTime  = 30 * time.Second
	maxSearchTime      = wire.MaxSearchTimeoutMS * time.Millisecond
	defaultSearchBytes = 1 << 20
)

type FileSearchInput struct {
	op.InSandbox
	Glob       []string         `json:"glob,omitempty" flag:"glob" short:"g" arg:"GLOB" help:"search only these files: '*.go' in any directory, 'src/**/*.{ts,tsx}' below the path, 'docs' everything in it (may be repeated)" max:"64"`
	Exclude    []string         `json:"exclude,omitempty" flag:"exclude" short:"x" arg:"GLOB" help:"leave out these files and directories, with the syntax of glob (may be repeated)" max:"64"`
	Fixed      bool             `json:"fixed,omitempty" flag:"fixed" short:"F" help:"the pattern is plain text, not a regular expression"`
	IgnoreCase bool             `json:"ignore_case,omitempty" flag:"ignore-case" short:"i" help:"ignore the case of letters"`
	Word       bool             `json:"word,omitempty" flag:"word" help:"match only whole words"`
	Output     string           `json:"output,omitempty" flag:"output" arg:"WHAT" help:"content: matching lines (default), files: only paths, count: paths with the number of matching lines" choices:"content,files,count"`
	Context    uint64           `json:"context,omitempty" flag:"context" short:"C" arg:"N" help:"show this many lines before and after each match" max:"50"`
	Before     uint64           `json:"before,omitempty" flag:"before" short:"B" arg:"N" help:"show this many lines before each match" max:"50"`
	After      uint64           `json:"after,omitempty" flag:"after" short:"A" arg:"N" help:"show this many lines after each match" max:"50"`
	NoIgnore   bool             `json:"no_ignore,omitempty" flag:"no-ignore" help:"also search what .gitignore files exclude"`
	Limit      uint64           `json:"limit,omitempty" flag:"limit" arg:"N" help:"matching lines, or files, in one answer (default: 200 lines, 1000 files)" min:"1" max:"10000"`
	PerFile    uint64           `json:"per_file,omitempty" flag:"per-file" arg:"N" help:"lines to show of one file; count says how many match (default: no bound)" min:"1" max:"10000"`
	LineBytes  uint64           `json:"line_bytes,omitempty" flag:"line-bytes" arg:"N" help:"how much of a line to show, around the match (default: 300)" min:"16" max:"65536"`
	Timeout    *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DURATION" help:"stop after this time and return what was found, such as 10s (default: 30s; at most 5m)"`
	Cursor     string           `json:"cursor,omitempty" flag:"cursor" arg:"CURSOR" help:"next_cursor of the previous answer, to continue" max:"131072"`
	Pattern    string           `json:"pattern,omitempty" arg:"[PATTERN]" help:"a regular expression (RE2 syntax) for a part of a line; without one, files are found by name (glob)" max:"1024"`
	Path       osstring.String  `json:"path,omitempty" arg:"[PATH]" help:"the directory or the file to search (default: the workspace)" max:"4096"`
}

func (FileSearchInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_search", CLI: []string{"file", "search"},
		Summary: "Search the files of the workspace by content and by name",
		Doc: `Search files for lines that match a regular expression, or find files by name. Use
it instead of grep, rg and find: it is as fast, bounded, and says what it left out.

pattern is a regular expression (RE2: no look-around, no back-references) for a
part of one line; fixed makes it plain text. glob and exclude select files like a
.gitignore: without a slash they match names in any directory, with one they match
paths below path; a match of a directory selects everything in it; ** is any number
of directories, {a,b} is either. With glob alone, files are found by name.

Not searched: .git, what .gitignore files (and .git/info/exclude) ignore unless
no_ignore is set, symbolic links, and binary files (with a NUL byte). Hidden files
are searched; exclude ".*" leaves them out. A path that is given is searched even
if it is ignored.

The answer has files sorted by path, with line numbers and the column of the first
match in bytes, both from 1. A long line is cut around its match; too_long counts
lines of more than 1 MiB, which are not searched. matches counts the matching lines
up to where the search ended. truncated says why there may be more (limit, size of
the answer, time); next_cursor continues after the last. A narrower glob or path, or
output "files" or "count", is often better.`,
		Examples: `  # where something is called, with a line around it
  paddock file search --glob '*.go' -C 1 'Open\(ctx'

  # files by name
  paddock file search --glob 'test_*.py'

  # how often, below one directory
  paddock file search --output count -i todo src`,
		Profile: op.ProfileWorkspace,
		Hints:   readHints,
	}
}

// check checks the input, before a sandbox is opened for it.
func (in FileSearchInput) check() error {
	if in.Pattern == "" && len(in.Glob) == 0 {
		return &policy.FieldError{Field: "pattern", Reason: "there is no pattern, and no glob", Hint: "give a pattern for lines, or a glob for files"}
	}
	if err := op.OneOf("output", in.Output, wire.SearchContent, wire.SearchPaths, wire.SearchCount); err != nil {
		return err
	}
	if in.Path != "" {
		if err := op.CheckPath("path", in.Path); err != nil {
			return err
		}
	}
	if in.Timeout != nil && (*in.Timeout <= 0 || time.Duration(*in.Timeout) > maxSearchTime) {
		return &policy.FieldError{Field: "timeout", Value: in.Timeout.String(), Reason: "it must be above 0 and at most 5m"}
	}
	_, err := search.Compile(search.Query{Pattern: in.Pattern, Fixed: in.Fixed, IgnoreCase: in.IgnoreCase, Word: in.Word, Globs: in.Glob, Exclude: in.Exclude})
	var globs *search.GlobsError
	switch {
	case errors.As(err, &globs):
		field, list := "glob", in.Glob
		if globs.Exclude {
			field, list = "exclude", in.Exclude
		}
		return &policy.FieldError{Field: field + "[" + strconv.Itoa(globs.Index) + "]", Value: list[globs.Index], Reason: globs.Reason,
			Hint: `a backslash before *, ?, [ and { makes them stand for themselves`}
	case err != nil:
		return &policy.FieldError{Field: "pattern", Value: in.Pattern, Reason: err.Error(), Hint: `set fixed to search for plain text, or put a backslash before ( ) [ ] { } . * + ? | ^ $`}
	}
	return nil
}

// request returns the request to the agent, for an answer of at most room characters.
func (in FileSearchInput) request(room int) wire.SearchRequest {
	number := func(n uint64, otherwise int64) int64 { return cmp.Or(int64(n), otherwise) } // bounded by their tags
	limit := int64(defaultLines)
	if in.Pattern == "" || in.Output != "" && in.Output != wire.SearchContent {
		limit = defaultFiles
	}
	timeout := defaultSearchTime
	if in.Timeout != nil {
		timeout = time.Duration(*in.Timeout)
	}
	around := number(in.Context, 0)
	return wire.SearchRequest{
		Path: cmp.Or(in.Path, "/workspace"), Pattern: in.Pattern, Fixed: in.Fixed, IgnoreCase: in.IgnoreCase, Word: in.Word,
		Glob: in.Glob, Exclude: in.Exclude, NoIgnore: in.NoIgnore, Output: cmp.Or(in.Output, wire.SearchContent),
		Before: number(in.Before, around), After: number(in.After, around), Limit: number(in.Limit, limit), PerFile: number(in.PerFile, 0),
		LineBytes: number(in.LineBytes, defaultLineBytes), MaxBytes: int64(max(room, 1024)), TimeoutMS: max(1, timeout.Milliseconds()), Cursor: in.Cursor,
	}
}

func (in FileSearchInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileSearchOutput, err error) {
	if err := in.check(); err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := s.Client().SearchFiles(ctx, in.request(min(defaultSearchBytes, env.Room(defaultSearchBytes))))
		if err != nil {
			return searchError(in, err)
		}
		out = newFileSearchOutput(in, r)
		return nil
	})
	return out, err
}

// searchError returns the agent's error with the field that it is about.
func searchError(in FileSearchInput, err error) error {
	var own *wire.Error
	if !errors.As(err, &own) {
		return registry.Refusal("search", err)
	}
	switch {
	case own.Object == "cursor":
		return &policy.FieldError{Field: "cursor", Value: in.Cursor, Reason: "it is not next_cursor of an answer to this search"}
	case own.Code == wire.CodeUnknownAction:
		return registry.Refusal("search: the sandbox was made by an older paddock", err)
	}
	return fileError("search", cmp.Or(in.Path, "/workspace"), err)
}

// plainPath returns a path in the form of the outputs: relative to the workspace.
func plainPath(p wire.OSString) wire.OSString {
	text := strings.TrimPrefix(string(p), "/workspace")
	return wire.OSString(cmp.Or(strings.TrimPrefix(text, "/"), "."))
}

type FileSearchOutput struct {
	Path  osstring.String   `json:"path"` // that was searched, from the workspace
	Files []FileSearchFound `json:"files"`
	// Matches counts the matching lines, shown or not, up to where the search ended.
	Matches int64 `json:"matches"`
	// Searched counts the files that were searched; Binary those that were not, or not
	// to their end, because they are binary; Ignored the files and directories that
	// .gitignore files exclude; Unreadable those that could not be read.
	Searched   int64 `json:"searched"`
	Binary     int64 `json:"binary"`
	Ignored    int64 `json:"ignored"`
	Unreadable int64 `json:"unreadable"`
	// TooLong counts lines of more than 1 MiB, which were not searched.
	TooLong int64 `json:"too_long,omitempty"`
	// Truncated is why there may be more: limit, size or time.
	Truncated  string `json:"truncated,omitempty"`
	NextCursor string `json:"next_cursor,omitempty"`

	asked FileSearchInput
}

// FileSearchFound is one file with its matches.
type FileSearchFound struct {
	Path  osstring.String  `json:"path"`            // from the workspace
	Count int64            `json:"count,omitempty"` // matching lines; absent with output files
	Lines []FileSearchLine `json:"lines,omitempty"`
}

// FileSearchLine is one line.
type FileSearchLine struct {
	Line   int64  `json:"line"`             // from 1
	Column int64  `json:"column,omitempty"` // of the first match, in bytes from 1; absent in lines around a match
	Text   string `json:"text"`             // invisible characters as file_read shows them
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
			found.Lines = append(found.Lines, FileSearchLine{Line: l.Line, Column: l.Column, Text: text.EncodeHidden(strings.TrimSuffix(l.Text, "\r")), CutBefore: l.Start, CutAfter: l.Rest})
		}
		out.Files = append(out.Files, found)
	}
	return out
}

// around reports whether the input asks for lines around matches.
func (out FileSearchOutput) around() bool {
	return out.asked.Context+out.asked.Before+out.asked.After > 0
}

// Tell writes each path once, with its lines below it.
func (out FileSearchOutput) Tell(w io.Writer) error {
	var b strings.Builder
	for i, f := range out.Files {
		if len(f.Lines) == 0 {
			b.WriteString(out.entry(f))
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text.QuoteName(string(f.Path)))
		if hidden := f.Count - f.matches(); hidden > 0 {
			fmt.Fprintf(&b, " (%d more lines match)", hidden)
		}
		b.WriteByte('\n')
		out.lines(&b, f, "")
	}
	if len(out.Files) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(out.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// Render writes lines in the format of grep.
func (out FileSearchOutput) Render(w io.Writer) error {
	var b strings.Builder
	for i, f := range out.Files {
		if len(f.Lines) == 0 {
			b.WriteString(out.entry(f))
			continue
		}
		if i > 0 && out.around() {
			b.WriteString("--\n")
		}
		out.lines(&b, f, text.QuoteName(string(f.Path)))
	}
	if out.Truncated != "" || out.TooLong > 0 {
		b.WriteString(out.summary())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// entry returns the text of a file without lines.
func (out FileSearchOutput) entry(f FileSearchFound) string {
	if f.Count == 0 {
		return text.QuoteName(string(f.Path)) + "\n"
	}
	return fmt.Sprintf("%s:%d\n", text.QuoteName(string(f.Path)), f.Count)
}

// matches counts the matching lines among those shown.
func (f FileSearchFound) matches() (n int64) {
	for _, l := range f.Lines {
		if l.Column > 0 {
			n++
		}
	}
	return n
}

// lines writes the lines of a file: the number of a matching line is followed by a colon,
// that of another line by a minus.
func (out FileSearchOutput) lines(b *strings.Builder, f FileSearchFound, path string) {
	for i, l := range f.Lines {
		if i > 0 && l.Line != f.Lines[i-1].Line+1 && out.around() {
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
		shown := l.Text
		if l.CutBefore > 0 {
			shown = "…" + shown
		}
		if l.CutAfter > 0 {
			shown += "…"
		}
		fmt.Fprintf(b, "%d%c%s\n", l.Line, mark, shown)
	}
}

// summary describes the search and how to continue it, in one or two lines.
func (out FileSearchOutput) summary() string {
	var b strings.Builder
	switch {
	case out.asked.Pattern == "":
		fmt.Fprintf(&b, "[%s", text.Count(len(out.Files), "file"))
	case out.asked.Output == wire.SearchPaths:
		fmt.Fprintf(&b, "[%s with a match, of %d searched", text.Count(len(out.Files), "file"), out.Searched)
	default:
		fmt.Fprintf(&b, "[%s in %s, of %d searched", text.Count(out.Matches, "matching line"), text.Count(len(out.Files), "file"), out.Searched)
	}
	for _, left := range []struct {
		n    int64
		what string
	}{{out.Ignored, "ignored by .gitignore (no_ignore searches them)"}, {out.Binary, "no text"}, {out.Unreadable, "not readable"}, {out.TooLong, "lines longer than 1 MiB"}} {
		if left.n > 0 {
			fmt.Fprintf(&b, "; %d %s", left.n, left.what)
		}
	}
	b.WriteString("]\n")
	why := map[string]string{"limit": "the limit is reached", "size": "the answer is full", "time": "the time is up"}[out.Truncated]
	if out.Truncated != "" {
		fmt.Fprintf(&b, "[there may be more: %s. Go on with cursor %s, or narrow glob or path]\n", why, out.NextCursor)
	}
	return b.String()
}
