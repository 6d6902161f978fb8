package layer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// origins tell which files of the source commands moved to the paths of changes that are left out, and have
// written to since, so that their content does not tell.
type origins struct {
	of        map[string]*Change // by the handle of the source's file, which root's overlays name
	certain   []*Change          // those that were some file of the source: an ordinary user's mark does not say which
	rewritten []*Change          // all that may have pieces of one: the certain ones first, then small ones
	removed   []removal          // the files that they may have been
}

// originsOf returns the origins of what is left out, if what lands removes anything.
func (c *commit) originsOf(landing, left []*Change) (o origins, err error) {
	if !slices.ContainsFunc(landing, func(ch *Change) bool { return ch.Kind != Added && ch.Kind != Renamed }) {
		return o, nil
	}
	o.of = map[string]*Change{}
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
		if from.copied && from.key == "" && from.alone {
			o.certain = append(o.certain, ch)
		} else {
			others = append(others, ch)
		}
	}
	slices.SortStableFunc(others, func(a, b *Change) int { return cmp.Compare(a.New.Size, b.New.Size) })
	o.rewritten = slices.Concat(o.certain, others)
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

// origin describes where a file of the layer comes from, by the kernel's mark.
type origin struct {
	copied bool   // it was made as a copy of one of the source
	key    string // stands for that one; "" if the mark does not name it, as for ordinary users
	own    bool   // the source has that one at the same path
	alone  bool   // the file has one name in the layer
}

// origin reads the mark of a regular file of the layer.
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

// traces tell what became of each file of the source, by its place in oldIndex.
type traces struct {
	sure     map[int]*Change // a change that certainly was one of them, and resembles this one most
	untraced []*Change       // changes that certainly were one of them, and resemble none
	left     map[int]*spread // its pieces in changes that are left out
	land     map[int]*spread // its pieces in landing changes; nil: nobody has asked
}

// keepRewritten keeps the removals of files that were moved and rewritten.
func (m *moved) keepRewritten(ctx context.Context) (err error) {
	if len(m.origins.removed) == 0 || len(m.origins.rewritten) == 0 {
		return nil
	}
	var t traces
	if t.sure, t.untraced, err = m.trace(ctx); err != nil {
		return err
	}
	if t.left, err = m.spreadOver(ctx, m.origins.rewritten, false); err != nil {
		return err
	}
	for _, r := range m.origins.removed {
		if m.carried(r.path) {
			continue
		}
		if lands, err := m.landsAlike(ctx, m.source, r.path, shape{size: r.size}); err != nil {
			return err
		} else if lands {
			continue
		}
		if err := m.keepMovedTo(ctx, &t, r); err != nil {
			return err
		}
	}
	return nil
}

// keepMovedTo keeps a removal if a change that is left out was made of the file. A mark tells, unless an exact
// copy of that change lands; or half of the file's pieces do, if some of these land nowhere.
func (m *moved) keepMovedTo(ctx context.Context, t *traces, r removal) error {
	to, err := m.movedTo(r.path)
	if err != nil {
		return err
	}
	file, known := m.oldIndex.byPath[r.path]
	maybe, guessed := to == nil, false
	if maybe && known {
		to = t.sure[file]
		if left := t.left[file]; to == nil && left != nil && len(left.has)*2 >= len(m.oldIndex.files[file]) {
			to, guessed = left.in, true
		}
	}
	if to == nil {
		if to = untracedTo(t.untraced, r.size); to != nil && m.landing[r.by].Kind != Modified {
			m.keep(r.by, to, true)
		}
		return nil
	}
	if lands, err := m.landsAlike(ctx, m.upper, to.Path, shapeOf(to.New)); lands || err != nil {
		return err
	}
	if t.land == nil {
		if t.land, err = m.spreadOver(ctx, m.landing, true); err != nil {
			return err
		}
	}
	lands := t.land[file]
	switch {
	case !known || lands == nil:
	case m.landing[r.by].Kind == Modified: // it may have been edited at its place
		if len(lands.has)*2 >= len(m.oldIndex.files[file]) {
			return nil
		}
	case guessed && lands.hasAll(t.left[file]):
		return nil
	}
	m.keep(r.by, to, maybe)
	return nil
}

// trace finds the file of the source that each certain one resembles most, and those that resemble none.
func (m *moved) trace(ctx context.Context) (sure map[int]*Change, untraced []*Change, err error) {
	sure = map[int]*Change{}
	for _, ch := range m.origins.certain {
		parts, err := m.partsOf(ctx, ch)
		if err != nil {
			return nil, nil, err
		}
		if ch.Kind == Modified && slices.ContainsFunc(parts, func(p oldPart) bool { return p.own && p.alike }) {
			continue
		}
		traced := false
		for _, p := range parts {
			size := len(m.oldIndex.files[p.file])
			alike := p.alike || len(p.has) == size
			if p.best && (alike || ch.Kind != Modified) {
				sure[p.file] = ch
				traced = traced || alike && len(p.has)*2 > size
			}
		}
		if !traced && ch.Kind != Modified {
			untraced = append(untraced, ch)
		}
	}
	return sure, untraced, nil
}

// untracedTo returns the first of some files that may have been one of that size, unless most of it is gone.
func untracedTo(untraced []*Change, size int64) *Change {
	for _, ch := range untraced {
		if size/4 <= ch.New.Size {
			return ch
		}
	}
	return nil
}

// spread collects the pieces that some files of the layer share with one of the source.
type spread struct {
	has map[uint64]bool
	in  *Change // that has most
	n   int     // how much
}

func (s *spread) hasAll(o *spread) bool {
	for piece := range o.has {
		if !s.has[piece] {
			return false
		}
	}
	return true
}

// spreadOver collects the pieces that changes share with files of the source that they are alike. If they land,
// each counts for the one that it shares most with, if that is only one, and for the file that was at its own path.
func (c *commit) spreadOver(ctx context.Context, changes []*Change, land bool) (map[int]*spread, error) {
	found := map[int]*spread{}
	for _, ch := range changes {
		if !isText(ch) {
			continue
		}
		parts, err := c.partsOf(ctx, ch)
		if err != nil {
			return nil, err
		}
		bests := 0
		for _, p := range parts {
			if p.best {
				bests++
			}
		}
		for _, p := range parts {
			counts := p.alike && (!land || p.best && bests == 1)
			if p.own {
				counts = land
			}
			if !counts {
				continue
			}
			s := found[p.file]
			if s == nil {
				s = &spread{has: map[uint64]bool{}}
				found[p.file] = s
			}
			for _, piece := range p.has {
				s.has[piece] = true
			}
			if len(p.has) > s.n {
				s.in, s.n = ch, len(p.has)
			}
		}
	}
	return found, nil
}

// landsAlike reports whether a file with the content of another one lands.
func (m *moved) landsAlike(ctx context.Context, side int, rel string, of shape) (bool, error) {
	k := m.alike[of]
	if k == nil {
		return false, nil
	}
	sum, err := m.sum(ctx, side, rel, of)
	if err != nil || sum == "" {
		return false, err
	}
	for _, ch := range k.landing {
		if own, err := m.sum(ctx, m.upper, ch.Path, of); own == sum || err != nil {
			return err == nil, err
		}
	}
	return false, nil
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

// hasOthers reports whether a file is alike another one of the source that commands changed or removed, and not
// alike the one that was at its path.
func (c *commit) hasOthers(ctx context.Context, of *Change) (is bool, err error) {
	parts, err := c.partsOf(ctx, of)
	for _, p := range parts {
		if p.own && p.alike {
			return false, err
		}
		is = is || p.alike
	}
	return is, err
}
