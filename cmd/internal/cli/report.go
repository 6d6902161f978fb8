package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// The exit statuses of this program's own failures.
const (
	statusTimedOut      = 124
	statusFailed        = 125
	statusNotExecutable = 126
	statusNotFound      = 127
	statusSignal        = 128 // plus the signal's number
)

// report prints what went wrong and returns the exit status that tells it.
func report(w io.Writer, err error) int {
	if readerGone(err) {
		return statusSignal + int(syscall.SIGPIPE)
	}
	for _, one := range flatten(err) {
		fmt.Fprintf(w, "paddock: %s\n", oneLine(one.Error()))
		if hint := op.HintOf(one); hint != "" {
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

// flatten takes joined errors apart; each gets lines of its own.
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

// FlagError puts cobra's and pflag's complaints into our words.
func FlagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help"
	if fields := policy.FieldErrors(err); len(fields) > 0 {
		return fields[0]
	}
	unknown, bare := (*pflag.NotExistError)(nil), (*pflag.ValueRequiredError)(nil)
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if near := policy.Nearest(unknown.GetSpecifiedName(), flags); near != "" && strings.HasPrefix(name, "--") {
			hint = "did you mean --" + near + "? " + hint
		}
		return &paddock.Error{Message: "cannot use " + name + ": " + cmd.CommandPath() + " has no such flag", Hint: hint}
	case errors.As(err, &bare):
		return &paddock.Error{Message: "cannot use --" + bare.GetFlag().Name + ": its value is missing", Hint: hint}
	}
	return &paddock.Error{Message: "cannot read the flags: " + err.Error(), Hint: hint}
}

// interrupted is the end of a run by a signal that came once too often.
type interrupted struct{ signal syscall.Signal }

// Error says what became of the sandbox.
func (i *interrupted) Error() string {
	return "interrupted: what was started was ended (" + i.signal.String() + ", three times)"
}
