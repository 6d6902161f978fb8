package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

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
