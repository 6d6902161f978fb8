package layer

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// origins tell which files of the source commands moved to the paths of changes that are left out, and have
// written to since, so that their content does not tell.
type origins struct {
	of        map[string]*Change // by the handle of the source's file, which root's overlays name
	rewritten []*Change          // those that may have pieces of one, the certain ones first
	certain   map[*Change]bool   // was a file of the source; an ordinary user's mark does not say which
	removed   []removal          // the files that they may have been
}

// originsOf returns the origins of what is left out, if what lands removes anything.
func (c *commit) originsOf(landing, left []*Change) (o origins, err error) {
	if !slices.ContainsFunc(landing, func(ch *Change) bool { return ch.Kind != Added && ch.Kind != Renamed }) {
		return o, nil
	}
	o.of, o.certain = map[string]*Change{}, map[*Change]bool{}
	var others []*Change
	for _, ch := range left {
		if !isText(ch) {
			continue
		}
		from, err := c.origin(ch)
		if err != nil {
			return o, err
		}
		if from.key != "" && !from.own {
			o.of[from.key] = ch
		}
		if from.copied && from.key == "" && ch.Kind != Modified && from.alone {
			o.certain[ch] = true
			o.rewritten = append(o.rewritten, ch)
		} else {
			others = append(others, ch)
		}
	}
	o.rewritten = append(o.rewritten, others...)
	for i := 0; i < len(landing) && len(o.of) > 0; i++ { // another name of the file lands
		if !isText(landing[i]) {
			continue
		}
		from, err := c.origin(landing[i])
		if err != nil {
			return o, err
		}
		delete(o.of, from.key)
	}
	return o, nil
}

// isText reports whether a change brings a regular file with anything in it.
func isText(ch *Change) bool {
	return ch.Kind != Deleted && ch.Kind != Renamed && ch.New.Mode.IsRegular() && ch.New.Size > 0
}

// origin is what the kernel's mark says of a file of the layer.
type origin struct {
	copied bool   // it was made as a copy of one of the source
	key    string // stands for that one; "" if the mark does not name it, as for ordinary users
	own    bool   // the source has that one at the same path
	alone  bool   // the file has one name in the layer
}

// origin returns what is known of where a regular file of the layer comes from.
func (c *commit) origin(ch *Change) (o origin, err error) {
	mark, copied, err := c.copiedUp(ch.Path)
	if errors.Is(err, unix.EACCES) || gone(err) { // what its owner cannot read
		return o, nil
	}
	if o.copied = copied; err != nil || !copied {
		return o, err
	}
	if st, err := look(c.upper, ch.Path); err == nil {
		o.alone = st.Nlink == 1
	}
	if len(mark) <= originHeader {
		return o, nil
	}
	o.key = string(mark[4:5]) + string(mark[originHeader:])
	if ch.Kind == Modified {
		fd, err := reach(c.source, ch.OldPath(), unix.O_PATH)
		if err == nil {
			defer func() { _ = unix.Close(fd) }()
			o.own = isOrigin(fd, mark)
		}
	}
	return o, nil
}

// movedTo returns the change that is left out whose mark names a file of the source.
func (m *moved) movedTo(rel string) (*Change, error) {
	if len(m.origins.of) == 0 {
		return nil, nil
	}
	fd, err := reach(m.source, rel, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EOVERFLOW) {
		return nil, nil // a file system without handles, which no mark names
	}
	if err != nil {
		return nil, err
	}
	return m.origins.of[string([]byte{uint8(h.Type())})+string(h.Bytes())], nil
}

