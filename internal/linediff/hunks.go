package linediff

import (
	"bufio"
	"bytes"
	"fmt"
)

// around is how many lines of context a hunk has on each side.
const around = 3

// WriteHunks writes edits as hunks of a unified diff, without a header that names files. A failure
// to write is kept by w.
func WriteHunks(w *bufio.Writer, old, changed Text, edits []Edit) {
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].OldStart-edits[n-1].OldEnd <= 2*around {
			n++
		}
		hunk := edits[:n]
		edits = edits[n:]
		first, last := hunk[0], hunk[n-1]
		before := min(around, first.OldStart)
		after := min(around, old.Len()-last.OldEnd)
		fmt.Fprintf(w, "@@ -%s +%s @@\n",
			span(first.OldStart-before, last.OldEnd+after), span(first.NewStart-before, last.NewEnd+after))
		at := first.OldStart - before
		for _, e := range hunk {
			writeLines(w, ' ', old, at, e.OldStart)
			writeLines(w, '-', old, e.OldStart, e.OldEnd)
			writeLines(w, '+', changed, e.NewStart, e.NewEnd)
			at = e.OldEnd
		}
		writeLines(w, ' ', old, at, last.OldEnd+after)
	}
}

// span returns lines as the header of a hunk names them.
func span(start, end int) string {
	n := end - start
	if n > 0 {
		start++ // where lines are, the first is 1; where none are, it is the one before
	}
	return fmt.Sprintf("%d,%d", start, n)
}

func writeLines(w *bufio.Writer, mark byte, t Text, from, to int) {
	for i := from; i < to; i++ {
		line := t.Line(i)
		_ = w.WriteByte(mark)
		_, _ = w.Write(line)
		if !bytes.HasSuffix(line, []byte("\n")) {
			_, _ = w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
