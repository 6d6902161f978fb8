package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/namespace"
	"github.com/paddock-dev/paddock/op"
)

// Bounds of commands in namespaces.
const (
	execCapture        = 256 << 10 // bytes of each stream
	execTimeoutDefault = 120       // seconds
	execTimeoutMost    = 600
)

// ExecOutput is the result of linux_unshare_exec and linux_nsenter_exec.
type ExecOutput struct {
	ReturnCode int    `json:"returncode"` // -N if signal N ended it, -1 if it timed out or was not started
	Stdout     string `json:"stdout"`     // without white space around it; empty if output went to a stream
	Stderr     string `json:"stderr"`
	// Command is the equivalent call of unshare(1) or nsenter(1).
	Command         []string `json:"command"`
	TimedOut        bool     `json:"timed_out"`
	SurvivorsKilled int      `json:"survivors_killed"` // how many of Survivors were killed
	Survivors       int      `json:"survivors"`        // processes that were running when the command had ended or timed out
	DeathProved     bool     `json:"death_proved"`     // none is left

	failed bool // it was not started, or not waited for: ReturnCode means nothing
}

// ExitStatus returns the command's own status.
func (out *ExecOutput) ExitStatus() int {
	switch {
	case out.failed:
		return op.StatusFailed
	case out.TimedOut:
		return op.StatusTimedOut
	case out.ReturnCode < 0:
		return op.StatusSignal - out.ReturnCode
	}
	return out.ReturnCode
}

// hostCommand is a command to run in namespaces.
type hostCommand struct {
	setup   namespace.Setup
	argv    []string
	spelled []string // the equivalent call of unshare(1) or nsenter(1)
	timeout time.Duration
}

// run runs the command. The result has the output even if the command timed out or failed.
func (x *hostCommand) run(ctx context.Context, env *op.Env, stream *op.Stream) (*ExecOutput, error) {
	limited, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	stdout, stderr := &text.Head{Max: execCapture}, &text.Head{Max: execCapture}
	c := &namespace.Command{Argv: x.argv, Env: base(env), Stdin: stream.Stdin, Stdout: stdout, Stderr: stderr}
	if stream.Stdout != nil {
		c.Stdout, c.Stderr, c.Terminal = stream.Stdout, stream.Stderr, stream.Terminal != nil
	}
	signals, stop := handOnSignals(stream, c.Terminal)
	defer stop()
	c.Signals = signals
	r, err := namespace.Run(limited, x.setup, c)
	out := &ExecOutput{ReturnCode: -1, Command: x.spelled, Stdout: printed(stdout), Stderr: printed(stderr)}
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		err = &sayError{"Executable not found: " + x.argv[0], err}
		fallthrough
	case err != nil:
		out.Stderr, out.DeathProved, out.failed = joinLines(out.Stderr, err.Error()), true, true
		return out, err
	}
	out.SurvivorsKilled, out.Survivors, out.DeathProved = r.SurvivorsKilled, r.Survivors, r.DeathProved
	if !r.TimedOut {
		out.ReturnCode = r.Code
		return out, nil
	}
	if err := ctx.Err(); err != nil {
		out.failed = true
		return out, fmt.Errorf("cannot finish the command: %w", err)
	}
	out.TimedOut = true
	late := &sayError{fmt.Sprintf("Command timed out after %ds.", int(x.timeout.Seconds())), nil}
	out.Stderr = joinLines(out.Stderr, late.text)
	if stream.Stdout != nil && stream.Stderr != nil {
		late.cause = errTold
		_, _ = fmt.Fprintf(stream.Stderr, "paddock: %s\n", late.text)
	}
	return out, late
}

// joinLines adds a line to a text, which may be empty.
func joinLines(text, line string) string {
	if text == "" {
		return line
	}
	return text + "\n" + line
}

// printed returns the stored part of a stream, with a note if there was more.
func printed(stream *text.Head) string {
	kept := strings.ToValidUTF8(stream.String(), "\uFFFD")
	if stream.Truncated {
		kept += truncated
	}
	return strings.TrimSpace(kept)
}

// base is the environment of commands outside of sandboxes. It has no variables of a server's
// environment, and of a person's only those that a terminal and a shell need.
func base(e *op.Env) []string {
	values := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, v := range []struct{ name, none string }{{"HOME", "/"}, {"TERM", "dumb"}} {
		value, ok := e.Lookup(v.name)
		if !ok {
			value = v.none
		}
		values = append(values, v.name+"="+value)
	}
	return values
}

// handOnSignals translates signals for the command. A command in the caller's terminal gets
// signals of the keyboard directly, so these are left out.
func handOnSignals(stream *op.Stream, terminal bool) (signals <-chan syscall.Signal, stop func()) {
	out, end := make(chan syscall.Signal), make(chan struct{})
	go func() {
		for {
			select {
			case name := <-stream.Signals:
				number := unix.SignalNum(name)
				if number == 0 || terminal && (number == unix.SIGINT || number == unix.SIGQUIT || number == unix.SIGWINCH) {
					continue
				}
				select {
				case out <- number:
				case <-end:
					return
				}
			case <-end:
				return
			}
		}
	}()
	return out, func() { close(end) }
}

// Render writes captured output; streamed output has been written already.
func (out *ExecOutput) Render(w io.Writer) error {
	if out.Stdout == "" {
		return nil
	}
	_, err := io.WriteString(w, out.Stdout+"\n")
	return err
}

// execTimeout returns a time limit from a number of seconds.
func execTimeout(l looseInt) (time.Duration, error) {
	if l.wrong {
		return 0, sentence("timeout must be an integer.")
	}
	return time.Duration(l.within(1, execTimeoutMost, execTimeoutDefault)) * time.Second, nil
}

// switches returns the flags that are set in a struct, by the tags of its fields.
func switches(in any) []string {
	v := reflect.ValueOf(in)
	var flags []string
	for i := range v.NumField() {
		name := "--" + v.Type().Field(i).Tag.Get("flag")
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			if f.Bool() {
				flags = append(flags, name)
			}
		case reflect.String:
			switch _, bare := f.Interface().(bareOr); {
			case f.String() == "", bare && f.String() == "false":
			case bare && f.String() == "true":
				flags = append(flags, name)
			default:
				flags = append(flags, name+"="+f.String())
			}
		case reflect.Slice:
			for j := range f.Len() {
				flags = append(flags, name+"="+f.Index(j).String())
			}
		}
	}
	return flags
}

// bareOr is a switch that may have a path: "true" if it has none.
type bareOr string

// UnmarshalJSON reads true, false, or a text.
func (b *bareOr) UnmarshalJSON(data []byte) error {
	var on bool
	if err := json.Unmarshal(data, &on); err == nil {
		*b = bareOr(strconv.FormatBool(on))
		return nil
	}
	return json.Unmarshal(data, (*osstring.String)(b))
}

// OSText says that a path need not be UTF-8.
func (bareOr) OSText() {}

// absolute makes paths absolute that a person gave in flags: those of the type bareOr, and
// those with the tag path.
func absolute(in any) error {
	v := reflect.ValueOf(in).Elem()
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		_, bare := f.Interface().(bareOr)
		switch {
		case !bare && field.Tag.Get("path") == "", f.String() == "", bare && (f.String() == "true" || f.String() == "false"), strings.HasPrefix(f.String(), "/"):
			continue
		}
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("cannot find the current directory: %w", err)
		}
		f.SetString(strings.TrimSuffix(dir, "/") + "/" + f.String())
	}
	return nil
}
