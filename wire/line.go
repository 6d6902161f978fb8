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
// it without surrounding white space, in memory of its own. End of file ends
// a line as a newline does; it is io.EOF where no byte came before it. A
// longer line is an *Error with CodeTooLarge, after which br stands in the
// middle of that line. Other errors are the reader's own.
//
// Memory grows with the bytes that arrive and never beyond max.
func ReadLine(br *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > max {
			return nil, Errorf(CodeTooLarge, "cannot read the line: it is longer than %d bytes", max)
		}
		line = appendBounded(line, part, max)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return bytes.TrimSpace(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// appendBounded appends part to buf. It doubles the capacity as append does,
// but never beyond max, which the caller knows to be enough.
func appendBounded(buf, part []byte, max int) []byte {
	if need := len(buf) + len(part); need > cap(buf) {
		grown := make([]byte, len(buf), min(max, need+len(buf)))
		copy(grown, buf)
		buf = grown
	}
	return append(buf, part...)
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

// encodeLine gives v as a line within the protocol's bound.
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

// encode gives v as JSON and a newline. Characters that matter only in HTML
// stay as they are, so that output is not blown up and stays readable.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
