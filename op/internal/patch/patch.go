// Package patch applies unified diffs, as git and diff -u make them, to the caller's tree of
// files. It reads through [Tree], and writes nothing: [Patch.Apply] returns the new content of
// the tree if all of the patch applies, else an error.
//
//	p, err := patch.Parse(text, patch.Options{})
//	result, err := p.Apply(ctx, tree)
//
// It creates, changes, deletes, renames and copies files, changes whether they can be executed, and
// applies git's binary patches. It looks for a hunk where its header says, then ever further away,
// and the lines must match exactly, as with git apply. Symbolic links and submodules are refused,
// and so are paths that are absolute, lead up with "..", or go through a ".git".
//
// Patches come from models: sizes, counts and the work of searching are bounded.
package patch

import (
	"fmt"
	"strings"
)

// The bounds of a patch. MaxText, MaxFile and MaxTotal are in bytes: of the patch, of each file
// before and after, and of all files together.
const (
	MaxText  = 8 << 20
	MaxFiles = 1000
	MaxHunks = 10_000
	MaxFile  = 32 << 20
	MaxTotal = 256 << 20
)

// Options control how a patch is read.
type Options struct {
	// Strip is how many leading names the paths lose, as with git apply -p. nil: one if they look
	// as git writes them ("a/x", "b/x"), or if the two of a file differ only in their first name;
	// else none.
	Strip *int
	// Recount computes the lengths of hunks from their lines, and ignores their headers.
	Recount bool
	// Reverse undoes the patch.
	Reverse bool
}

// File is a regular file. Its content must not be changed.
type File struct {
	Content []byte
	Perm    uint32 // the nine permission bits
}

// SyntaxError is the error of a patch that cannot be read.
type SyntaxError struct {
	// Line is where the error is, from 1; 0 if it is not about one line.
	Line int
	// Reason says what is wrong, and Hint what to do about it.
	Reason, Hint string
}

// Error returns the line and the reason.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "cannot read the patch: " + e.Reason
	}
	return fmt.Sprintf("cannot read the patch: line %d: %s", e.Line, e.Reason)
}

// Reject is one reason why a patch cannot be applied.
type Reject struct {
	// Path is the path of the file, as the patch names it.
	Path string
	// Hunk is the number of the hunk in its file, from 1; 0 if it is not about a hunk.
	Hunk int
	// Header is the hunk's own.
	Header string
	// Line is where the hunk should be in the file, from 1.
	Line int
	// Expected is the first line that differs in the file, and Found the file's line.
	Expected, Found string
	// Reason says what is wrong, and Hint what to do about it.
	Reason, Hint string
}

func (r Reject) String() string {
	var b strings.Builder
	b.WriteString(r.Path + ": ")
	if r.Hunk > 0 {
		fmt.Fprintf(&b, "hunk %d (%s): ", r.Hunk, r.Header)
	}
	b.WriteString(r.Reason)
	if r.Hint != "" {
		b.WriteString(" (" + r.Hint + ")")
	}
	return b.String()
}

// RejectError is the error of a patch that does not apply. Nothing of it is applied.
type RejectError struct {
	Rejects []Reject
	// More is how many there are beyond these.
	More int
}

// Error returns all rejects in one line.
func (e *RejectError) Error() string {
	all := make([]string, 0, len(e.Rejects)+1)
	for _, r := range e.Rejects {
		all = append(all, r.String())
	}
	if e.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", e.More))
	}
	return "cannot apply the patch: " + strings.Join(all, "; ")
}
