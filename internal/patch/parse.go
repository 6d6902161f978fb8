package patch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Patch is a patch that was read.
type Patch struct {
	files []*change
}

// change is what a patch does to one file. old and name are the paths before
// and after; the same where it is neither renamed nor copied.
type change struct {
	old, name                   string
	create, remove, move, clone bool
	mode                        uint32 // as git writes it, 0 where it stays
	hunks                       []hunk
	binary                      *gitdiff.BinaryFragment
	before, after               string // the beginnings of git's names of the contents, for binary data
}

// hunk is a place in a file, and what is to be there.
type hunk struct {
	header   string
	line     int // where it should be, among lines of the old file that earlier hunks have changed; from 1
	first    bool
	trailing bool // there are lines behind what it changes
	old, new []string
	// added and removed are how many of these are no context.
	added, removed int
}

// Parse reads a patch. An error is a *SyntaxError.
func Parse(text []byte, o Options) (*Patch, error) {
	ready, err := prepare(string(text), o)
	if err != nil {
		return nil, err
	}
	files, _, err := gitdiff.Parse(strings.NewReader(ready))
	if err != nil {
		return nil, parserError(err)
	}
	if len(files) == 0 {
		return nil, &SyntaxError{Reason: "it changes no file", Hint: "it must be a unified diff: the lines --- a/PATH and +++ b/PATH, and hunks that begin with @@ -START,COUNT +START,COUNT @@"}
	}
	p := &Patch{}
	for _, f := range files {
		c, err := newChange(f, o.Reverse)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, c)
	}
	if o.Reverse {
		slices.Reverse(p.files)
	}
	return p, nil
}

// Paths are the files that the patch names, each once, in the order of their names.
func (p *Patch) Paths() []string {
	var all []string
	for _, c := range p.files {
		all = append(all, c.old, c.name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// parserLine is where the parser tells the line.
var parserLine = regexp.MustCompile(`^gitdiff: line ([0-9]+): `)

func parserError(err error) error {
	text := err.Error()
	e := &SyntaxError{Reason: strings.TrimPrefix(text, "gitdiff: ")}
	if m := parserLine.FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Reason = text[len(m[0]):]
	}
	return e
}

// The kinds of files in a mode as git writes it.
const (
	modeType    = 0o170000
	modeRegular = 0o100000
	modeLink    = 0o120000
)

func newChange(f *gitdiff.File, reverse bool) (*change, error) {
	c := &change{create: f.IsNew, remove: f.IsDelete, move: f.IsRename, clone: f.IsCopy}
	names := []string{f.OldName, f.NewName}
	switch {
	case c.create:
		names[0] = f.NewName
	case c.remove:
		names[1] = f.OldName
	}
	for i, name := range names {
		clean, reason := cleanPath(name)
		if reason != "" {
			return nil, &SyntaxError{Reason: fmt.Sprintf("cannot use the file %.200q: %s", name, reason), Hint: "name files from the workspace on"}
		}
		names[i] = clean
	}
	c.old, c.name = names[0], names[1]
	if f.NewMode != 0 && f.NewMode != f.OldMode {
		c.mode = uint32(f.NewMode)
	}
	if reverse {
		if c.clone {
			return nil, &SyntaxError{Reason: "cannot reverse the copy to " + c.name, Hint: "delete the copy instead"}
		}
		c.old, c.name, c.create, c.remove = c.name, c.old, c.remove, c.create
		if c.mode = 0; f.OldMode != 0 && (f.NewMode != 0 && f.NewMode != f.OldMode || c.create) {
			c.mode = uint32(f.OldMode)
		}
	}
	for _, mode := range []uint32{uint32(f.OldMode), uint32(f.NewMode)} {
		if kind := mode & modeType; mode != 0 && kind != modeRegular {
			what := "neither a regular file nor a link"
			if kind == modeLink {
				what = "a symbolic link"
			}
			return nil, &SyntaxError{Reason: fmt.Sprintf("%s is %s, and patches change regular files alone", c.name, what), Hint: "use a command for it: ln -s, git submodule"}
		}
	}
	if err := c.content(f, reverse); err != nil {
		return nil, err
	}
	return c, nil
}

// content takes the hunks, or the binary data.
func (c *change) content(f *gitdiff.File, reverse bool) error {
	if f.IsBinary {
		c.binary, c.before, c.after = f.BinaryFragment, f.OldOIDPrefix, f.NewOIDPrefix
		if reverse {
			c.binary, c.before, c.after = f.ReverseBinaryFragment, c.after, c.before
		}
		if c.binary == nil {
			return &SyntaxError{Reason: "it has no data for the binary file " + c.name, Hint: "make the patch with git diff --binary"}
		}
		if c.binary.Size > MaxFile {
			return &SyntaxError{Reason: fmt.Sprintf("%s is longer than %d bytes", c.name, MaxFile)}
		}
		return nil
	}
	for _, t := range f.TextFragments {
		h, err := newHunk(t, reverse)
		if err != nil {
			return &SyntaxError{Reason: c.name + ": " + h.header + ": " + err.Error()}
		}
		c.hunks = append(c.hunks, h)
	}
	return nil
}

func newHunk(t *gitdiff.TextFragment, reverse bool) (hunk, error) {
	h := hunk{
		header: fmt.Sprintf("@@ -%d,%d +%d,%d @@", t.OldPosition, t.OldLines, t.NewPosition, t.NewLines),
		line:   int(max(1, t.NewPosition)), first: t.OldPosition <= 1, trailing: t.TrailingContext > 0,
	}
	if reverse {
		h.line, h.first = int(max(1, t.OldPosition)), t.NewPosition <= 1
	}
	for _, l := range t.Lines {
		before, after := l.Old(), l.New()
		if reverse {
			before, after = after, before
		}
		if before {
			h.old = append(h.old, l.Line)
		}
		if after {
			h.new = append(h.new, l.Line)
		}
		switch {
		case !before:
			h.added++
		case !after:
			h.removed++
		}
	}
	for _, side := range [][]string{h.old, h.new} {
		for i, line := range side {
			if i < len(side)-1 && !strings.HasSuffix(line, "\n") {
				return h, errors.New("a line without an end is not the last of the file")
			}
		}
	}
	return h, nil
}

// lines splits a text, each line with its end.
func lines(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	all := strings.SplitAfter(string(content), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}
