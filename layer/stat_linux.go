package layer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// stat is a line of a summary.
type stat struct {
	name           string
	added, deleted int
	other          string // instead of lines
}

// WriteStat writes how many lines of each file come and go, as git's --stat does, for a
// terminal of 80 columns.
func (l *Layer) WriteStat(ctx context.Context, w io.Writer, changes []Change) error {
	files, err := l.files(ctx, changes, usualLimits)
	if err != nil {
		return err
	}
	stats := make([]stat, 0, len(files))
	for i := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := l.stat(ctx, &files[i])
		if err != nil {
			return err
		}
		if last := len(stats) - 1; last >= 0 && stats[last].name == s.name { // it became another type
			s.added += stats[last].added
			s.deleted += stats[last].deleted
			if s.other == "" {
				s.other = stats[last].other
			}
			stats = stats[:last]
		}
		stats = append(stats, s)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	writeStats(out, stats)
	return out.Flush()
}

// stat counts the lines of one file.
func (l *Layer) stat(ctx context.Context, f *file) (stat, error) {
	s := stat{name: Quote(f.name())}
	if f.path != "" && f.oldPath != "" && f.path != f.oldPath {
		s.name = Quote(f.oldPath) + " => " + s.name
	}
	for _, e := range []*Entry{f.old, f.new} {
		if e.Mode.IsDir() {
			s.other = "directory"
		} else if gitMode(*e) == 0 && *e != (Entry{}) {
			s.other = "special file"
		}
	}
	if s.other != "" {
		return s, nil
	}
	d, err := l.compareLines(ctx, f)
	if err != nil {
		return s, err
	}
	if d.binary {
		s.other = fmt.Sprintf("Bin %d -> %d bytes", f.old.Size, f.new.Size)
		return s, nil
	}
	s.added, s.deleted = d.counts()
	return s, nil
}

func writeStats(w io.Writer, stats []stat) {
	if len(stats) == 0 {
		return
	}
	const columns, mostName = 80, 50
	nameWidth, most, added, deleted := 0, 0, 0, 0
	for _, s := range stats {
		nameWidth = max(nameWidth, min(mostName, len(s.name)))
		most = max(most, s.added+s.deleted)
		added += s.added
		deleted += s.deleted
	}
	numberWidth := len(strconv.Itoa(most))
	graph := columns - nameWidth - numberWidth - len("  |  ")
	for _, s := range stats {
		name := s.name
		if len(name) > nameWidth {
			name = "..." + name[len(name)-nameWidth+3:]
			if i := strings.IndexByte(name, '/'); i > 0 {
				name = "..." + name[i:]
			}
		}
		if s.other != "" {
			fmt.Fprintf(w, " %-*s | %s\n", nameWidth, name, s.other)
			continue
		}
		line := fmt.Sprintf(" %-*s | %*d %s%s", nameWidth, name, numberWidth, s.added+s.deleted,
			strings.Repeat("+", scale(s.added, most, graph)), strings.Repeat("-", scale(s.deleted, most, graph)))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(w, " %s changed", count(len(stats), "file"))
	if added > 0 || deleted == 0 {
		fmt.Fprintf(w, ", %s(+)", count(added, "insertion"))
	}
	if deleted > 0 || added == 0 {
		fmt.Fprintf(w, ", %s(-)", count(deleted, "deletion"))
	}
	fmt.Fprintln(w)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// scale makes a number of lines fit: what is not nothing stays so.
func scale(n, most, width int) int {
	if most <= width || n == 0 {
		return n
	}
	return max(1, int(int64(n)*int64(width)/int64(most)))
}
