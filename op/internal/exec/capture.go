package exec

import (
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

// keeping takes a command's captured output. Where answers have a budget, the
// whole goes to the store, as far as that keeps it, and the answer has an excerpt.
type keeping struct {
	env            *op.Env
	whole          *output.Output // nil where there is no budget
	stdout, stderr *paddock.Capture
	bound          int64
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

var _ paddock.Kept = &heard{}
