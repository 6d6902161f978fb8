package search

import (
	"context"
	"errors"
	"slices"
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

// late keeps what was told of a file that could not be searched to its end in
// time. One that takes all the time there is alone would be met again and again.
func (c *collector) late(f *found) {
	switch {
	case f.shown > 0:
		f.keep()
	case c.done == nil:
		c.done, c.line = f.file.Path, 0
		c.result.Unreadable++
	}
}

// path tells a file as a whole.
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