// keepRewritten keeps the removals of files that were moved and rewritten, unless as much of them lands
// elsewhere. It knows them by their marks, or by half of their pieces, which may be in several files.
func (m *moved) keepRewritten(ctx context.Context) error {
	if len(m.origins.removed) == 0 || len(m.origins.rewritten) == 0 {
		return nil
	}
	left, err := m.indexOf(ctx, m.origins.rewritten, true)
	if err != nil {
		return err
	}
	var land *index // made once it is asked for
	var lost []removal
	for _, r := range m.origins.removed {
		to, err := m.movedTo(r.path)
		if err != nil {
			return err
		}
		was, err := m.pieces(ctx, m.source, "<"+r.path, r.path)
		if err != nil {
			return err
		}
		covered, files := left.cover(was)
		if to == nil && len(files) > 0 && covered*2 >= len(was) {
			to = files[0]
		}
		lands, err := m.landsAlike(ctx, r)
		if err != nil {
			return err
		}
		switch {
		case lands:
			continue
		case to == nil:
			lost = append(lost, r)
			continue
		}
		if land == nil {
			if land, err = m.indexOf(ctx, m.landing, false); err != nil {
				return err
			}
		}
		if n, _ := land.cover(was); n == 0 || n*2 < len(was) || n < covered && m.landing[r.by].Kind != Modified {
			m.keep(r.by, to)
		}
	}
	return m.keepUntraced(ctx, lost)
}

// keepUntraced keeps removals of the source's files of which nothing is known to be left, if what is left out
// was some file of the source, and nothing tells which.
func (m *moved) keepUntraced(ctx context.Context, lost []removal) error {
	for _, ch := range m.origins.rewritten {
		if len(lost) == 0 || !m.origins.certain[ch] {
			continue
		}
		if known, err := m.isKnown(ctx, ch); err != nil {
			return err
		} else if known {
			continue
		}
		for _, r := range lost {
			if kind := m.landing[r.by].Kind; kind != Modified && r.size/4 <= ch.New.Size && ch.New.Size/4 <= r.size {
				m.keep(r.by, ch)
			}
		}
	}
	return nil
}

// landsAlike reports whether a file with the content of one that is removed lands.
func (m *moved) landsAlike(ctx context.Context, r removal) (bool, error) {
	k := m.alike[shape{size: r.size}]
	if k == nil {
		return false, nil
	}
	if k.contents == nil {
		if err := m.read(ctx, k); err != nil {
			return false, err
		}
	}
	sum, err := m.sum(ctx, m.source, r.path, k.shape)
	own := k.contents[sum]
	return own != nil && own.lands > 0, err
}

// movedIn reports whether commands moved what the source has at a path to another one, and another file of
// the source to its place. One that was copied first and edited then is not; nor is one that was written
// anew. A link is moved in if both places were in use before.
func (c *commit) movedIn(ctx context.Context, lost loss) (bool, error) {
	of, to := lost.of, lost.to
	if of.New.Link != "" {
		return to.Kind == Modified, nil
	}
	from, err := c.origin(to)
	if err != nil {
		return false, err
	}
	into, err := c.origin(of)
	switch {
	case err != nil || into.own:
		return false, err
	case !from.copied || !into.copied: // of hard links, and of what editors and sed write, nothing tells
		return c.hasOthers(ctx, of)
	case to.New.Size > maxSum && to.New.Size == of.Old.Size: // which of them was moved was not looked at
		return sameContent(ctx, side{c.Layer.upper(), to.Path, to.New}, side{c.Layer.source(), of.OldPath(), of.Old})
	}
	return true, nil
}

// hasOthers reports whether a file has become more like another one of the source that commands changed or
// removed than like itself.
func (c *commit) hasOthers(ctx context.Context, of *Change) (bool, error) {
	now, err := c.pieces(ctx, c.upper, ">"+of.Path, of.Path)
	if err != nil || len(now) == 0 {
		return false, err
	}
	was, err := c.pieces(ctx, c.source, "<"+of.OldPath(), of.OldPath())
	if err != nil {
		return false, err
	}
	if own := intersect(now, was); own*2 >= min(len(now), len(was)) {
		return false, nil
	}
	return c.isKnown(ctx, of)
}

// isKnown reports whether a file of the layer resembles one of the source that was changed or removed.
func (c *commit) isKnown(ctx context.Context, ch *Change) (bool, error) {
	now, err := c.pieces(ctx, c.upper, ">"+ch.Path, ch.Path)
	if err != nil {
		return false, err
	}
	if c.olds == nil {
		if c.olds, err = c.indexBefore(ctx); err != nil {
			return false, err
		}
	}
	_, files := c.olds.cover(now)
	return len(files) > 0, nil
}
