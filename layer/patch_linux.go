package layer

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // git names contents so; nothing is proved by it
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/internal/linediff"
	"github.com/paddock-dev/paddock/layer/delta"
)

// PatchOptions say what a patch has.
type PatchOptions struct {
	Binary bool // binary files, as git's --binary writes them, up to 16 MiB each
	// Shown, if not nil, is called for each regular file whose new content the patch has in full.
	Shown func(path string, content ContentSum)
}

// mostPatch is how large a patch may be.
const mostPatch = 4 << 30

// WritePatch writes changes as a patch that git apply takes, with all paths from the source's
// root. What such a patch cannot hold is named in it, in lines that begin with "#" and that
// git passes over: binary files (unless they are asked for), special files, empty directories,
// modes that git does not know, and what is in .git.
func (l *Layer) WritePatch(ctx context.Context, w io.Writer, changes []Change, options PatchOptions) error {
	files, err := l.files(ctx, changes, usualLimits)
	if err != nil {
		return err
	}
	out := &bounded{w: w, what: "bytes of patch", most: mostPatch}
	p := &patch{Layer: l, ctx: ctx, w: bufio.NewWriterSize(out, 64<<10), options: options, inGit: make(map[string]int)}
	p.findStuck(files)
	for i := range files {
		f := p.outOfGit(&files[i])
		if err := ctx.Err(); err != nil {
			return err
		}
		out.path = f.name()
		if p.isInGit(f) {
			continue
		}
		if p.isBlocked(f.path) {
			p.note(f.path, "what it replaces is not either")
			continue
		}
		if err := p.file(f); err != nil {
			return err
		}
		if out.err != nil {
			return out.err
		}
	}
	dirs := make([]string, 0, len(p.inGit))
	for dir := range p.inGit {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		p.note(dir, fmt.Sprintf("git takes no patch of its own directory (changes: %d)", p.inGit[dir]))
	}
	return p.w.Flush()
}

// bounded ends with an error when more is written than it may.
type bounded struct {
	w          io.Writer
	what, path string
	most, done int64
	err        error
}

