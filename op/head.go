package op

import (
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/paddock-dev/paddock"
)

// head passes on the head of a stream and counts the rest.
type head struct {
	w       io.Writer
	left    int64
	passed  int64
	dropped int64
}

func (h *head) Write(p []byte) (int, error) {
	pass := p[:min(int64(len(p)), h.left)]
	h.left -= int64(len(pass))
	h.passed += int64(len(pass))
	h.dropped += int64(len(p) - len(pass))
	if len(pass) > 0 {
		if n, err := h.w.Write(pass); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// tell says what was dropped, so that nobody takes the head for the whole.
func (h *head) tell(w io.Writer, name string) error {
	if h.dropped == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "paddock: the %s was cut after %d of %d bytes (max-output)\n", name, h.passed, h.passed+h.dropped)
	return err
}

// maxHeard bounds what is looked through of an error output that is passed on.
const maxHeard = 64 << 10

// heard passes a stream on and keeps its beginning and its end, which are looked
// through where the command fails.
type heard struct {
	*paddock.Capture
	w io.Writer
}

func (h *heard) Write(p []byte) (int, error) {
	_, _ = h.Capture.Write(p) // it never fails
	return h.w.Write(p)
}

// separate reports whether an error output can be heard: it is one of its own, and not
// the output's pipe, through which both go as they come, in the order in which they were printed.
func separate(stdout, stderr io.Writer) bool {
	if t := reflect.TypeOf(stderr); t == nil || !t.Comparable() || stderr == stdout {
		return false
	}
	out, isFile := stdout.(*os.File)
	err, both := stderr.(*os.File)
	if !isFile || !both {
		return true
	}
	a, aerr := out.Stat()
	b, berr := err.Stat()
	return aerr == nil && berr == nil && (a.Mode()&os.ModeNamedPipe == 0 || !os.SameFile(a, b))
}

var _ paddock.Kept = &heard{}
