package session

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

const (
	// nudgeAfter is how long a shell may be silent before it is asked for a report:
	// an error can make it drop the rest of its line, including the command that
	// prints the report, and wait for another line.
	nudgeAfter = time.Millisecond
	// interruptGrace is how long a round of interrupting may take, and
	// interruptRounds how many there are before the shell is killed.
	interruptGrace  = 400 * time.Millisecond
	interruptRounds = 5
	// interruptAgain is how soon the first interrupt is repeated: a process that was
	// being created at that moment may have missed it.
	interruptAgain = 100 * time.Millisecond
	// maxAttempts is how often a shell that reads lines is asked for a report.
	maxAttempts = 3
	// askGrace is how long a shell that was interrupted may take to report.
	askGrace = 2 * time.Second
)

// command is one command for a session's shell.
type command struct {
	text    string
	stdin   []byte
	timeout time.Duration
	record  *record
	stop    <-chan struct{} // a value interrupts the command
}

// outcome is how a command ended: with a report, or with the shell's end.
type outcome struct {
	reported    bool
	timedOut    bool
	interrupted bool
	broken      bool // the shell was killed because it did not answer
	rescued     bool // a function with the name builtin was removed
	killed      int
	proved      bool
	late        *record // the output between the previous command and this one
	took        time.Duration
}

// execution is a command that the shell executes.
type execution struct {
	h        *shell
	out      outcome
	word     string     // marks the report
	idle     chan error // gets a value when the shell reads lines again
	pending  bool       // a goroutine will send to idle
	attempts int        // to get a report
	rounds   int        // of interrupting
	round    *time.Timer
}

// do runs a command in the shell and returns when it has ended.
func (h *shell) do(ctx context.Context, o command) (outcome, error) {
	h.drain()
	e := &execution{h: h, idle: make(chan error, 1), out: outcome{proved: true}}
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

// drain reads everything that the shell's pipes hold now.
func (h *shell) drain() {
	for _, t := range h.streams {
		t.drain()
	}
}

// line returns the line that makes the shell run a command.
func (h *shell) line(o command, word string) (string, error) {
	withStdin := len(o.stdin) > 0
	if withStdin {
		if err := h.stdin.Truncate(0); err != nil {
			return "", err
		}
		if _, err := h.stdin.WriteAt(o.stdin, 0); err != nil {
			return "", err
		}
	}
	h.state.traps = h.state.traps || trapping().MatchString(o.text)
	if !h.bash {
		return otherLine(o.text, word, h.state, withStdin), nil
	}
	return bashLine(o.text, word, h.state, withStdin), nil
}

// send writes a line to a shell that waits for one. A line that may be too long for
// the socket's buffer is written by another goroutine.
func (e *execution) send(line string) {
	if len(line) <= os.Getpagesize() {
		_, _ = e.h.input.WriteString(line)
		return
	}
	e.pending = true
	go func() {
		_, _ = e.h.input.WriteString(line)
		e.awaitIdle()
	}()
}

// watchIdle starts a goroutine that sends to idle when the shell reads lines again, unless
// there is one already.
func (e *execution) watchIdle() {
	if !e.pending {
		e.pending = true
		go e.awaitIdle()
	}
}

// awaitIdle waits until the shell has read all of its line, and then until it has
// read an empty line too.
func (e *execution) awaitIdle() {
	err := consumed(e.h.input)
	if err == nil {
		if _, err = e.h.input.WriteString("\n"); err == nil {
			err = consumed(e.h.input)
		}
	}
	e.idle <- err
}

// wait returns when the shell has reported or ended.
func (e *execution) wait(ctx context.Context, o command) {
	expired := time.NewTimer(o.timeout)
	nudge := time.NewTimer(nudgeAfter)
	e.round = time.NewTimer(o.timeout)
	e.round.Stop()
	defer func() { expired.Stop(); nudge.Stop(); e.round.Stop() }()
	stop, gone := o.stop, ctx.Done()
	for {
		select {
		case <-e.h.reportCame:
			if e.readReport() {
				return
			}
		case <-e.h.process.Done:
			return
		case err := <-e.idle:
			if e.pending = false; err == nil && e.askReport() {
				return
			}
		case <-nudge.C:
			e.watchIdle()
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

// readReport reads the report, and returns whether it has arrived.
func (e *execution) readReport() bool {
	r, ok := e.h.reported()
	if ok {
		e.out.reported = true
		r.traps = e.h.state.traps
		e.h.state, e.h.cwd = r.savedState, r.cwd
	}
	return ok
}

// askReport asks a shell that reads lines, and has not reported, for its report. It
// returns true if the shell has reported, or was killed after too many attempts.
func (e *execution) askReport() (over bool) {
	if e.readReport() {
		return true
	}
	if e.rounds > 0 {
		e.round.Reset(askGrace)
	}
	if e.attempts++; e.attempts > maxAttempts {
		e.out.broken = true
		_, _ = e.h.box.Trees.Kill(e.h.process.Mark)
		<-e.h.process.Done
		<-e.h.dead
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
	e.watchIdle()
	return false
}

// interrupt is one round of ending the command but not the shell. The first two rounds
// send SIGINT as a terminal would, the next ones kill all processes of the command, and
// the last one kills the shell as well.
func (e *execution) interrupt() {
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
	e.watchIdle()
}

// finish kills the processes that an interrupted command has left, and completes its
// output.
func (e *execution) finish() {
	h := e.h
	if !e.out.reported {
		_ = h.input.SetWriteDeadline(time.Unix(1, 0))
		<-h.process.Done
		<-h.dead
		e.out.killed, e.out.proved = e.out.killed+h.killed, h.proved
	}
	if e.pending {
		<-e.idle //nolint:errcheck // the shell reads lines, or has ended
	}
	if e.out.reported && (e.out.timedOut || e.out.interrupted) {
		killed, proved := h.killOthers()
		e.out.killed, e.out.proved = e.out.killed+killed, proved
	}
	h.drain()
}

// killOthers kills the processes of the shell's tree that the command has started.
func (h *shell) killOthers() (killed int, proved bool) {
	return spawn.KillFound(func() ([]spawn.Member, int, error) { return h.others(false) }, func() {})
}

// others returns the members of the tree except the shell. Members from before the
// command are included only if old is true.
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

// settleJobs records and counts the processes that are still running in the background.
// It does not search if it found none the last time and the kernel has made no process
// since.
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