func (b *bounded) Write(data []byte) (n int, err error) {
	if b.err == nil {
		if b.done += int64(len(data)); b.done > b.most {
			b.err = &LimitError{b.what, b.most, b.path}
		} else if _, err := b.w.Write(data); err != nil {
			b.err = err
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	return len(data), nil
}

// patch writes one. Errors of its writer stay there until the end.
type patch struct {
	*Layer
	ctx     context.Context
	w       *bufio.Writer
	options PatchOptions
	inGit   map[string]int // how many changes are in git's directories

	// What is gone, but stays where the patch is applied.
	special map[string]bool // special files
	full    map[string]bool // directories with something that stays
}

// findStuck finds what a patch cannot delete.
func (p *patch) findStuck(files []file) {
	p.special, p.full = make(map[string]bool), make(map[string]bool)
	for i := range files {
		f := &files[i]
		if f.path != "" {
			continue
		}
		_, inGit := gitDir(f.oldPath)
		if !inGit && gitMode(*f.old) != 0 {
			continue
		}
		if !f.old.Mode.IsDir() {
			p.special[f.oldPath] = true
		}
		for dir, _ := delta.Split(f.oldPath); dir != "" && !p.full[dir]; dir, _ = delta.Split(dir) {
			p.full[dir] = true
		}
	}
}

// isBlocked reports whether no file can be made at a path, as what was there stays.
func (p *patch) isBlocked(path string) bool {
	if path == "" || len(p.special) == 0 && len(p.full) == 0 {
		return false
	}
	if p.full[path] {
		return true
	}
	for ; path != ""; path, _ = delta.Split(path) {
		if p.special[path] {
			return true
		}
	}
	return false
}

// outOfGit returns, of a file that was moved into git's own directory or out of it, the side that is
// outside: it is deleted, or new. Other files it returns as they are.
func (p *patch) outOfGit(f *file) *file {
	from, wasIn := gitDir(f.oldPath)
	to, isIn := gitDir(f.path)
	switch {
	case f.path == "" || f.oldPath == "" || wasIn == isIn, isIn && f.copied:
		return f
	case isIn:
		p.inGit[to]++
		return &file{oldPath: f.oldPath, old: f.old, new: absent}
	case !f.copied:
		p.inGit[from]++
	}
	out := &file{path: f.path, old: absent, new: f.new}
	if f.moved {
		out.content = f.oldPath
	}
	return out
}

func (p *patch) isInGit(f *file) bool {
	for _, path := range []string{f.path, f.oldPath} {
		if dir, ok := gitDir(path); ok {
			p.inGit[dir]++
			return true
		}
	}
	if f.new.Mode.Type() == fs.ModeSymlink && isModulesName(f.path) {
		p.note(f.path, "git takes no link of this name")
		return true
	}
	return false
}

// note writes a line that is no part of the patch.
func (p *patch) note(path, why string) {
	fmt.Fprintf(p.w, "# %s is not in this patch: %s\n", Quote(path), why)
}

// gitMode returns the mode that git keeps of an entry, 0 if it keeps none.
func gitMode(e Entry) int {
	switch {
	case e.Mode.Type() == fs.ModeSymlink:
		return 0o120000
	case !e.Mode.IsRegular() || e == Entry{}:
		return 0
	case e.Mode&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// file writes the change of one file.
func (p *patch) file(f *file) error {
	oldMode, newMode := gitMode(*f.old), gitMode(*f.new)
	if f.oldPath != "" && oldMode == 0 || f.path != "" && newMode == 0 {
		p.notKept(f)
	}
	switch {
	case oldMode == 0 && newMode == 0:
		return nil
	case oldMode == 0:
		return p.diff(&file{path: f.path, old: absent, new: f.new, moved: f.moved, content: f.content})
	case newMode == 0:
		return p.diff(&file{oldPath: f.oldPath, old: f.old, new: absent})
	}
	return p.diff(f)
}

func (p *patch) notKept(f *file) {
	e := f.new
	if f.path == "" {
		e = f.old
	}
	switch {
	case e.Mode.IsDir() && f.path == "":
		p.note(f.oldPath, "an empty directory that is gone")
	case e.Mode.IsDir() && f.oldPath == "":
		p.note(f.path, "an empty directory")
	case e.Mode.IsDir():
		p.note(f.path, fmt.Sprintf("the mode of a directory, %s to %s", f.old.Mode, f.new.Mode))
	default:
		p.note(f.name(), "a special file, "+e.Mode.Type().String())
	}
}

// diff writes what git apply takes as one file.
func (p *patch) diff(f *file) error {
	d, err := p.compareLines(p.ctx, f)
	if err != nil {
		return err
	}
	if d.binary && !p.options.Binary {
		fmt.Fprintf(p.w, "# Binary files %s and %s differ\n", side{path: f.oldPath}.label("a/"), side{path: f.path}.label("b/"))
		return nil
	}
	var head strings.Builder
	if !p.header(&head, f) && len(d.edits) == 0 && !d.binary {
		p.note(f.path, fmt.Sprintf("git knows no such change of a mode, %s to %s", f.old.Mode, f.new.Mode))
		return p.shownLines(f, d)
	}
	if d.binary {
		return p.binary(head.String(), f)
	}
	_, _ = p.w.WriteString(head.String())
	if len(d.edits) > 0 {
		fmt.Fprintf(p.w, "--- %s\n+++ %s\n", side{path: f.oldPath}.marked("a/"), side{path: f.path}.marked("b/"))
		linediff.WriteHunks(p.w, d.old, d.new, d.edits)
	}
	return p.shownLines(f, d)
}

// label returns a path as a patch has it.
func (s side) label(prefix string) string {
	if s.path == "" {
		return "/dev/null"
	}
	return Quote(prefix + s.path)
}

// marked returns it for a line that could otherwise end with a date.
func (s side) marked(prefix string) string {
	label := s.label(prefix)
	if strings.ContainsRune(s.path, ' ') && !strings.HasPrefix(label, `"`) {
		label += "\t"
	}
	return label
}

// header writes the lines before the content, and reports whether they alone are a change.
func (p *patch) header(w *strings.Builder, f *file) bool {
	oldMode, newMode := gitMode(*f.old), gitMode(*f.new)
	from, to := f.oldPath, f.path
	if from == "" {
		from = to
	}
	if to == "" {
		to = from
	}
	fmt.Fprintf(w, "diff --git %s %s\n", headName("a/"+from), headName("b/"+to))
	switch {
	case f.oldPath == "":
		fmt.Fprintf(w, "new file mode %o\n", newMode)
		return true
	case f.path == "":
		fmt.Fprintf(w, "deleted file mode %o\n", oldMode)
		return true
	case oldMode != newMode:
		fmt.Fprintf(w, "old mode %o\nnew mode %o\n", oldMode, newMode)
	}
	if from == to {
		return oldMode != newMode
	}
	verb := "rename"
	if f.copied {
		verb = "copy"
	}
	if f.moved {
		w.WriteString("similarity index 100%\n")
	}
	fmt.Fprintf(w, "%s from %s\n%s to %s\n", verb, Quote(from), verb, Quote(to))
	return true
}

// headName returns a path for the first line. Where no other line has the name, git does not
// find its end after a directory's name that ends with a space.
func headName(path string) string {
	if name := Quote(path); name != path || !strings.Contains(path, " /") {
		return name
	}
	return `"` + path + `"`
}

// binary writes a file as git's literal.
func (p *patch) binary(head string, f *file) error {
	var data [2][]byte
	var id [2]string
	for i, s := range []side{f.oldSide(p.Layer), f.newSide(p.Layer)} {
		id[i] = strings.Repeat("0", 40)
		switch {
		case s.path == "":
			continue
		case s.entry.Size > mostText:
			p.note(f.name(), fmt.Sprintf("it has more than %d MiB", mostText>>20))
			return nil
		case s.entry.Mode.IsRegular():
			var err error
			if data[i], err = s.read(p.ctx); err != nil {
				return err
			}
		default:
			data[i] = []byte(s.entry.Link)
		}
		sum := sha1.New() //nolint:gosec // see the import
		fmt.Fprintf(sum, "blob %d\x00", len(data[i]))
		sum.Write(data[i])
		id[i] = fmt.Sprintf("%x", sum.Sum(nil))
	}
	fmt.Fprintf(p.w, "%sindex %s..%s\nGIT binary patch\nliteral %d\n", head, id[0], id[1], len(data[1]))
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write(data[1])
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	for chunk := range slices.Chunk(packed.Bytes(), 52) {
		_, _ = p.w.Write(base85(chunk))
	}
	_ = p.w.WriteByte('\n')
	p.shown(f, data[1])
	return nil
}

// base85 returns a line of git's binary patches.
func base85(data []byte) []byte {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	length := byte('A' + len(data) - 1)
	if len(data) > 26 {
		length = byte('a' + len(data) - 27)
	}
	line := []byte{length}
	for word := range slices.Chunk(data, 4) {
		var padded [4]byte
		copy(padded[:], word)
		n := binary.BigEndian.Uint32(padded[:])
		var five [5]byte
		for i := range five {
			five[4-i] = digits[n%85]
			n /= 85
		}
		line = append(line, five[:]...)
	}
	return append(line, '\n')
}
