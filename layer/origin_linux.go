package layer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// origins tell what regular files that are left out were, if their content does not: commands have moved
// those of the source to these paths, and have written to them since.
type origins struct {
	of        map[string]*Change // by the handle of the source's file, which root's overlays name
	rewritten []*Change          // those that name none, and may share lines with one
	removed   []match            // the files that they may have been
	matches   []match
}

// match is a file of the source, and the one that is left out which it became.
type match struct {
	was  removal
	size int64
	to   *Change
}

// Bounds of the search for files with equal lines: the bytes of one that are read, and how many files
// and pairs are. Beyond them, files count as different.
const (
	maxRewritten      = 1 << 20
	maxRewrittenFiles = 1 << 12
	maxRewrittenPairs = 1 << 16
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
		} else if len(o.rewritten) < maxRewrittenFiles && ch.New.Mode.IsRegular() && ch.New.Size > 0 && (ch.Kind == Added || edits && ch.Kind == Modified) {
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
	if kind := m.landing[r.by].Kind; len(m.origins.rewritten) > 0 && len(m.origins.removed) < maxRewrittenFiles && (m.edits || kind != Modified) {
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

// matchLines records files that are removed and share half of their lines with one that is left out.
func (m *moved) matchLines(ctx context.Context) error {
	pairs := 0
	for _, ch := range m.origins.rewritten {
		if len(m.origins.removed) == 0 || pairs > maxRewrittenPairs {
			break
		}
		text, err := head(m.upper, ch.Path)
		if err != nil {
			return err
		}
		lines := linesOf(text)
		if ch.Kind == Modified { // it is what it was, after edits
			if text, err = head(m.source, ch.OldPath()); err != nil || shareLines(lines, linesOf(text)) {
				if err != nil {
					return err
				}
				continue
			}
		}
		for _, r := range m.origins.removed {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.size/4 > ch.New.Size || ch.New.Size/4 > r.size {
				continue
			}
			pairs++
			if text, err = head(m.source, r.was.path); err != nil {
				return err
			}
			if shareLines(lines, linesOf(text)) {
				m.origins.matches = append(m.origins.matches, match{r.was, r.size, ch})
			}
		}
	}
	return nil
}

// keepOrigins keeps the removals of what was rewritten, unless their content lands elsewhere.
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
		m.keep(o.was.by, o.to)
	}
	return nil
}

// head returns the beginning of a file, or nothing if it cannot be read.
func head(side int, rel string) ([]byte, error) {
	f, _, err := openFile(side, rel)
	if errors.Is(err, unix.EACCES) || gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRewritten))
}

func linesOf(text []byte) map[string]bool {
	all := map[string]bool{}
	for line := range bytes.Lines(text) {
		all[string(line)] = true
	}
	return all
}

// shareLines reports whether two texts share half of their lines.
func shareLines(a, b map[string]bool) bool {
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
