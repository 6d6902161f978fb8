package exec

import (
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
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
