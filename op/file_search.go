package op

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/search"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// What a search tells where the call does not say.
const (
	defaultLines       = 200 // lines that match
	defaultFiles       = 1000
	defaultLineBytes   = 300
	defaultSearchTime  = 30 * time.Second
	maxSearchTime      = wire.MaxSearchTimeoutMS * time.Millisecond
	defaultSearchBytes = 1 << 20
)

// FileSearchInput asks for lines of files, or for files.
type FileSearchInput struct {
	InSandbox
	Glob       []string         `json:"glob,omitempty" flag:"glob" short:"g" arg:"GLOB" help:"search these files alone: '*.go' in any directory, 'src/**/*.{ts,tsx}' below the path, 'docs' all that is in it (may be repeated)" max:"64"`
	Exclude    []string         `json:"exclude,omitempty" flag:"exclude" short:"x" arg:"GLOB" help:"leave these files and directories out, written as globs are (may be repeated)" max:"64"`
	Fixed      bool             `json:"fixed,omitempty" flag:"fixed" short:"F" help:"the pattern is plain text, not an expression"`
	IgnoreCase bool             `json:"ignore_case,omitempty" flag:"ignore-case" short:"i" help:"small letters and capitals are the same"`
	Word       bool             `json:"word,omitempty" flag:"word" help:"match whole words alone"`
	Output     string           `json:"output,omitempty" flag:"output" arg:"WHAT" help:"content: lines that match (default), files: paths alone, count: paths with the number of lines that match" choices:"content,files,count"`
	Context    uint64           `json:"context,omitempty" flag:"context" short:"C" arg:"N" help:"show so many lines before and after each that matches" max:"50"`
	Before     uint64           `json:"before,omitempty" flag:"before" short:"B" arg:"N" help:"show so many lines before each that matches" max:"50"`
	After      uint64           `json:"after,omitempty" flag:"after" short:"A" arg:"N" help:"show so many lines after each that matches" max:"50"`
	NoIgnore   bool             `json:"no_ignore,omitempty" flag:"no-ignore" help:"search what .gitignore files leave out, too"`
	Limit      uint64           `json:"limit,omitempty" flag:"limit" arg:"N" help:"lines that match, or files, in one answer (default: 200 lines, 1000 files)" min:"1" max:"10000"`
	PerFile    uint64           `json:"per_file,omitempty" flag:"per-file" arg:"N" help:"lines that are shown of one file; count says how many match (default: no bound)" min:"1" max:"10000"`
	LineBytes  uint64           `json:"line_bytes,omitempty" flag:"line-bytes" arg:"N" help:"how much of a line is shown, around the match (default: 300)" min:"16" max:"65536"`
	Timeout    *policy.Duration `json:"timeout,omitempty" flag:"timeout" arg:"DURATION" help:"tell what was found until then: 10s (default: 30s; at most 5m)"`
	Cursor     string           `json:"cursor,omitempty" flag:"cursor" arg:"CURSOR" help:"next_cursor of the answer before, to go on" max:"131072"`
	Pattern    string           `json:"pattern,omitempty" arg:"[PATTERN]" help:"an expression in RE2 syntax for a part of a line; without one, files are found by their names (glob)" max:"1024"`
	Path       string           `json:"path,omitempty" arg:"[PATH]" help:"the directory or the file to search (default: the workspace)" max:"4096"`
}

func fileSearchOp() Op {
	return New(Desc{
		Name: "file_search", CLI: []string{"file", "search"},
		Summary: "Search the files of the workspace by content and by name",
		Doc: `Search files for lines that match an expression, or find files by name. Use it in
place of grep, rg and find: it is as fast, bounded, and says what it left out.

pattern is a regular expression (RE2: no look-around, no back-references) for a
part of one line; fixed makes it plain text. glob and exclude choose files, as in
a .gitignore: without a slash they are about names in any directory, with one
about paths below path; what matches a directory means all that is in it; ** is
any number of directories, {a,b} either. With glob alone, files are found by name.

Not searched: .git, what .gitignore files (and .git/info/exclude) ignore unless
no_ignore is set, symbolic links, files that are no text (with a NUL byte). Hidden
files are searched; exclude ".*" leaves them out. A path that is given is searched
even if it is ignored.

The answer has files in the order of their paths, with line numbers and the column
of the first match in bytes, both from 1. A long line is cut around its match;
too_long counts lines of more than 1 MiB, which are not searched.
matches counts the lines that match up to where the search ended. truncated says why there
is more (limit, size of the answer, time); next_cursor goes on behind the last, and
a narrower glob or path, or output "files" or "count", is often better.`,
		Examples: `  # where something is called, with a line around it
  paddock file search --glob '*.go' -C 1 'Open\(ctx'

  # files by name
  paddock file search --glob 'test_*.py'

  # how often, below one directory
  paddock file search --output count -i todo src`,
		Profile: ProfileWorkspace,
		Hints:   readHints,
	}, fileSearch, renderFileSearch)
}

// check refuses what makes no sense, before a sandbox is made for it.
func (in FileSearchInput) check() error {
	if in.Pattern == "" && len(in.Glob) == 0 {
		return &policy.FieldError{Field: "pattern", Reason: "there is no pattern, and no glob", Hint: "give a pattern for lines, or a glob for files"}
	}
	if err := oneOf("output", in.Output, wire.SearchContent, wire.SearchPaths, wire.SearchCount); err != nil {
		return err
	}
	if in.Path != "" {
		if err := checkPath("path", in.Path); err != nil {
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

// request is what the agent is asked, for an answer that takes so many characters.
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
		Path: wire.Path(cmp.Or(in.Path, "/workspace")), Pattern: in.Pattern, Fixed: in.Fixed, IgnoreCase: in.IgnoreCase, Word: in.Word,
		Glob: in.Glob, Exclude: in.Exclude, NoIgnore: in.NoIgnore, Output: cmp.Or(in.Output, wire.SearchContent),
		Before: number(in.Before, around), After: number(in.After, around), Limit: number(in.Limit, limit), PerFile: number(in.PerFile, 0),
		LineBytes: number(in.LineBytes, defaultLineBytes), MaxBytes: int64(max(room, 1024)), TimeoutMS: max(1, timeout.Milliseconds()), Cursor: in.Cursor,
	}
}

func fileSearch(ctx context.Context, env *Env, in FileSearchInput, _ *Stream) (out FileSearchOutput, err error) {
	if err := in.check(); err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		r, err := s.Client().SearchFiles(ctx, in.request(min(defaultSearchBytes, env.room(defaultSearchBytes))))
		if err != nil {
			return searchError(in, err)
		}
		out = newFileSearchOutput(in, r)
		return nil
	})
	return out, err
}

// searchError is what the agent said, by the field that it is about.
func searchError(in FileSearchInput, err error) error {
	var own *wire.Error
	if !errors.As(err, &own) {
		return refusal("search", err)
	}
	switch {
	case own.Object == "cursor":
		return &policy.FieldError{Field: "cursor", Value: in.Cursor, Reason: "it is not next_cursor of an answer to this search"}
	case own.Code == wire.CodeUnknownAction:
		return refusal("search: the sandbox was made by an older paddock", err)
	}
	return fileError("search", cmp.Or(in.Path, "/workspace"), err)
}

// plainPath is a path as answers tell it: from the workspace.
func plainPath(p wire.Path) string {
	text := strings.TrimPrefix(strings.ToValidUTF8(string(p), "\uFFFD"), "/workspace")
	return cmp.Or(strings.TrimPrefix(text, "/"), ".")
}
