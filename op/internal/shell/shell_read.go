package shell

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// reading is how a shell's output is read.
type reading struct {
	idle    time.Duration
	until   string
	timeout time.Duration
	chars   int // at most
	encoded int // bytes of JSON at most, 0: no bound of its own
	plain   bool
}

// reading puts the defaults and the door's budget to what is asked.
func (in ShellWait) reading(env *op.Env, idle uint64) (reading, error) {
	r := reading{idle: time.Duration(op.OrCount(in.WaitForIdleMS, idle)) * time.Millisecond, until: in.WaitFor,
		chars: int(op.OrCount(in.Limit, op.ShellChars)), plain: in.Plain == nil || *in.Plain}
	if env.Budget > 0 {
		r.encoded = env.Room(0)
	}
	var err error
	r.timeout, err = op.Span("timeout", in.Timeout, op.ShellTimeout, op.MaxTimeout)
	return r, err
}

// untilWithin is how much of the end is looked through for a text that is waited
// for, in bytes: looking through all of it at each piece that comes would take for ever.
const untilWithin = 16 << 10

// readShell reads from a cursor on, and waits as it is told to.
func readShell(h *registry.Sandbox, ctx context.Context, id string, from int64, how reading) (ShellOutput, error) {
	deadline := time.Now().Add(how.timeout)
	var shown strings.Builder
	out, next, chars := ShellOutput{}, from, 0
	for first := true; ; first = false {
		wait := how.idle
		if how.until != "" {
			wait = time.Until(deadline)
		}
		wait = min(max(0, min(wait, time.Until(deadline))), time.Minute)
		r, err := wire.Call(ctx, h.Client(), wire.ReadShell, wire.ReadShellRequest{
			ShellID: id, Cursor: next, MaxChars: int64(how.chars - chars), WaitMS: wait.Milliseconds()})
		if err != nil {
			return ShellOutput{}, registry.Refusal("read shell "+id, err)
		}
		if first {
			out.Cursor, out.DroppedChars = r.Cursor, r.DroppedChars
		}
		out.ShellState, out.More, next = shellState(h, r.Shell), r.Truncated, r.NextCursor
		shown.WriteString(r.Output)
		chars += utf8.RuneCountInString(r.Output)
		out.Found = how.until != "" && strings.Contains(text.PlainText(text.LastOf(shown.String(), untilWithin)), how.until)
		over := !time.Now().Before(deadline)
		quiet := r.Output == "" && (how.until == "" || over || r.State != registry.Running)
		if quiet || out.Found || chars >= how.chars || how.idle == 0 && how.until == "" || over {
			out.TimedOut = over && !quiet && !out.Found || how.until != "" && over && !out.Found
			break
		}
	}
	out.take(shown.String(), how)
	out.Denials = h.GuessDenials([]byte(text.PlainText(out.Output)))
	return out, nil
}

// take puts the text into the answer: as much of it as the budget leaves room
// for, and no part of a control sequence, of which the rest is still to come.
func (o *ShellOutput) take(shown string, how reading) {
	kept := shown
	if cut := text.Unfinished(kept); how.plain && o.State == registry.Running && cut > 0 {
		kept = kept[:cut]
	}
	for {
		if o.Output = kept; how.plain {
			o.Output = text.PlainText(kept)
		}
		if how.encoded == 0 || text.EncodedLen(o.Output) <= how.encoded || len(kept) < 16 {
			break
		}
		kept = halfOf(kept)
	}
	o.More = o.More || len(kept) < len(shown) && text.Unfinished(shown) > len(kept)
	o.NextCursor = o.Cursor + int64(utf8.RuneCountInString(kept))
}

// halfOf cuts a text near its middle, at a line's end where there is one, and
// in no control sequence.
func halfOf(shown string) string {
	n := len(shown) / 2
	if line := strings.LastIndexByte(shown[:n], '\n'); line > n/2 {
		return shown[:line+1]
	}
	for n > 0 && !utf8.RuneStart(shown[n]) {
		n--
	}
	if cut := text.Unfinished(shown[:n]); cut > 0 {
		return shown[:cut]
	}
	return shown[:n]
}
