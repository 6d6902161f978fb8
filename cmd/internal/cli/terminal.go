package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/paddock-dev/paddock/op"
)

// endAfter is the number of INT or TERM signals that end the sandbox, so that a user does not
// need another terminal to end a command that ignores them. Earlier ones are only forwarded to
// the command.
const endAfter = 3

// suspendTime is how long SIGSTOP may take to stop this process.
const suspendTime = 100 * time.Millisecond

// forwarded are the signals that a command gets instead of this program.
var forwarded = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// console connects an operation to standard input, output and error, to the terminal
// and to signals, while it runs.
type console struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stream op.Stream
	// interrupts says that INT never ends the operation.
	interrupts bool
	progress   *progressLine // nil: how far the operation is, is not shown

	signals   chan os.Signal
	names     chan string
	suspended atomic.Pointer[[2]func()] // what is called before this process is suspended, and after
	terminal  *terminal
}

// openConsole connects the streams, the terminal and the signals that the operation can use.
// Signals keep their default effect for operations that run nothing and leave nothing half done.
func openConsole(o op.Op, captured bool) *console {
	s := o.Streams
	c := &console{}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	if s.In {
		c.stream.Stdin = standardInput()
	}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		c.stream.Ask = func(question string) (bool, error) {
			c.progress.clear()
			return unlessEnded(c.ctx, func() (bool, error) { return ask(question) })
		}
		c.stream.Choose = func(question string, words ...string) (string, error) {
			c.progress.clear()
			return unlessEnded(c.ctx, func() (string, error) { return choose(question, words...) })
		}
	}
	if !s.Out {
		if !o.Hints.ReadOnly || s.Progress {
			go c.endOnSignal()
		}
		return c
	}
	c.interrupts, c.stream.Lines = s.Interrupts, s.Lines && captured
	if !captured || s.Lines {
		c.stream.Stdout, c.stream.Stderr = os.Stdout, os.Stderr
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		c.terminal = &terminal{fd: int(os.Stdin.Fd())}
		c.stream.Terminal = c.terminal
		c.stream.Typed = term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
	}
	c.stream.Foreground, c.stream.OnSuspend = inForeground, c.onSuspend
	c.watchSignals()
	return c
}

// standardInput returns standard input. A file takes back the bytes that a command leaves unread, for
// the next reader, such as a shell's loop over its lines.
func standardInput() io.Reader {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode().IsRegular() {
		return fileInput{os.Stdin}
	}
	return os.Stdin
}

// fileInput is a file as standard input. It is a [wire.Unreader].
type fileInput struct{ *os.File }

// Unread takes back the last n bytes that were read.
func (f fileInput) Unread(n int64) error {
	_, err := f.Seek(-n, io.SeekCurrent)
	return err
}

// inForeground reports whether this process group is in the foreground of its terminal.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// onSuspend has before called when this process is suspended (SIGTSTP), and after when it goes on, until
// stop is called.
func (c *console) onSuspend(before, after func()) (stop func()) {
	c.suspended.Store(&[2]func(){before, after})
	return func() { c.suspended.Store(nil) }
}

