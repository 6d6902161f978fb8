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
	"github.com/paddock-dev/paddock/wire"
)

// capturing captures a command's output. If answers have a budget, the output goes to the
// store for output_read, and the answer has an excerpt.
type capturing struct {
	env            *op.Env
	whole          *output.Output // nil without a budget
	stdout, stderr *paddock.Capture
	bound          int64
}

// end returns the captured output. state says how the command has ended. A stream of more than
// shown characters stays in the store for output_read, even if the answer has all of it.
func (k *capturing) end(state string, shown int64) captured {
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

// drop removes the output from the store, if no answer has its id.
func (k *capturing) drop() {
	if k.whole != nil {
		k.whole.Drop()
	}
}

// captured is the part of the output for the answer.
type captured struct {
	stdout, stderr       string
	stdoutCut, stderrCut bool
	output               string // the id for output_read; "" if the answer has everything
}

// capture captures the output of a command that is not started yet, at most bound bytes of
// each stream.
func capture(e *op.Env, cmd *paddock.Cmd, bound int64) *capturing {
	k := &capturing{env: e, bound: bound}
	if e.Budget > 0 {
		k.whole = e.Outputs.New(e.PrincipalName())
		cmd.Stdout, cmd.Stderr = k.whole.Side(0), k.whole.Side(1)
		return k
	}
	k.stdout, k.stderr = &paddock.Capture{Max: bound}, &paddock.Capture{Max: bound}
	cmd.Stdout, cmd.Stderr = k.stdout, k.stderr
	return k
}

// head passes the head of a stream through and counts the rest.
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

// tell writes how much was dropped, so that the head is not mistaken for the whole output.
func (h *head) tell(w io.Writer, name string) error {
	if h.dropped == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "paddock: the %s was cut after %d of %d bytes (max-output)\n", name, h.passed, h.passed+h.dropped)
	return err
}

// maxHeard bounds how much of a stream is stored for the search for a failure's reason.
const maxHeard = 64 << 10

// heard passes a stream through and keeps head and tail, which are searched for the reason
// if the command fails.
type heard struct {
	*paddock.Capture
	w io.Writer
}

func (h *heard) Write(p []byte) (int, error) {
	_, _ = h.Capture.Write(p) // it never fails
	return h.w.Write(p)
}

// listen wraps the streams of a command in heard. Streams that lead to
// the same file, terminal or pipe become one writer, which preserves the order of the
// output; bounded ones stay separate. Standard output that is a pipe is not wrapped: the
// kernel moves its content, which never passes through this process.
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

// fileOf returns the description of a writer that is a file, else nil.
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

// runCaptured runs the command and captures its output.
func runCaptured(env *op.Env, cmd *paddock.Cmd, bound int64, stream *op.Stream) (RunOutput, error) {
	k := capture(env, cmd, bound)
	stop := stream.ReportProgress(cmd.Timeout, k.whole.Printed)
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

// runStreamed runs the command and passes its output through as it comes, at most bound bytes
// of each stream if that is not 0.
func runStreamed(cmd *paddock.Cmd, bound int64, tty bool, stream *op.Stream) (RunOutput, error) {
	stdout, stderr := &head{w: stream.Stdout, left: bound}, &head{w: stream.Stderr, left: bound}
	cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr
	if bound > 0 {
		cmd.Stdout, cmd.Stderr = stdout, stderr
	}
	if tty {
		rows, cols, err := stream.Terminal.Size()
		if err != nil {
			return RunOutput{}, err
		}
		cmd.TTY = &paddock.TTY{Rows: rows, Cols: cols}
	}
	if !tty || !isShell(cmd.Args) { // of what somebody has typed into a shell, nothing says why it ended
		listen(cmd)
	}
	out, err := finish(cmd, stream)
	out.StdoutTruncated, out.StderrTruncated = stdout.dropped > 0, stderr.dropped > 0
	return out, errors.Join(err, stdout.tell(stream.Stderr, "output"), stderr.tell(stream.Stderr, "error output"))
}

// finish starts the command and waits for its end.
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
	stop := passSignals(cmd, stream)
	defer stop()
	err := cmd.Wait()
	result := cmd.Result()
	if result == nil {
		return RunOutput{}, err
	}
	return RunOutput{Command: cmd.Args, ExitCode: result.ExitCode, Ended: newEnded(result), Isolation: result.Isolation}, brokenStream(err)
}

// brokenStream returns the errors of a command's streams: its error without the part that is
// in the result.
func brokenStream(err error) error {
	if exit := (*paddock.ExitError)(nil); errors.As(err, &exit) {
		return exit.Unwrap()
	}
	return err
}

// passSignals passes signals and window sizes to the command until stop is called.
func passSignals(cmd *paddock.Cmd, stream *op.Stream) (stop func()) {
	if stream.Signals == nil {
		return func() {}
	}
	// A failure to pass one cannot be reported: the command has just ended, or the
	// connection broke, which Wait reports.
	pass := func(name string) {
		switch {
		case name == "SIGWINCH" && cmd.TTY != nil:
			if rows, cols, err := stream.Terminal.Size(); err == nil {
				_ = cmd.Resize(rows, cols)
			}
		case (name == "SIGINT" || name == "SIGQUIT") && stream.Foreground != nil && stream.Foreground():
			_ = cmd.SignalGroup(name) // a key, which is for all of the job
		default:
			_ = cmd.Signal(name)
		}
	}
	unhook := func() {}
	if stream.OnSuspend != nil && cmd.TTY == nil {
		// Nobody could continue a job inside: without a shell that controls jobs, the kernel does not stop it by TSTP.
		unhook = stream.OnSuspend(func() { _ = cmd.SignalGroup("SIGSTOP") }, func() { _ = cmd.SignalGroup("SIGCONT") })
	}
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, name := range stream.EarlySignals() {
			pass(name)
		}
		for {
			select {
			case name := <-stream.Signals:
				pass(name)
			case <-end:
				return
			}
		}
	}()
	return func() {
		unhook()
		close(end)
		<-ended
	}
}

var _ paddock.Kept = &heard{}
