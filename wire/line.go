package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ReadLine reads a line of at most max bytes, newline included, and returns
// it without surrounding white space, in newly allocated memory. End of file ends
// a line as a newline does; if no byte came before it, the error is io.EOF. A
// longer line is an *Error with CodeTooLarge, after which br is in the
// middle of that line. Other errors are the reader's own.
//
// Memory grows with the bytes that arrive and never beyond max.
func ReadLine(br *bufio.Reader, max int) ([]byte, error) {
	return ReadLineFunc(br, max, func([]byte, int) error { return nil })
}

// ReadLineFunc is ReadLine for a caller that may refuse memory for the line:
// before the line's memory grows to size bytes, it calls grow with the bytes
// read so far. An error from grow ends the reading and is returned, after
// which br is in the middle of the line.
func ReadLineFunc(br *bufio.Reader, limit int, grow func(begun []byte, size int) error) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		need := len(line) + len(part)
		if need > limit {
			return nil, Errorf(CodeTooLarge, "cannot read the line: it is longer than %d bytes", limit)
		}
		if need > cap(line) {
			size := min(limit, max(need, 2*cap(line)))
			if err := grow(line, size); err != nil {
				return nil, err
			}
			line = append(make([]byte, 0, size), line...)
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return bytes.TrimSpace(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// WriteLine writes v as one line of JSON, in one Write. A line longer than
// MaxLine is an *Error with CodeTooLarge, and nothing is written.
func WriteLine(w io.Writer, v any) error {
	line, err := encodeLine(v)
	if err != nil {
		return err
	}
	return writeAll(w, line)
}

// encodeLine returns v as a line of at most MaxLine bytes.
func encodeLine(v any) ([]byte, error) {
	line, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the line: %w", err)
	}
	if len(line) > MaxLine {
		return nil, Errorf(CodeTooLarge, "cannot write the line: its %d bytes are more than %d", len(line), MaxLine)
	}
	return line, nil
}

// encode returns v as JSON and a newline. It does not escape the characters
// that are special in HTML only, so that output stays short and readable.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// writeAll writes p and reports a short write as an error. It skips the write
// if p is empty: on a socket whose peer has read everything and closed, even
// an empty write would fail.
func writeAll(w io.Writer, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
