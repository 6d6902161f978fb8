package layer

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// origins tell which files of the source commands moved to the paths of changes that are left out, and have
// written to since, so that their content does not tell.
type origins struct {
	of        map[string]*Change // by the handle of the source's file, which root's overlays name
	rewritten []*Change          // those that may share lines with one
	removed   []match            // the files that they may have been
	matches   []match
	compared  int // lines
}

// match is a file of the source, and the one that is left out which it became.
type match struct {
	was  removal
	size int64
	to   *Change
}

// Bounds of the search for files with equal lines: the bytes that are read of one and in all, how many
// files are, and how many lines are compared. Beyond them, files count as different.
const (
	maxRewritten      = 1 << 20
	maxRewrittenAll   = 32 << 20
	maxRewrittenFiles = 1 << 12
	maxRewrittenLines = 1 << 24
)

// originsOf returns the origins of what is left out, if what lands removes anything.
func (c *commit) originsOf(landing, left []*Change, edits bool) (o origins, err error) {
	if !edits && !slices.ContainsFunc(landing, func(ch *Change) bool { return ch.Kind == Deleted || ch.Kind == Retyped }) {
		return o, nil
	}
	o.of = map[string]*Change{}
	for _, ch := range left {
		key, _, err := c.origin(ch)
		if err != nil {
			return o, err
		}
		if key != "" {
			o.of[key] = ch
		}
		if len(o.rewritten) < maxRewrittenFiles && ch.New.Mode.IsRegular() && ch.New.Size > 0 && (ch.Kind == Added || edits && ch.Kind == Modified) {
			o.rewritten = append(o.rewritten, ch)
		}
	}
	for i := 0; i < len(landing) && len(o.of) > 0; i++ { // another name of the file lands
		key, _, err := c.origin(landing[i])
		if err != nil {
			return o, err
		}
		delete(o.of, key)
	}
	return o, nil
}

// origin reports whether the kernel made a regular file of the layer as a copy of one of the source. key
// stands for that one, if its mark names it and the source does not have it at the same path.
func (c *commit) origin(ch *Change) (key string, copied bool, err error) {
	if ch.Kind != Added && ch.Kind != Modified || !ch.New.Mode.IsRegular() {
		return "", false, nil
	}
	mark, copied, err := c.copiedUp(ch.Path)
	if errors.Is(err, unix.EACCES) || gone(err) { // what its owner cannot read
		return "", false, nil
	}
	if err != nil || !copied || len(mark) <= originHeader {
		return "", copied, err
	}
	if ch.Kind == Modified {
		fd, err := reach(c.source, ch.OldPath(), unix.O_PATH)
		if err == nil {
			defer func() { _ = unix.Close(fd) }()
			if isOrigin(fd, mark) {
				return "", true, nil
			}
		}
	}
	return string(mark[4:5]) + string(mark[originHeader:]), true, nil
}

// matchOrigin records what became of a file that is removed.
func (m *moved) matchOrigin(r removal, size int64) error {
	if m.landing[r.by].Kind == Modified && !m.edits {
		return nil
	}
	if len(m.origins.rewritten) > 0 && len(m.origins.removed) < maxRewrittenFiles {
		m.origins.removed = append(m.origins.removed, match{was: r, size: size})
	}
	if len(m.origins.of) == 0 {
		return nil
	}
	fd, err := reach(m.source, r.path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EOVERFLOW) {
		return nil // a file system without handles, which no mark names
	}
	if err != nil {
		return err
	}
	if to := m.origins.of[string([]byte{uint8(h.Type())})+string(h.Bytes())]; to != nil {
		m.origins.matches = append(m.origins.matches, match{r, size, to})
	}
	return nil
}

// matchLines records files that are removed and share half of their lines with one which is left out.
func (m *moved) matchLines(ctx context.Context) (err error) {
	for _, is := range m.origins.removed {
		if is.to, err = m.alikeOne(ctx, is, m.origins.rewritten); err != nil {
			return err
		}
		if is.to != nil {
			m.origins.matches = append(m.origins.matches, is)
		}
	}
	return nil
}

