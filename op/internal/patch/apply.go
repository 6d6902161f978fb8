package patch

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git hashes contents so; what is compared is not secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Tree is the tree of files that a patch is applied to.
type Tree interface {
	// Read returns a regular file. Its error is fs.ErrNotExist for a file that does
	// not exist, else the reason why the file cannot be patched.
	Read(ctx context.Context, path string) (File, error)
	// Room returns an error if a new file cannot be made at path: fs.ErrExist if a file
	// or directory of that name exists, else an error about the obstacle. gone reports
	// whether a file will be deleted first.
	Room(ctx context.Context, path string, gone func(string) bool) error
}

// The kinds of changes.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"
	Renamed  = "renamed"
	Copied   = "copied"
)

// Change is what the patch does to one file.
type Change struct {
	Path string
	From string // the path before, of a file that is renamed or copied
	Kind string
	// Added and Removed are lines; both are 0 for binary data.
	Added, Removed int
	Hunks          []Placed
}

// Step writes or removes one file of the tree.
type Step struct {
	Path string
	// Old is the file before, nil if there is none.
	Old *File
	// New is the file after, nil if there is none.
	New *File
}

// Result is how a patch changes a tree.
type Result struct {
	Changes []Change
	// Steps are in the order in which they can be taken: removals come first.
	Steps []Step
}

// maxRejects is how many rejects an error holds.
const maxRejects = 20

// applier applies a patch in memory.
type applier struct {
	ctx     context.Context
	tree    Tree
	work    work
	read    map[string]*File // files of the tree; nil if one does not exist
	made    map[string]*File // as the patch makes it; nil if it removes it
	doomed  map[string]bool  // some part of the patch removes it
	fresh   map[string]bool  // it must not exist before
	order   []string         // of made
	changes []Change
	rejects []Reject
	total   int
}

// Apply computes how the patch changes a tree, which it only reads. If a part of
// the patch does not apply, none does: the error is a *RejectError.
func (p *Patch) Apply(ctx context.Context, tree Tree) (*Result, error) {
	a := &applier{ctx: ctx, tree: tree, work: work{ctx, maxWork, maxHints},
		read: make(map[string]*File), made: make(map[string]*File),
		doomed: make(map[string]bool), fresh: make(map[string]bool)}
	for _, c := range p.files {
		a.doomed[c.old] = a.doomed[c.old] || c.remove || c.move
	}
	for _, c := range p.files {
		if err := a.apply(c); err != nil {
			return nil, err
		}
	}
	if err := a.room(); err != nil {
		return nil, err
	}
	if n := len(a.rejects); n > 0 {
		return nil, &RejectError{Rejects: a.rejects[:min(n, maxRejects)], More: max(0, n-maxRejects)}
	}
	return a.result(), nil
}

func (a *applier) refuse(c *change, reason, hint string) {
	a.rejects = append(a.rejects, Reject{Path: c.name, Reason: reason, Hint: hint})
}

// original reads a file once. It returns false for a file that cannot be patched,
// and records why.
func (a *applier) original(c *change, name string) (*File, bool, error) {
	f, ok := a.read[name]
	if !ok {
		file, err := a.tree.Read(a.ctx, name)
		switch {
		case err == nil:
			f = &file
		case a.ctx.Err() != nil:
			return nil, false, a.ctx.Err()
		case !errors.Is(err, fs.ErrNotExist):
			a.refuse(c, err.Error(), "")
			return nil, false, nil
		}
		a.read[name] = f
	}
	if f != nil && !ok {
		if a.total += len(f.Content); a.total > MaxTotal {
			return nil, false, fmt.Errorf("cannot apply the patch: its files have more than %d bytes together", MaxTotal)
		}
	}
	return f, true, nil
}

// source returns the file that a change begins with. As with git, renames and copies
// begin with the file before the patch; other changes of one file follow each other.
func (a *applier) source(c *change) (f *File, ok bool, err error) {
	if made, ok := a.made[c.old]; ok && !c.move && !c.clone && (!c.create || made != nil) {
		if made == nil {
			a.refuse(c, "another part of the patch has taken it away", "")
			return nil, false, nil
		}
		return made, true, nil
	}
	return a.original(c, c.old)
}

// apply applies one change, or records why it cannot be applied.
func (a *applier) apply(c *change) error {
	f, ok, err := a.source(c)
	if !ok || err != nil {
		return err
	}
	// A model may write the creation of a file as a change of one.
	create := c.create || f == nil && len(c.hunks) == 1 && len(c.hunks[0].old) == 0 && !c.remove && !c.move && !c.clone
	switch {
	case create && f != nil && !a.doomed[c.name]:
		a.refuse(c, "it exists already", "make the patch from what it holds now, or delete it first")
		return nil
	case create:
		f = &File{Perm: 0o644}
	case f == nil:
		a.refuse(c, c.old+" does not exist", "name files from the workspace on")
		return nil
	case c.old != c.name && a.made[c.name] != nil:
		a.refuse(c, "another part of the patch makes the same file", "")
		return nil
	}
	out, change, err := a.changed(c, f)
	if out == nil || err != nil {
		return err
	}
	if create {
		change.Kind = Created
	}
	if (create || c.old != c.name) && !a.doomed[c.name] {
		a.fresh[c.name] = true
	}
	a.changes = append(a.changes, change)
	return a.make(c, out)
}

