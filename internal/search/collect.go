package search

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"
)

// collector makes the result.
type collector struct {
	search *Search
	result *Result
	room   int      // bytes that are left
	told   int      // lines or files
	done   []string // the file that was searched last
	line   int64    // and the line that was told last where it is not searched to its end
	reader *reader
}

// errFull ends a search whose result is full.
var errFull = errors.New("the result is full")

// truncate ends the result where it is now.
func (c *collector) truncate(why string) {
	c.result.Truncated = why
	c.result.NextPath, c.result.NextLine = slices.Clone(c.done), c.line
}

// file searches one file, and closes it.
func (c *collector) file(ctx context.Context, i item) error {
	defer i.close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if i.file == nil {
		return c.path(FileResult{Path: i.path})
	}
	if c.reader == nil {
		c.reader = newReader(c.search.matcher)
	}
	var skip int64
	if c.search.FromLine > 0 && slices.Equal(i.path, c.search.FromPath) {
		skip = c.search.FromLine
	}
	f := &found{c: c, file: FileResult{Path: i.path}, skip: skip}
	binary, err := c.reader.search(ctx, i.file, f)
	switch {
	case errors.Is(err, errFull):
		c.result.Searched++
		return err
	case ctx.Err() != nil:
		c.late(f)
		return ctx.Err()
	case err != nil && !errors.Is(err, errEnough):
		c.result.Unreadable++
	case binary:
		c.result.Binary++
	default:
		c.result.Searched++
	}
	if err := f.end(); err != nil {
		return err
	}
	c.done, c.line = i.path, 0
	return nil
}

// late keeps what was found in a file that could not be searched to its end in time.
// A file that takes all the time by itself counts as unreadable: else each search
// would begin with it again.
func (c *collector) late(f *found) {
	switch {
	case f.shown > 0:
		f.keep()
	case c.done == nil:
		c.done, c.line = f.file.Path, 0
		c.result.Unreadable++
	}
}

// path adds a file as a whole to the result.
func (c *collector) path(f FileResult) error {
	cost := pathCost(f.Path)
	switch {
	case c.told == c.search.Limit:
		c.truncate("limit")
		return errFull
	case cost > c.room:
		c.truncate("size")
		return errFull
	}
	if c.search.matcher == nil {
		c.result.Searched++
	}
	c.room -= cost
	c.told++
	c.result.Files = append(c.result.Files, f)
	c.done, c.line = f.Path, 0
	return nil
}

// What lines and files cost beside their text, in bytes.
const (
	lineOverhead = 64
	fileOverhead = 64
)

// pathCost returns what a file takes in the result without its lines, in bytes.
//
//go:noinline
func pathCost(path []string) int {
	n := fileOverhead
	for _, name := range path {
		n += cost(name) + 1
	}
	return n
}

// cost returns what a line's text, or a name, takes as JSON at least, in bytes.
//
//go:noinline
func cost(s string) int {
	n := len(s)
	for _, r := range s {
		switch {
		case r < ' ' || r == 0x7f || r == utf8.RuneError:
			n += 5
		case r == '"' || r == '\\':
			n++
		}
	}
	return n
}

// errEnough ends the search of a file of which no more needs to be known.
var errEnough = errors.New("enough of this file")

// found collects what is found in one file.
type found struct {
	c     *collector
	file  FileResult
	skip  int64 // lines up to this one were told before
	last  int64 // line that was told last
	shown int   // lines that match
}

// wants returns how many lines around matches are wanted.
func (f *found) wants() (before, after int) {
	if f.c.search.Mode != Lines {
		return 0, 0
	}
	return f.c.search.Before, f.c.search.After
}

// numbered reports whether numbers of lines are wanted.
func (f *found) numbered() bool { return f.c.search.Mode == Lines }

// match takes a line that matches, with what comes before it, oldest first.
// told says that lines after it are wanted.
func (f *found) match(before []Line, line Line) (told bool, err error) {
	if line.Number != 0 && line.Number <= f.skip {
		return false, nil
	}
	s := f.c.search
	if s.Mode != Lines {
		f.file.Count++
		if s.Mode == Paths {
			return false, errEnough
		}
		return false, nil
	}
	if s.PerFile > 0 && f.shown == s.PerFile {
		f.file.Count++
		return false, nil
	}
	need := lineOverhead + cost(line.Text)
	if len(f.file.Lines) == 0 {
		need += pathCost(f.file.Path)
	}
	for len(before) > 0 && before[0].Number <= max(f.last, f.skip) {
		before = before[1:]
	}
	for _, b := range before {
		need += lineOverhead + cost(b.Text)
	}
	switch {
	case f.c.told == s.Limit:
		return false, f.full("limit")
	case need > f.c.room:
		return false, f.full("size")
	}
	f.c.room -= need
	f.c.told++
	f.shown++
	f.file.Count++
	f.file.Lines = append(append(f.file.Lines, before...), line)
	f.last = line.Number
	f.c.done, f.c.line = f.file.Path, line.Number
	return true, nil
}

// full ends the search with what the result has of this file.
func (f *found) full(why string) error {
	f.c.truncate(why)
	f.keep()
	return errFull
}

// around takes a line after one that matches, where there is room.
func (f *found) around(line Line) {
	need := lineOverhead + cost(line.Text)
	if line.Number <= f.skip || need > f.c.room {
		return
	}
	f.c.room -= need
	f.file.Lines = append(f.file.Lines, line)
	f.last = line.Number
}

// end ends the file.
func (f *found) end() error {
	if f.file.Count == 0 {
		return nil
	}
	if f.c.search.Mode == Lines {
		f.keep()
		return nil
	}
	f.c.result.Matches += f.file.Count
	return f.c.path(f.file)
}

// keep puts the file into the result.
func (f *found) keep() {
	f.c.result.Matches += f.file.Count
	if len(f.file.Lines) > 0 {
		f.c.result.Files = append(f.c.result.Files, f.file)
	}
}
