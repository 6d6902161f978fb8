package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// The exit statuses of this program's own failures.
const (
	statusTimedOut      = 124
	statusFailed        = 125
	statusNotExecutable = 126
	statusNotFound      = 127
	statusSignal        = 128 // plus the signal's number
)

// report prints what went wrong and returns the exit status for it.
func report(w io.Writer, err error) int {
	if readerGone(err) {
		return statusSignal + int(syscall.SIGPIPE)
	}
	for _, one := range flatten(err) {
		fmt.Fprintf(w, "paddock: %s\n", oneLine(one.Error()))
		if hint := op.FlagHint(op.HintOf(one)); hint != "" {
			fmt.Fprintf(w, "paddock: hint: %s\n", oneLine(hint))
		}
	}
	return statusOf(err)
}

// readerGone reports whether err is that of a write to our own standard output or
// error output, which nobody reads any more. Other pipes and sockets break, too.
func readerGone(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && errors.Is(failed, syscall.EPIPE) && (failed.Path == os.Stdout.Name() || failed.Path == os.Stderr.Name())
}

func statusOf(err error) int {
	if i := (*interrupted)(nil); errors.As(err, &i) {
		return statusSignal + int(i.signal)
	}
	if i := (*op.InterruptedError)(nil); errors.As(err, &i) {
		return statusSignal + i.Number
	}
	switch {
	case errors.Is(err, paddock.ErrTimeout):
		return statusTimedOut
	case errors.Is(err, paddock.ErrNotFound):
		return statusNotFound
	case errors.Is(err, paddock.ErrNotExecutable):
		return statusNotExecutable
	default:
		return statusFailed
	}
}

// flatten returns the errors that are joined in err; each gets lines of its own.
func flatten(err error) []error {
	several, ok := err.(interface{ Unwrap() []error }) // the join itself, not one inside
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range several.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }

// interrupted is the end of a run by a signal that came once too often.
type interrupted struct{ signal syscall.Signal }

// Error returns what became of the sandbox.
func (i *interrupted) Error() string {
	return "interrupted: what was started was ended (" + i.signal.String() + ", three times)"
}
