package changes

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// lentInput is a terminal's input that a command gets for a while. Once it is taken back, no
// read that still waits takes what the person types next.
type lentInput struct {
	file *os.File

	mu   sync.Mutex
	back bool
}

// Read waits for input, and reads it, or returns io.EOF once the input was taken back.
func (l *lentInput) Read(p []byte) (int, error) {
	const wait = 50 // ms
	for {
		ready := []unix.PollFd{{Fd: int32(l.file.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		l.mu.Lock()
		if l.back {
			l.mu.Unlock()
			return 0, io.EOF
		}
		if n > 0 {
			n, err := l.file.Read(p)
			l.mu.Unlock()
			return n, err
		}
		l.mu.Unlock()
	}
}

// takeBack ends the reads.
func (l *lentInput) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = true
}