// suspend stops this process as SIGTSTP does that nobody catches, unless no shell could continue it: the
// first process of a session has none above it. (The runtime never gives up a handler of SIGTSTP.)
func (c *console) suspend() {
	if session, err := unix.Getsid(0); err != nil || session == unix.Getpgrp() {
		return
	}
	calls := c.suspended.Load()
	if calls != nil {
		calls[0]()
	}
	if c.terminal != nil {
		c.terminal.lend()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(suspendTime) // a process that is stopped sleeps longer
	if calls != nil {
		calls[1]()
	}
}

// watchSignals starts to forward signals. A signal that this program was started to
// ignore, as by nohup, stays ignored. SIGPIPE is caught, so that a write that fails is
// an error, and the sandbox ends in order before this program does.
//
// The runtime takes long to start and to stop the notification. So it is started while the
// operation is already running: a signal that comes earlier has its default effect, and ends
// this process and with it the sandbox. It is never stopped.
func (c *console) watchSignals() {
	c.signals = make(chan os.Signal, 16)
	c.names = make(chan string, 16)
	c.stream.Signals = c.names
	caught := []os.Signal{syscall.SIGPIPE}
	for _, s := range slices.Concat(forwarded, []syscall.Signal{syscall.SIGTSTP, syscall.SIGCONT}) {
		if !signal.Ignored(s) {
			caught = append(caught, s)
		}
	}
	go c.forwardSignals(caught)
}

// forwardSignals forwards signals by name, and counts those that ask us to end.
func (c *console) forwardSignals(caught []os.Signal) {
	defer c.restore() // also if this goroutine panics
	signal.Notify(c.signals, caught...)
	count := make(map[os.Signal]int)
	for s := range c.signals {
		number, ok := s.(syscall.Signal)
		if !ok || number == syscall.SIGPIPE {
			continue
		}
		switch number {
		case syscall.SIGTSTP:
			c.suspend()
			continue
		case syscall.SIGCONT:
			if c.terminal == nil || !c.terminal.resume() {
				continue
			}
			number = syscall.SIGWINCH // its size may be another
		}
		count[s]++
		if number == syscall.SIGINT && !c.interrupts || number == syscall.SIGTERM {
			if count[s] == endAfter {
				c.cancel(&interrupted{number})
			} else if count[s] > endAfter {
				// Even the orderly end hangs. The sandbox dies with us.
				c.restore()
				os.Exit(statusSignal + int(number))
			}
		}
		select {
		case c.names <- unix.SignalName(number):
		default: // 16 wait for the command already
		}
	}
}

// endOnSignal cancels the operation's context at the first signal that asks this program to end, so
// that the operation ends in order. The next one has its default effect.
func (c *console) endOnSignal() {
	came := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(came, s)
		}
	}
	number, _ := (<-came).(syscall.Signal)
	signal.Stop(came)
	c.cancel(op.Interrupted(unix.SignalName(number)))
}

// unlessEnded returns what do returns or, if ctx ends before that, why.
func unlessEnded[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr) // the question has no line feed
		return *new(T), context.Cause(ctx)
	}
}

func (c *console) restore() {
	if c.terminal != nil {
		c.terminal.restore()
	}
}

// close restores the terminal, and ends the operation's context.
func (c *console) close() {
	c.restore()
	c.cancel(nil)
}

// terminal is the caller's terminal. It never enters the sandbox: the command has one of its
// own, and only bytes and sizes pass between the two.
type terminal struct {
	fd int

	mu    sync.Mutex
	saved *term.State // what to restore, nil if nothing is changed
}

// Size returns the size in characters.
func (t *terminal) Size() (rows, cols uint16, err error) {
	w, h, err := term.GetSize(t.fd)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the terminal's size: %w", err)
	}
	return uint16(min(max(h, 0), math.MaxUint16)), uint16(min(max(w, 0), math.MaxUint16)), nil
}

// Raw passes every key on unchanged until restore.
func (t *terminal) Raw() (restore func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		if t.saved, err = term.MakeRaw(t.fd); err != nil {
			return nil, fmt.Errorf("cannot set the terminal to raw mode: %w", err)
		}
	}
	return t.restore, nil
}

// lend restores the terminal for whoever has it while this process is stopped.
func (t *terminal) lend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(t.fd, t.saved) // as in restore
	}
}

// resume sets the terminal to raw mode again, if it was when this process was stopped, and reports that. In
// the background it stops this process once more.
func (t *terminal) resume() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		return false
	}
	_, err := term.MakeRaw(t.fd) // the modes to restore stay those of before
	return err == nil
}

// restore undoes Raw. It may be called at any time, and more than once.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(t.fd, t.saved) // nowhere is left to report a failure
		t.saved = nil
	}
}

// ask asks the person at the terminal, and reports whether the answer is yes.
func ask(question string) (bool, error) {
	if _, err := fmt.Fprint(os.Stderr, question+" [y/N] "); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// choose asks the person at the terminal for one of several words until the answer is one. The end
// of the input, and an empty line, are the last one.
func choose(question string, words ...string) (string, error) {
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := fmt.Fprintf(os.Stderr, "%s [%s; Enter: %s] ", question, strings.Join(words, "/"), words[len(words)-1]); err != nil {
			return "", err
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		answer := strings.ToLower(strings.TrimSpace(line))
		if answer == "" {
			return words[len(words)-1], nil
		}
		for _, w := range words {
			if answer == w || answer == w[:1] {
				return w, nil
			}
		}
	}
}
