package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/op"
)

// line is one line of input, or why there is none.
type line struct {
	text string
	err  error
}

// end is how the session ends where there are no more lines.
func (l line) end() error {
	if errors.Is(l.err, io.EOF) {
		return nil
	}
	return fmt.Errorf("cannot read the next command: %w", l.err)
}

// readLines reads until the end, in bounds.
func readLines(r io.Reader, lines chan<- line, done <-chan struct{}) {
	in := bufio.NewReader(r)
	for {
		text, err := readLine(in)
		if err == nil || text != "" {
			select {
			case lines <- line{text: text}:
			case <-done:
				return
			}
		}
		if err != nil {
			select {
			case lines <- line{err: err}:
			case <-done:
			}
			return
		}
	}
}

// readLine reads a line of at most [MaxInput] bytes.
func readLine(in *bufio.Reader) (string, error) {
	var text bytes.Buffer
	for {
		part, err := in.ReadSlice('\n')
		if text.Len()+len(part) > op.MaxInput {
			return "", fmt.Errorf("the line is longer than %d bytes", op.MaxInput)
		}
		text.Write(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimSuffix(text.String(), "\n"), err
		}
	}
}
