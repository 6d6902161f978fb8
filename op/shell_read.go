package op

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

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
func (in ShellWait) reading(env *Env, idle uint64) (reading, error) {
	r := reading{idle: time.Duration(orCount(in.WaitForIdleMS, idle)) * time.Millisecond, until: in.WaitFor,
		chars: int(orCount(in.Limit, shellChars)), plain: in.Plain == nil || *in.Plain}
	if env.Budget > 0 {
		r.encoded = env.room(0)
	}
	var err error
	r.timeout, err = span("timeout", in.Timeout, shellTimeout, maxTimeout)
	return r, err
}

// untilWithin is how much of the end is looked through for a text that is waited
// for, in bytes: looking through all of it at each piece that comes would take for ever.
const untilWithin = 16 << 10

// readShell reads from a cursor on, and waits as it is told to.
func (h *held) readShell(ctx context.Context, id string, from int64, how reading) (ShellOutput, error) {
	deadline := time.Now().Add(how.timeout)
	var text strings.Builder
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
			return ShellOutput{}, refusal("read shell "+id, err)
		}
		if first {
			out.Cursor, out.DroppedChars = r.Cursor, r.DroppedChars
		}
		out.ShellState, out.More, next = h.shellState(r.Shell), r.Truncated, r.NextCursor
		text.WriteString(r.Output)
		chars += utf8.RuneCountInString(r.Output)
		out.Found = how.until != "" && strings.Contains(plainText(lastOf(text.String(), untilWithin)), how.until)
		over := !time.Now().Before(deadline)
		quiet := r.Output == "" && (how.until == "" || over || r.State != stateRunning)
		if quiet || out.Found || chars >= how.chars || how.idle == 0 && how.until == "" || over {
			out.TimedOut = over && !quiet && !out.Found || how.until != "" && over && !out.Found
			break
		}
	}
	out.take(text.String(), how)
	out.Denials = h.GuessDenials([]byte(plainText(out.Output)))
	return out, nil
}

// take puts the text into the answer: as much of it as the budget leaves room
// for, and no part of a control sequence, of which the rest is still to come.
func (o *ShellOutput) take(text string, how reading) {
	kept := text
	if cut := unfinished(kept); how.plain && o.State == stateRunning && cut > 0 {
		kept = kept[:cut]
	}
	for {
		if o.Output = kept; how.plain {
			o.Output = plainText(kept)
		}
		if how.encoded == 0 || encodedLen(o.Output) <= how.encoded || len(kept) < 16 {
			break
		}
		kept = halfOf(kept)
	}
	o.More = o.More || len(kept) < len(text) && unfinished(text) > len(kept)
	o.NextCursor = o.Cursor + int64(utf8.RuneCountInString(kept))
}

// encodedLen is how long a text is in JSON.
func encodedLen(text string) int {
	b, err := json.Marshal(text)
	if err != nil {
		return len(text) // strings always encode
	}
	return len(b)
}

// halfOf cuts a text near its middle, at a line's end where there is one, and
// in no control sequence.
func halfOf(text string) string {
	n := len(text) / 2
	if line := strings.LastIndexByte(text[:n], '\n'); line > n/2 {
		return text[:line+1]
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	if cut := unfinished(text[:n]); cut > 0 {
		return text[:cut]
	}
	return text[:n]
}
