package layer

import (
	"bufio"
	"fmt"
	"io"
)

// WriteStatus writes a line for each change, as git's --name-status does: the kind, a tab, and
// the path, quoted by [Quote]; a renamed directory has both of its paths. That its old path is
// gone is not said again.
func WriteStatus(w io.Writer, changes []Change) error {
	from := make(map[string]bool)
	for _, c := range changes {
		if c.Kind == Renamed {
			from[c.From] = true
		}
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for _, c := range changes {
		var err error
		switch {
		case c.Kind == Renamed:
			_, err = fmt.Fprintf(out, "%c\t%s\t%s\n", c.Kind, Quote(c.From), Quote(c.Path))
		case c.Kind == Deleted && c.From == "" && from[c.Path]:
		default:
			_, err = fmt.Fprintf(out, "%c\t%s\n", c.Kind, Quote(c.Path))
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
