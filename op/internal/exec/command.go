package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// keeping takes a command's captured output. Where answers have a budget, the
// whole goes to the store, as far as that keeps it, and the answer has an excerpt.
type keeping struct {
	env            *op.Env
	whole          *output.Output // nil where there is no budget
	stdout, stderr *paddock.Capture
	bound          int64
}

// end is what there is to tell once the command has ended, in a way that state
// says; more than shown characters of a stream are kept for who reads on.
func (k *keeping) end(state string, shown int64) captured {
	if k.whole == nil {
		return captured{
			strings.ToValidUTF8(string(k.stdout.Bytes()), "\uFFFD"), strings.ToValidUTF8(string(k.stderr.Bytes()), "\uFFFD"),
			k.stdout.Truncated(), k.stderr.Truncated(), "",
		}
	}
	k.whole.End(state)
	room := k.env.Room(0)
	stderr := k.whole.Excerpt(1, min(room/3, int(min(k.bound, 1<<30))))
	stdout := k.whole.Excerpt(0, min(room-text.Cost(stderr.Text), int(min(k.bound, 1<<30))))
	c := captured{stdout.Text, stderr.Text, stdout.CutBytes > 0, stderr.CutBytes > 0, k.whole.ID()}
	if !c.stdoutCut && !c.stderrCut && int64(len(c.stdout)) <= shown && int64(len(c.stderr)) <= shown || !k.whole.Readable() {
		k.drop()
		c.output = ""
	}
	return c
}

// drop forgets what was kept: there is no answer that names it.
func (k *keeping) drop() {
	if k.whole != nil {
		k.whole.Drop()
	}
}

// captured is what an answer has of it.
type captured struct {
	stdout, stderr       string
	stdoutCut, stderrCut bool
	output               string // for output_read; empty where the answer has all
}

// keep has the command's output captured, of each stream as much as bound bytes.
func keep(e *op.Env, cmd *paddock.Cmd, bound int64) *keeping {
	k := &keeping{env: e, bound: bound}
	if e.Budget > 0 {
		k.whole = e.Outputs.New(e.PrincipalName())
		cmd.Stdout, cmd.Stderr = k.whole.Side(0), k.whole.Side(1)
		return k
	}
	k.stdout, k.stderr = &paddock.Capture{Max: bound}, &paddock.Capture{Max: bound}
	cmd.Stdout, cmd.Stderr = k.stdout, k.stderr
	return k
}

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

// heard passes what is printed on and keeps its beginning and its end, which are looked
// through where the command fails.
type heard struct {
	*paddock.Capture
	w io.Writer
}

func (h *heard) Write(p []byte) (int, error) {
	_, _ = h.Capture.Write(p) // it never fails
	return h.w.Write(p)
}

// listen has what a command without a terminal prints looked through for the reason of a
// failure. Streams that lead to one file, terminal or pipe become one writer, so that the
// order in which the command printed is kept; bounded ones stay two. An output that is a
// pipe of its own is not looked through: what it carries never passes here.
func listen(cmd *paddock.Cmd) {
	hear := func(w io.Writer) io.Writer { return &heard{Capture: &paddock.Capture{Max: maxHeard}, w: w} }
	out, errOut := fileOf(cmd.Stdout), fileOf(cmd.Stderr)
	switch {
	case cmd.Stderr == nil:
	case wire.SameWriter(cmd.Stdout, cmd.Stderr), out != nil && errOut != nil && os.SameFile(out, errOut):
		cmd.Stdout = hear(cmd.Stdout)
		cmd.Stderr = cmd.Stdout
	default:
		cmd.Stderr = hear(cmd.Stderr)
		if out == nil || out.Mode()&os.ModeNamedPipe == 0 {
			cmd.Stdout = hear(cmd.Stdout)
		}
	}
}

// fileOf describes the file that a writer is; nil where it is none.
func fileOf(w io.Writer) os.FileInfo {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return info
}

// capture keeps the command's output, bounded by the library, or by the budget
// of answers.
func capture(env *op.Env, cmd *paddock.Cmd, bound int64, stream *op.Stream) (RunOutput, error) {
	k := keep(env, cmd, bound)
	stop := stream.Beat(cmd.Timeout, k.whole.Printed)
	out, err := finish(cmd, stream)
	stop()
	if out.Command == nil {
		k.drop()
		return out, err
	}
	c := k.end(cmd.Result().String(), bound)
	out.Stdout, out.StdoutTruncated = c.stdout, c.stdoutCut
	out.Stderr, out.StderrTruncated = c.stderr, c.stderrCut
	out.Output = c.output
	return out, err
}

// follow passes the command's output on as it comes. spec is the caller's own
// word: the default bound is for captured output alone.
func follow(cmd *paddock.Cmd, spec policy.Spec, tty bool, stream *op.Stream) (RunOutput, error) {
	stdout := &head{w: stream.Stdout, left: int64(spec.Limits.Output)}
	stderr := &head{w: stream.Stderr, left: int64(spec.Limits.Output)}
	cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr
	if spec.Limits.Output > 0 {
		cmd.Stdout, cmd.Stderr = stdout, stderr
	}
	if !tty {
		listen(cmd)
	} else {
		rows, cols, err := stream.Terminal.Size()
		if err != nil {
			return RunOutput{}, err
		}
		cmd.TTY = &paddock.TTY{Rows: rows, Cols: cols}
	}
	out, err := finish(cmd, stream)
	out.StdoutTruncated, out.StderrTruncated = stdout.dropped > 0, stderr.dropped > 0
	return out, errors.Join(err, stdout.tell(stream.Stderr, "output"), stderr.tell(stream.Stderr, "error output"))
}

// finish starts the command and brings it to its end.
func finish(cmd *paddock.Cmd, stream *op.Stream) (RunOutput, error) {
	if cmd.TTY != nil {
		restore, err := stream.Terminal.Raw()
		if err != nil {
			return RunOutput{}, err
		}
		defer restore()
	}
	if err := cmd.Start(); err != nil {
		return RunOutput{}, err
	}
	stop := handOn(cmd, stream)
	defer stop()
	err := cmd.Wait()
	result := cmd.Result()
	if result == nil {
		return RunOutput{}, err
	}
	return RunOutput{Command: cmd.Args, ExitCode: result.ExitCode, Ended: newEnded(result), Isolation: result.Isolation}, brokenStream(err)
}

// brokenStream drops the part of a command's error that its result tells.
func brokenStream(err error) error {
	if exit := (*paddock.ExitError)(nil); errors.As(err, &exit) {
		return exit.Unwrap()
	}
	return err
}

// handOn hands signals and window sizes on to the command until stop is called.
func handOn(cmd *paddock.Cmd, stream *op.Stream) (stop func()) {
	if stream.Signals == nil {
		return func() {}
	}
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, name := range stream.EarlySignals() {
			handOnOne(cmd, stream, name)
		}
		for {
			select {
			case name := <-stream.Signals:
				handOnOne(cmd, stream, name)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// handOnOne cannot report a failure to anyone: the command has just ended, or
// the connection broke, which Wait tells.
func handOnOne(cmd *paddock.Cmd, stream *op.Stream, name string) {
	if name == "SIGWINCH" && cmd.TTY != nil {
		if rows, cols, err := stream.Terminal.Size(); err == nil {
			_ = cmd.Resize(rows, cols)
		}
		return
	}
	_ = cmd.Signal(name)
}

var _ paddock.Kept = &heard{}
