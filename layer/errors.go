package layer

import (
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// LimitError reports that a layer holds more than is read of one.
type LimitError struct {
	What string // as "levels of directories"
	Most int64
	Path string // where the limit was passed
}

// Error says which limit it is, and where.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the layer has more than %d %s, at %s: discard what is not needed there, and try again", e.Most, e.What, shortName(e.Path))
}

// CorruptError reports marks in an upper directory that the kernel makes in no layer of
// this kind, so that nobody can say what commands saw.
type CorruptError struct{ Path, Reason string }

// Error says what is wrong, and where.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the layer is corrupt at %s: %s", shortName(e.Path), e.Reason)
}

// ChangedError reports a file that changed while it was read.
type ChangedError struct {
	Path   string
	Source bool // it is the source's, else the layer's
}

// Error says which file it is.
func (e *ChangedError) Error() string {
	where := "the layer"
	if e.Source {
		where = "your directory"
	}
	return fmt.Sprintf("%s of %s changed while it was read: wait until nothing writes there, and try again", shortName(e.Path), where)
}

// LostError reports renamed directories whose source was moved, removed or replaced by
// another one of its name, so that their content is not what commands saw.
type LostError struct{ Renames []Rename }

// Rename is a directory that commands renamed.
type Rename struct{ From, Path string }

// Error names the first of them.
func (e *LostError) Error() string {
	const shown = 5
	var names []string
	for _, r := range e.Renames[:min(shown, len(e.Renames))] {
		names = append(names, fmt.Sprintf("%s (was %s)", shortName(r.Path), shortName(r.From)))
	}
	if more := len(e.Renames) - shown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "your directory no longer has directories that were renamed in the layer: " + strings.Join(names, ", ") +
		": move them back, or discard these paths"
}

// NameError reports a name that a format cannot hold.
type NameError struct{ Path, Reason string }

// Error says which name it is, and why.
func (e *NameError) Error() string {
	return fmt.Sprintf("cannot write %s: %s", shortName(e.Path), e.Reason)
}

// shortName returns a path as an error shows it. A path can have a mebibyte.
func shortName(path string) string {
	if path == "" {
		path = "."
	}
	return text.QuoteName(text.TruncateCharacters(path, 512, "…"))
}
