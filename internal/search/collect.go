package search

import (
	"context"
	"errors"
	"slices"

	"github.com/paddock-dev/paddock/internal/text"
)

// collector makes the result.
type collector struct {
	search *Search
	result *Result
	room   int      // bytes that are left
	count  int      // lines or files in the result
	done   []string // the file that was searched last
	line   int64    // its last line in the result, if it was not searched to its end
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
		switch {
		case f.shown > 0:
			f.keep()
		case c.done == nil:
			// A file that takes all the time by itself counts as unreadable: else each
			// search would begin with it again.
			c.done, c.line = f.file.Path, 0
			c.result.Unreadable++
		}
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

// path adds a file as a whole to the result.
func (c *collector) path(f FileResult) error {
	cost := pathCost(f.Path)
	switch {
	case c.count == c.search.Limit:
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
	c.count++
	c.result.Files = append(c.result.Files, f)
	c.done, c.line = f.Path, 0
	return nil
}

// Size of lines and files in the result besides their text, in bytes.
const (
	lineOverhead = 64
	fileOverhead = 64
)

// pathCost returns what a file takes in the result without its lines, in bytes.
func pathCost(path []string) int {
	n := fileOverhead
	for _, name := range path {
		n += text.JSONSize(name) + 1
	}
	return n
}

// errEnough ends the search of a file when no more of it is needed.
var errEnough = errors.New("enough of this file")

// found collects the matches in one file.
type found struct {
	c     *collector
	file  FileResult
	skip  int64 // lines up to this one were in an earlier result
	last  int64 // last line in the result
	shown int   // lines in the result that match
}

// match adds a line that matches, with the lines before it, oldest first. It reports whether
// the lines after it are wanted, too.
func (f *found) match(before []Line, line Line) (added bool, err error) {
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
	need := lineOverhead + text.JSONSize(line.Text)
	if len(f.file.Lines) == 0 {
		need += pathCost(f.file.Path)
	}
	for len(before) > 0 && before[0].Number <= max(f.last, f.skip) {
		before = before[1:]
	}
	for _, b := range before {
		need += lineOverhead + text.JSONSize(b.Text)
	}
	switch {
	case f.c.count == s.Limit:
		return false, f.full("limit")
	case need > f.c.room:
		return false, f.full("size")
	}
	f.c.room -= need
	f.c.count++
	f.shown++
	f.file.Count++
	f.file.Lines = append(append(f.file.Lines, before...), line)
	f.last = line.Number
	f.c.done, f.c.line = f.file.Path, line.Number
	return true, nil
}

// full ends the search, and keeps the matches of this file that the result has room for.
func (f *found) full(why string) error {
	f.c.truncate(why)
	f.keep()
	return errFull
}

// around adds a line after one that matches, if there is room.
func (f *found) around(line Line) {
	need := lineOverhead + text.JSONSize(line.Text)
	if line.Number <= f.skip || need > f.c.room {
		return
	}
	f.c.room -= need
	f.file.Lines = append(f.file.Lines, line)
	f.last = line.Number
}

// end adds the file to the result, once it was searched to its end.
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

// keep adds the file to the result, with its lines.
func (f *found) keep() {
	f.c.result.Matches += f.file.Count
	if len(f.file.Lines) > 0 {
		f.c.result.Files = append(f.c.result.Files, f.file)
	}
}