// changed applies a change to the content of its file. It returns nil if that is refused.
func (a *applier) changed(c *change, f *File) (*File, Change, error) {
	done := Change{Path: c.name, Kind: Modified}
	switch {
	case c.remove:
		done.Kind = Deleted
	case c.move:
		done.Kind, done.From = Renamed, c.old
	case c.clone:
		done.Kind, done.From = Copied, c.old
	}
	out := &File{Content: f.Content, Perm: permissions(f.Perm, c.mode)}
	var err error
	switch {
	case c.binary != nil:
		out.Content, err = c.patched(f.Content)
	case len(c.hunks) > 0:
		var rejects []Reject
		out.Content, done.Hunks, rejects, err = c.text(f.Content, &a.work)
		a.rejects = append(a.rejects, rejects...)
		if len(rejects) > 0 {
			return nil, done, nil
		}
		for _, h := range c.hunks {
			done.Added += h.added
			done.Removed += h.removed
		}
	}
	if a.ctx.Err() != nil {
		return nil, done, a.ctx.Err()
	}
	if errors.Is(err, errWork) {
		return nil, done, fmt.Errorf("cannot apply the patch: %w", err)
	}
	if err != nil {
		a.refuse(c, err.Error(), "")
		return nil, done, nil
	}
	if c.remove && len(out.Content) > 0 {
		a.refuse(c, "the patch deletes it, but does not remove all that it holds", "make the patch from what it holds now")
		return nil, done, nil
	}
	return out, done, nil
}

// permissions returns the permissions of a file after a change to a mode of git's, which says only
// whether the file can be executed.
func permissions(perm, mode uint32) uint32 {
	switch {
	case mode == 0:
		return perm
	case mode&0o100 != 0:
		return perm | perm&0o444>>2
	}
	return perm &^ 0o111
}

// make records the file that a change makes.
func (a *applier) make(c *change, f *File) error {
	put := func(name string, f *File) {
		if _, ok := a.made[name]; !ok {
			a.order = append(a.order, name)
		}
		a.made[name] = f
	}
	if c.remove {
		put(c.old, nil)
		return nil
	}
	if a.total += len(f.Content); a.total > MaxTotal {
		return fmt.Errorf("cannot apply the patch: its files have more than %d bytes together", MaxTotal)
	}
	put(c.name, f)
	if c.move && a.made[c.old] == nil && c.old != c.name {
		put(c.old, nil)
	}
	return nil
}

// room rejects new files that have something in their way.
func (a *applier) room() error {
	gone := func(name string) bool {
		f, ok := a.made[name]
		return ok && f == nil
	}
	for _, name := range a.order {
		if a.made[name] == nil {
			continue
		}
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if a.made[above] != nil {
				a.rejects = append(a.rejects, Reject{Path: name, Reason: "the patch makes " + above + " a file, and not a directory"})
			}
		}
		err := fs.ErrExist
		if a.read[name] == nil {
			err = a.tree.Room(a.ctx, name, gone)
		} else if !a.fresh[name] {
			continue // it exists, and is to be changed
		}
		switch {
		case a.ctx.Err() != nil:
			return a.ctx.Err()
		case errors.Is(err, fs.ErrExist):
			a.rejects = append(a.rejects, Reject{Path: name, Reason: "it exists already", Hint: "make the patch from what it holds now, or delete it first"})
		case err != nil:
			a.rejects = append(a.rejects, Reject{Path: name, Reason: err.Error()})
		}
	}
	return nil
}

// result returns the changes, and the steps to make them.
func (a *applier) result() *Result {
	r := &Result{Changes: a.changes}
	for _, name := range a.order {
		if old := a.read[name]; old != nil || a.made[name] != nil {
			r.Steps = append(r.Steps, Step{Path: name, Old: old, New: a.made[name]})
		}
	}
	slices.SortStableFunc(r.Steps, func(x, y Step) int {
		switch {
		case x.New == nil && y.New != nil:
			return -1
		case x.New != nil && y.New == nil:
			return 1
		}
		return 0
	})
	return r
}

// minHash is how much of git's hash of a content is enough to recognize it.
const minHash = 7

// patched applies binary data, which replaces a whole file. The file must have the content from
// which the patch was made.
func (c *change) patched(content []byte) ([]byte, error) {
	if len(c.before) < minHash || len(c.after) < minHash {
		return nil, errors.New("there is no index line that names the contents of the binary file")
	}
	if !c.create && !hasHash(content, c.before) {
		return nil, errors.New("the binary file is not the one that the patch was made from")
	}
	var out bytes.Buffer
	file := &gitdiff.File{IsBinary: true, BinaryFragment: c.binary}
	if err := gitdiff.Apply(&out, bytes.NewReader(content), file, gitdiff.WithMaxBinaryFragmentBytes(MaxFile)); err != nil {
		return nil, fmt.Errorf("its binary data cannot be used: %v", err)
	}
	if !c.remove && !hasHash(out.Bytes(), c.after) {
		return nil, errors.New("its binary data does not make the content that the patch names")
	}
	return out.Bytes(), nil
}

// hasHash reports whether git's hash of a content begins so.
func hasHash(content []byte, hash string) bool {
	h := sha1.New() //nolint:gosec // see the import
	if len(hash) > hex.EncodedLen(sha1.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return strings.HasPrefix(hex.EncodeToString(h.Sum(nil)), strings.ToLower(hash))
}
