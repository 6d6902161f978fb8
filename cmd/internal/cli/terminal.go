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
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/paddock-dev/paddock/op"
)

// lastWarning is how often INT or TERM must come to end the sandbox rather
// than be handed on: nobody should need to look for another terminal.
const lastWarning = 3

// handedOn are the signals that a command gets instead of us.
var handedOn = [...]struct {
	signal syscall.Signal
	name   string
}{
	{syscall.SIGHUP, "SIGHUP"}, {syscall.SIGINT, "SIGINT"}, {syscall.SIGQUIT, "SIGQUIT"}, {syscall.SIGTERM, "SIGTERM"},
	{syscall.SIGUSR1, "SIGUSR1"}, {syscall.SIGUSR2, "SIGUSR2"}, {syscall.SIGWINCH, "SIGWINCH"},
}

// door is what the terminal side of an operation holds while it runs.
type door struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stream op.Stream
	// interrupts says that INT never ends the operation.
	interrupts bool

	signals  chan os.Signal
	names    chan string
	terminal *terminal
}

// openDoor offers what the operation can use. Signals keep their default
// effect for operations that run nothing.
func openDoor(s op.Streams, captured bool) *door {
	d := &door{}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	if s.In {
		d.stream.Stdin = os.Stdin
	}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		d.stream.Ask = ask
	}
	if !s.Out {
		return d
	}
	d.interrupts, d.stream.Lines = s.Interrupts, s.Lines && captured
	if !captured || s.Lines {
		d.stream.Stdout, d.stream.Stderr = os.Stdout, os.Stderr
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		d.terminal = &terminal{fd: int(os.Stdin.Fd())}
		d.stream.Terminal, d.stream.Typed = d.terminal, term.IsTerminal(int(os.Stdout.Fd()))
	}
	d.watchSignals()
	return d
}

// watchSignals starts taking signals. One that our caller had us ignore, as
// nohup does, stays ignored. SIGPIPE is taken, so that a write that fails is
// an error, and the sandbox ends in order before we do.
//
// The runtime takes long to start and to stop this: it starts beside the work,
// where a signal that comes first ends us by its default effect, and the
// sandbox with us; and it stops when the process does.
func (d *door) watchSignals() {
	d.signals = make(chan os.Signal, 16)
	d.names = make(chan string, 16)
	d.stream.Signals = d.names
	take := []os.Signal{syscall.SIGPIPE}
	for _, s := range handedOn {
		if !signal.Ignored(s.signal) {
			take = append(take, s.signal)
		}
	}
	go func() {
		signal.Notify(d.signals, take...)
		d.handOn()
	}()
}

// handOn passes names on, and counts what asks us to end.
func (d *door) handOn() {
	defer d.restore() // where this goroutine panics, too
	count := make(map[os.Signal]int)
	for s := range d.signals {
		number, ok := s.(syscall.Signal)
		if !ok || number == syscall.SIGPIPE {
			continue
		}
		count[s]++
		if number == syscall.SIGINT && !d.interrupts || number == syscall.SIGTERM {
			if count[s] == lastWarning {
				d.cancel(&interrupted{number})
			} else if count[s] > lastWarning {
				// Even the orderly end hangs. The sandbox dies with us.
				d.restore()
				os.Exit(statusSignal + int(number))
			}
		}
		select {
		case d.names <- nameOf(number):
		default: // the command has 16 to digest; one more says nothing new
		}
	}
}

func nameOf(number syscall.Signal) string {
	for _, s := range handedOn {
		if s.signal == number {
			return s.name
		}
	}
	return ""
}

func (d *door) restore() {
	if d.terminal != nil {
		d.terminal.restore()
	}
}

// close gives everything back. The terminal comes first.
func (d *door) close() {
	d.restore()
	d.cancel(nil)
}

// terminal is the caller's terminal. It never enters the sandbox: the command
// has one of its own, and the two are tied by bytes and sizes alone.
type terminal struct {
	fd int

	mu    sync.Mutex
	saved *term.State // what to restore, nil where nothing is changed
}

// Size is the size in characters.
func (t *terminal) Size() (rows, cols uint16, err error) {
	w, h, err := term.GetSize(t.fd)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the terminal's size: %w", err)
	}
	return uint16(min(max(h, 0), math.MaxUint16)), uint16(min(max(w, 0), math.MaxUint16)), nil
}

// Raw hands every key on unchanged until restore.
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

// restore may be called at any time, and more than once.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		// There is nowhere left to tell of a failure.
		_ = term.Restore(t.fd, t.saved)
		t.saved = nil
	}
}

// ask puts a question to the person at the terminal. No answer is a no.
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
