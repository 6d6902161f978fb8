// Package lazyregexp compiles regular expressions when they are first needed: most runs of a
// program need few of those that it has.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles an expression in its first call. That panics if the
// expression is invalid.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
