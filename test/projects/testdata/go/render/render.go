// Package render makes pages and tables of notes.
package render

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"example.invalid/notes/note"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))

// HTML returns a note as a page.
func HTML(n note.Note) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<h1>%s</h1>\n", n.Title)
	if err := markdown.Convert([]byte(n.Body), &b); err != nil {
		return "", err
	}
	return b.String(), nil
}

// Table returns notes as lines of a terminal, so many columns wide, with their sizes.
func Table(notes []note.Note, columns int) string {
	var b strings.Builder
	for _, n := range notes {
		size := humanize.IBytes(uint64(len(n.Body)))
		left := columns - runewidth.StringWidth(size) - 1
		title := runewidth.FillRight(runewidth.Truncate(n.Title, left, "…"), left)
		b.WriteString(title + " " + size + "\n")
	}
	return b.String()
}
