package session

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

const (
	// nudgeAfter is when a shell that has said nothing is looked at: it does
	// not report where an error has cost it the rest of its line, and then
	// reads another.
	nudgeAfter = time.Millisecond
	// interruptGrace is how long a round of interrupting may take, and
	// interruptRounds how many there are before the shell is killed.
	interruptGrace  = 400 * time.Millisecond
	interruptRounds = 5
	// interruptAgain is when the first is repeated: a process that was just
	// being made may have lost it.
	interruptAgain = 100 * time.Millisecond
	// maxAttempts is how often a shell that reads lines is asked for a report.
	maxAttempts = 3
	// askGrace is how long a shell that was interrupted may take to report.
	askGrace = 2 * time.Second
)

// order is one command for a session's shell.
type order struct {
	text    string
	stdin   []byte
	timeout time.Duration
	record  *record
	stop    <-chan struct{} // interrupts
}

// ending is how an order ended: with a report, or with the shell's end.
type ending struct {
	reported    bool
	timedOut    bool
	interrupted bool
	broken      bool // the shell was killed because it did not answer
	rescued     bool // a function with the name builtin was removed
	killed      int
	proved      bool
	late        *record
	took        time.Duration
}

// errand is an order on its way.
type errand struct {
	h        *shell
	out      ending
	word     string
	idle     chan error // tells that the shell reads lines again
	pending  bool       // somebody will tell
	attempts int
	rounds   int // of interrupting
	round    *time.Timer
}

// do gives the shell an order and returns when it has ended.
func (h *shell) do(ctx context.Context, o order) (ending, error) {
	h.drain()
	e := &errand{h: h, idle: make(chan error, 1), out: ending{proved: true}}
	e.out.late = h.output.begin(o.record)
	h.output.expectNone()
	e.word = h.expect()
	line, err := h.line(o, e.word)
	if err != nil {
		return e.out, err
	}
	from := time.Now()
	e.send(line)
	e.wait(ctx, o)
	e.finish()
	e.out.took = time.Since(from)
	return e.out, nil
}

// drain takes what the shell's pipes hold.
func (h *shell) drain() {
	for _, t := range h.streams {
		t.drain()
	}
}

// line returns the line that hands an order over to the shell.
func (h *shell) line(o order, word string) (string, error) {
	withStdin := len(o.stdin) > 0
	if withStdin {
		if err := rewrite(h.stdin, o.stdin); err != nil {
			return "", err
		}
	}
	h.state.traps = h.state.traps || mayTrap(o.text)
	if !h.bash {
		return otherLine(o.text, word, h.state, withStdin), nil
	}
	return bashLine(o.text, word, h.state, withStdin), nil
}

// send writes a line to a shell that waits for one. What may have no room in the
// socket goes on beside.
func (e *errand) send(line string) {
	if len(line) <= os.Getpagesize() {
		_, _ = e.h.input.WriteString(line)
		return
	}
	e.pending = true
	go func() {
		_, _ = e.h.input.WriteString(line)
		e.settle()
	}()
}

// look has idle tell when the shell reads lines again.
func (e *errand) look() {
	if !e.pending {
		e.pending = true
		go e.settle()
	}
}

// settle waits until the shell has read all of its line, and then until it
// reads another, which is empty.
func (e *errand) settle() {
	err := consumed(e.h.input)
	if err == nil {
		if _, err = e.h.input.WriteString("\n"); err == nil {
			err = consumed(e.h.input)
		}
	}
	e.idle <- err
}

// wait returns when the shell has reported or ended.
func (e *errand) wait(ctx context.Context, o order) {
	expired := time.NewTimer(o.timeout)
	nudge := time.NewTimer(nudgeAfter)
	e.round = time.NewTimer(o.timeout)
	e.round.Stop()
	defer func() { expired.Stop(); nudge.Stop(); e.round.Stop() }()
	stop, gone := o.stop, ctx.Done()
	for {
		select {
		case <-e.h.heard:
			if e.answered() {
				return
			}
		case <-e.h.process.Done:
			return
		case err := <-e.idle:
			if e.pending = false; err == nil && e.asks() {
				return
			}
		case <-nudge.C:
			e.look()
		case <-expired.C:
			e.out.timedOut, stop, gone = true, nil, nil
			e.interrupt()
		case <-stop:
			e.out.interrupted, stop, gone = true, nil, nil
			expired.Stop()
			e.interrupt()
		case <-gone:
			e.out.interrupted, stop, gone = true, nil, nil
			expired.Stop()
			e.interrupt()
		case <-e.round.C:
			e.interrupt()
		}
	}
}

