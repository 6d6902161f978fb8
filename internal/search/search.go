// Package search finds lines in the files of a tree.
//
// A [Query] says what to look for; [Compile] checks it, and [Search.Run] walks a
// [Dir] in the order of paths and returns a [Result] that is bounded in every
// direction: lines, bytes, time. The result says what is left out, and where the next
// search must continue.
//
// Files are read in one buffer by one goroutine, while another walks and opens.
// Lines are searched one by one, and those longer than [MaxLine] are counted
// instead. The search looks first for a text that every match must have, which is the main
// reason why it is fast. Commands may have made the tree: names are bytes, anything may change
// or vanish meanwhile, and only the attributes of an open file are trusted.
package search

import (
	"context"
	"errors"
	"io"

	"github.com/paddock-dev/paddock/internal/search/ignore"
)

// Dir is a directory of the tree. Its methods never follow a link.
type Dir interface {
	// List returns the first entries from a name on, in the order of their names'
	// bytes, limit of them at most.
	List(from string, limit int) ([]Entry, error)
	// Dir opens a directory in it.
	Dir(name string) (Dir, error)
	// Open opens a regular file in it, and nothing else.
	Open(name string) (File, error)
	// Has reports whether there is something of that name.
	Has(name string) bool
	Close() error
}

// File is an open regular file.
type File = io.ReadCloser

// Entry is a name in a directory.
type Entry struct {
	Name string
	Kind Kind
}

// Kind is what an entry is.
type Kind uint8

// The kinds of entries.
const (
	Other Kind = iota // a link, a FIFO, a socket, a device
	Regular
	Directory
)

// ErrGone is the error of a [Dir] for an entry that does not exist any more, or is of
// another kind by now.
var ErrGone = errors.New("it is gone")

// Mode selects what a result contains for each file.
type Mode uint8

// The modes.
const (
	Lines  Mode = iota // matching lines, with lines around them
	Paths              // files with a match, or without a pattern all that are meant
	Counts             // files with a match, and how many lines match
)

// Query says what to look for, where, and how much of it the result has. The caller
// bounds the numbers.
type Query struct {
	Pattern          string // RE2 syntax; "" asks for paths by globs alone
	Fixed            bool   // the pattern is plain text
	IgnoreCase, Word bool
	Globs, Exclude   []string // see [ignore.Globs]; no globs mean every file
	NoIgnore         bool     // .gitignore files say nothing
	Mode             Mode
	Before, After    int      // lines of context
	Limit            int      // lines that match, or files, in the result
	PerFile          int      // lines of one file in the result; 0 is no bound
	LineBytes        int      // of a line's text
	Room             int      // bytes of the result, about
	FromPath         []string // go on in this file …
	FromLine         int64    // … after this line; 0 is after the whole file
}

// Search is a query that was checked.
type Search struct {
	Query
	matcher        *Matcher // nil without a pattern
	globs, exclude *ignore.Globs
}

// Compile checks a query. An error is a [*PatternError], or a [*GlobsError].
func Compile(q Query) (*Search, error) {
	s := &Search{Query: q}
	var err error
	if q.Pattern != "" {
		if s.matcher, err = NewMatcher(q.Pattern, q.Fixed, q.IgnoreCase, q.Word); err != nil {
			return nil, err
		}
	}
	if s.globs, err = ignore.ParseGlobs(q.Globs); err != nil {
		return nil, globsError(err, false)
	}
	if s.exclude, err = ignore.ParseGlobs(q.Exclude); err != nil {
		return nil, globsError(err, true)
	}
	return s, nil
}

// GlobsError is the error of a glob that cannot be used.
type GlobsError struct {
	Exclude bool // it is one of Exclude, not of Globs
	*ignore.GlobError
}

// globsError adds in which list the glob is.
func globsError(err error, exclude bool) error {
	var one *ignore.GlobError
	if errors.As(err, &one) {
		return &GlobsError{exclude, one}
	}
	return err
}

// Result is the result of a search.
type Result struct {
	Files    []FileResult
	Matches  int64 // lines that match, in the result or not
	Searched int64 // files that were read, or without a pattern were found
	Binary   int64 // files that hold NUL bytes, and were not read to their end
	TooLong  int64 // lines longer than MaxLine, which were not searched
	Ignored  int64 // files and directories that .gitignore files exclude
	// Unreadable are files and directories that the kernel refused, or that are
	// too deep.
	Unreadable int64
	// Truncated says why this is not all: "limit", "size", "time"; else "".
	Truncated string
	// NextPath and NextLine are FromPath and FromLine of the query that goes on.
	NextPath []string
	NextLine int64
}

// FileResult is one file.
type FileResult struct {
	Path  []string
	Count int64 // lines that match
	Lines []Line
}

// Line is a line of a file.
type Line struct {
	Number int64 // from 1
	Column int   // of the first match, in bytes from 1; 0 for a line around one
	Text   string
	Start  int   // bytes of the line before the text
	Rest   int64 // bytes of the line after the text
}

// Run searches the directory, or the file, that at names below root. If the deadline
// of ctx passes, the result says so; any other end of ctx is an error.
func (s *Search) Run(ctx context.Context, root Dir, at []string, file bool) (*Result, error) {
	c := &collector{search: s, result: &Result{}, room: s.Room}
	inner, stop := context.WithCancel(ctx)
	items := make(chan item, queue)
	w := &walker{search: s, ctx: inner, out: items, names: maxNames}
	walked := make(chan error, 1)
	go func() {
		defer close(items)
		walked <- w.from(root, at, file)
	}()
	defer func() {
		stop()
		for i := range items { // close the files that are still open
			i.close()
		}
	}()
	for i := range items {
		if err := c.file(ctx, i); err != nil {
			stop()
			for i := range items {
				i.close()
			}
			break
		}
	}
	err := <-walked
	c.result.Ignored = w.ignored
	c.result.Unreadable += w.unreadable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && c.result.Truncated == "":
		c.truncate("time")
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, ctx.Err()
	case c.result.Truncated == "" && err != nil:
		return nil, err
	}
	return c.result, nil
}

// queue is how many files are open and wait for being read.
const queue = 32

// item is a file that is meant. Without a pattern it is not opened.
type item struct {
	path []string
	file File
}

func (i item) close() {
	if i.file != nil {
		_ = i.file.Close()
	}
}
