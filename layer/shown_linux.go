package layer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
)

// ContentSum is the SHA-256 of the content of a file.
type ContentSum [sha256.Size]byte

// Fingerprint returns a digest of what the changes of one path land: their kinds, the path, where a
// renamed directory was, type and permissions, the target of a link, and the content of a regular
// file, unless it is nil.
func Fingerprint(changes []Change, content *ContentSum) []byte {
	h := sha256.New()
	number := func(n int) { _ = binary.Write(h, binary.BigEndian, uint64(n)) } // a hash takes everything
	text := func(s string) {
		number(len(s))
		_, _ = io.WriteString(h, s)
	}
	for i := range changes {
		c := &changes[i]
		from := ""
		if c.Kind == Renamed { // elsewhere it only says what the difference was taken from
			from = c.From
		}
		number(int(c.Kind))
		text(c.Path)
		text(from)
		number(int(c.New.Mode))
		text(c.New.Link)
	}
	if content != nil {
		h.Write(content[:])
	}
	return h.Sum(nil)
}

// Content returns the digest of the content that a change lands, nil if it is not that of a regular
// file that a patch can have.
func (l *Layer) Content(ctx context.Context, c *Change) (*ContentSum, error) {
	if c.Kind == Deleted || !c.New.Mode.IsRegular() || c.New.Size > mostText {
		return nil, nil
	}
	sum, err := side{l.upper(), c.Path, c.New}.sum(ctx)
	return &sum, err
}

// IsInGit reports whether a path is in a directory of git's own, of which no patch has anything.
func IsInGit(path string) bool {
	_, is := gitDir(path)
	return is
}

// sum returns the digest of a regular file's content, of no file that of nothing.
func (s side) sum(ctx context.Context) (sum ContentSum, err error) {
	h := sha256.New()
	if s.path != "" {
		f, err := s.tree.openFile(s.path, s.entry)
		if err != nil {
			return sum, err
		}
		defer f.Close()
		block := blocks.Get().(*[2][64 << 10]byte)
		defer blocks.Put(block)
		for at := int64(0); at < s.entry.Size; {
			n := min(s.entry.Size-at, int64(len(block[0])))
			if err := ctx.Err(); err != nil {
				return sum, err
			}
			if _, err := f.ReadAt(block[0][:n], at); err != nil {
				return sum, s.tree.fail("read", s.path, err)
			}
			h.Write(block[0][:n])
			at += n
		}
	}
	return ContentSum(h.Sum(nil)), nil
}

// shownLines tells that the patch has the new content of a file: that which was compared by lines,
// and not what is there by now. Without edits it is that of the old one.
func (p *patch) shownLines(f *file, d lines) (err error) {
	if p.options.Shown == nil || f.path == "" || f.moved || !f.new.Mode.IsRegular() || f.new.Size > mostText {
		return nil
	}
	if len(d.edits) > 0 {
		p.shown(f, d.new.Bytes())
		return nil
	}
	sum, err := f.oldSide(p.Layer).sum(p.ctx)
	if err == nil {
		p.options.Shown(f.path, sum)
	}
	return err
}

// shown tells that the patch has this as the new content of a file.
func (p *patch) shown(f *file, content []byte) {
	if p.options.Shown != nil && f.path != "" && f.new.Mode.IsRegular() {
		p.options.Shown(f.path, sha256.Sum256(content))
	}
}