// answered takes the report, where it is there.
func (e *errand) answered() bool {
	r, ok := e.h.reported()
	if ok {
		e.out.reported = true
		r.traps = e.h.state.traps
		e.h.state, e.h.cwd = r.carried, r.cwd
	}
	return ok
}

// asks wants the report of a shell that reads lines and has not reported. It
// says whether that is over.
func (e *errand) asks() (over bool) {
	if e.answered() {
		return true
	}
	if e.rounds > 0 {
		e.round.Reset(askGrace)
	}
	if e.attempts++; e.attempts > maxAttempts {
		e.out.broken = true
		_, _ = e.h.box.Trees.Kill(e.h.process.Mark)
		<-e.h.process.Done
		<-e.h.lives
		return true
	}
	line := otherReport(e.word)
	if e.h.bash {
		line = bashReport(e.word)
		if e.out.rescued = e.attempts > 1; e.out.rescued {
			line = bashRescue + line
		}
	}
	e.send("\n" + line)
	e.look()
	return false
}

// interrupt is one round of ending what the shell does and keeping the shell:
// as a terminal would, and where that is not heard, by killing all processes
// of the command but the shell. In the end the shell goes too.
func (e *errand) interrupt() {
	h := e.h
	h.output.expectNewline()
	grace := interruptGrace
	switch e.rounds {
	case 0, 1:
		if e.rounds == 0 {
			grace = interruptAgain
		}
		_ = h.box.Reaper.Signal(h.process, h.process.PID, unix.SIGINT)
	case interruptRounds:
		e.out.broken = true
		killed, _ := h.box.Trees.Kill(h.process.Mark)
		e.out.killed += killed
		return
	default:
		killed, proved := h.killOthers()
		e.out.killed, e.out.proved = e.out.killed+killed, proved
		_ = h.box.Reaper.SignalOne(h.process, unix.SIGINT)
	}
	e.rounds++
	_ = h.box.Reaper.SignalOne(h.process, unix.SIGCONT)
	e.round.Reset(grace)
	e.look()
}

// finish sees to what the order has left.
func (e *errand) finish() {
	h := e.h
	if !e.out.reported {
		_ = h.input.SetWriteDeadline(time.Unix(1, 0))
		<-h.process.Done
		<-h.lives
		e.out.killed, e.out.proved = e.out.killed+h.killed, h.proved
	}
	if e.pending {
		<-e.idle //nolint:errcheck // the shell reads, or nobody waits any more
	}
	if e.out.reported && (e.out.timedOut || e.out.interrupted) {
		killed, proved := h.killOthers()
		e.out.killed, e.out.proved = e.out.killed+killed, proved
	}
	h.drain()
}

// killOthers ends the processes of the shell's tree that began with the order.
func (h *shell) killOthers() (killed int, proved bool) {
	return spawn.KillFound(func() ([]spawn.Member, int, error) { return h.others(false) }, func() {})
}

// others returns the members of the tree but the shell; with old, those too that
// were there before the order.
func (h *shell) others(old bool) (list []spawn.Member, unknown int, err error) {
	found, unknown, err := h.box.Trees.Members(h.process.Mark)
	for _, p := range found {
		born, known := h.old[p.PID]
		if p.PID == h.process.PID || !old && known && born == h.box.Trees.Born(p.PID) {
			unix.Close(p.PIDFD)
			continue
		}
		list = append(list, p)
	}
	return list, unknown, err
}

// settleJobs takes note of what lives on in the background. Where there was
// nothing, and the kernel has made no process since, there is nothing to look for.
func (h *shell) settleJobs() (jobs int) {
	last := h.box.Trees.LastPID()
	if last != "" && last == h.lastPID {
		return 0
	}
	found, unknown, err := h.others(true)
	defer func() {
		for _, p := range found {
			unix.Close(p.PIDFD)
		}
	}()
	h.old, h.lastPID = nil, ""
	if len(found) == 0 && unknown == 0 && err == nil {
		h.lastPID = last
		return 0
	}
	h.old = make(map[int]uint64, len(found))
	for _, p := range found {
		h.old[p.PID] = h.box.Trees.Born(p.PID)
	}
	return len(found)
}