// alikeOne returns the first of some changes that shares half of its lines with a file of the source.
func (m *moved) alikeOne(ctx context.Context, is match, changes []*Change) (*Change, error) {
	was, err := m.lines(ctx, m.source, "<"+is.was.path, is.was.path)
	if err != nil {
		return nil, err
	}
	for _, ch := range changes {
		if ch.Kind != Added && ch.Kind != Modified || !ch.New.Mode.IsRegular() || is.size/4 > ch.New.Size || ch.New.Size/4 > is.size {
			continue
		}
		lines, err := m.lines(ctx, m.upper, ">"+ch.Path, ch.Path)
		if err != nil {
			return nil, err
		}
		if m.origins.compared += len(was); m.origins.compared > maxRewrittenLines {
			return nil, nil
		}
		if !shareLines(was, lines) {
			continue
		}
		if ch.Kind == Modified { // not if it is what it was, after edits
			own, err := m.lines(ctx, m.source, "<"+ch.OldPath(), ch.OldPath())
			if err != nil {
				return nil, err
			}
			if shareLines(own, lines) {
				continue
			}
		}
		return ch, nil
	}
	return nil, nil
}

// keepOrigins keeps the removals of what was rewritten, unless their content, or half of its lines, lands
// elsewhere.
func (m *moved) keepOrigins(ctx context.Context) error {
	for _, o := range m.origins.matches {
		if k := m.alike[shape{size: o.size}]; k != nil {
			if k.contents == nil {
				if err := m.read(ctx, k); err != nil {
					return err
				}
			}
			sum, err := m.sum(ctx, m.source, o.was.path, k.shape)
			if err != nil {
				return err
			}
			if own := k.contents[sum]; own != nil && own.lands > 0 {
				continue
			}
		}
		lands, err := m.alikeOne(ctx, o, m.landing)
		if err != nil {
			return err
		}
		if lands == nil {
			m.keep(o.was.by, o.to)
		}
	}
	return nil
}

// lines returns hashes of the lines of a file, none if it is not read.
func (c *commit) lines(ctx context.Context, side int, key, rel string) (map[uint64]bool, error) {
	if known, is := c.lineSets[key]; is || ctx.Err() != nil || c.linesRead > maxRewrittenAll {
		return known, ctx.Err()
	}
	f, _, err := openFile(side, rel)
	if errors.Is(err, unix.EACCES) || gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRewritten))
	if err != nil {
		return nil, err
	}
	if c.lineSets == nil {
		c.lineSets = map[string]map[uint64]bool{}
	}
	all := map[uint64]bool{}
	for line := range bytes.Lines(text) {
		all[maphash.Bytes(lineSeed, line)] = true
	}
	c.linesRead += len(text)
	c.lineSets[key] = all
	return all, nil
}

var lineSeed = maphash.MakeSeed()

// shareLines reports whether two texts share half of their lines.
func shareLines(a, b map[uint64]bool) bool {
	shared := 0
	for line := range a {
		if b[line] {
			shared++
		}
	}
	return shared > 0 && shared*2 >= max(len(a), len(b))
}

// movedIn reports whether commands moved what the source has at a path to another one, and another file of
// the source to its place. One that was copied first and edited then is not; nor is one that was written
// anew. A link is moved in if both places were in use before.
func (c *commit) movedIn(ctx context.Context, lost loss) (bool, error) {
	of, to := lost.of, lost.to
	if of.New.Link != "" {
		return to.Kind == Modified, nil
	}
	_, moved, err := c.copiedUp(to.Path)
	if err != nil || !moved {
		return false, err
	}
	key, copied, err := c.origin(of)
	if err != nil || !copied {
		return false, err
	}
	mark, _, err := c.copiedUp(of.Path)
	if err != nil || key == "" && len(mark) > originHeader { // it is the source's own
		return false, err
	}
	if to.New.Size > maxSum && to.New.Size == of.Old.Size { // which of them was moved was not looked at
		return sameContent(ctx, side{c.Layer.upper(), to.Path, to.New}, side{c.Layer.source(), of.OldPath(), of.Old})
	}
	return true, nil
}
