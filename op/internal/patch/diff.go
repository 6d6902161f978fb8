package patch

import (
	"bufio"
	"strings"

	"github.com/paddock-dev/paddock/internal/linediff"
)

// Diff returns the unified diff of a file's two texts, without a header that names
// the file. It is empty if they are the same.
func Diff(before, after []byte) string {
	a, b := linediff.Split(before), linediff.Split(after)
	var out strings.Builder
	w := bufio.NewWriter(&out)
	linediff.WriteHunks(w, a, b, linediff.Diff(a, b))
	_ = w.Flush() // a strings.Builder takes all
	return out.String()
}
