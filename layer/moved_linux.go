package layer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// maxMoved is how many bytes of files are hashed to find out what was moved. Further files of equal
// sizes count as equal.
const maxMoved = 1 << 30

// stranded returns the paths of changes that would remove content which only changes left out have. A
// renamed directory is known by its mark. What was moved otherwise is a copy and a deletion, and is known
// by size and hash, or by pieces; of empty files there is nothing to lose. One copy that lands
// is enough for all files with that content. With edits, modified files are returned, but count as landing.
func (c *commit) stranded(ctx context.Context, landing, left []*Change, edits bool) (map[string]loss, error) {
	m := &moved{commit: c, landing: landing, edits: edits, found: map[string]loss{}, queue: slices.Clone(left), alike: map[shape]*alike{},
		left: newInherited[*Change](), above: map[string]*Change{}, to: map[string]*Change{}, renamed: newInherited[*Change](), hides: newInherited[string]()}
	if !slices.ContainsFunc(left, func(ch *Change) bool { return ch.Kind == Renamed || shapeOf(ch.New) != shape{} }) {
		return nil, nil
	}
	var err error
	if m.origins, err = c.originsOf(landing, left); err != nil {
		return nil, err
	}
	for i := range c.changes {
		if of := shapeOf(c.changes[i].New); of != (shape{}) {
			m.alike[of] = &alike{shape: of}
		}
	}
	for _, ch := range left {
		if ch.Kind == Renamed {
			m.leaveDir(ch)
		}
	}
	for i := range landing {
		if err := m.land(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := m.keepRewritten(ctx); err != nil {
		return nil, err
	}
	for n := 0; n < len(m.queue); n++ {
		if err := m.leave(ctx, m.queue[n], n >= len(left)); err != nil {
			return nil, err
		}
	}
	return m.found, nil
}

// moved finds content that a commit would remove while only changes that are left out have it.
type moved struct {
	*commit
	landing []*Change
	edits   bool
	found   map[string]loss    // what stranded returns
	origins origins            // what files that are left out were made of
	queue   []*Change          // what is left out, and was not looked at yet
	alike   map[shape]*alike   // what changes bring
	left    inherited[*Change] // renamed directories that are left out, by where the source has them
	above   map[string]*Change // those, by the directories above that, too
	to      map[string]*Change // those, by their new places
	renamed inherited[*Change] // renamed directories that land, by where the source has them
	hides   inherited[string]  // paths at which changes land that hide what a renamed directory has there
}

// loss is a change that would remove what only another one has.
type loss struct {
	of, to *Change
	maybe  bool // the other one may be another file
}

func (l loss) why() string {
	if l.of.Kind == Added || l.of.Kind == Renamed {
		return "it would come to " + text.QuoteName(l.to.Path) + ", too, which does not land"
	}
	if l.of.Kind == Modified {
		return "its content in your directory is otherwise only in " + text.QuoteName(l.to.Path) + ", which does not land"
	}
	if l.maybe {
		return "what is there may have been moved to " + text.QuoteName(l.to.Path) + ", which does not land"
	}
	return "what is there was moved to " + text.QuoteName(l.to.Path) + ", which does not land"
}

// shape describes a content without reading it. Nothing is lost with the zero shape.
type shape struct {
	size int64  // of a regular file
	link string // target of a symbolic link
}

func shapeOf(e Entry) shape {
	if e.Mode.IsRegular() {
		return shape{size: e.Size}
	}
	return shape{link: e.Link}
}

// alike are the contents of one shape. They are read when one of them is left out and another removed.
type alike struct {
	shape
	removed  []removal
	landing  []*Change
	contents map[string]*content // by hash; nil: they were not read
	unread   bool                // one that is left out could not be hashed
}

// removal is a path of the source that a change removes, by its index in landing.
type removal struct {
	path string
	by   int
	size int64
}

// content counts the files of one hash.
type content struct {
	removed []int // by which changes that land
	lands   int   // how many times
}

// leaveDir records a renamed directory that is left out.
func (m *moved) leaveDir(ch *Change) {
	m.left.own[ch.From], m.to[ch.Path] = ch, ch
	for p := ch.From; p != "" && m.above[p] == nil; p, _ = delta.Split(p) {
		m.above[p] = ch
	}
}

// land records the contents that a landing change brings and removes.
func (m *moved) land(ctx context.Context, i int) error {
	ch := m.landing[i]
	of := shapeOf(ch.New)
	if k := m.alike[of]; k != nil {
		k.landing = append(k.landing, ch)
	}
	if ch.Kind != Modified || !ch.New.Mode.IsDir() {
		m.hides.own[ch.Path] = ch.Path
	}
	switch {
	case ch.Kind == Renamed:
		m.renamed.own[ch.From] = ch
		fallthrough
	case ch.Kind == Added || ch.Kind == Modified && ch.New.Mode.IsDir(): // it removes nothing
		if to := m.left.above(ch.Path); to != nil && !m.edits { // which shows what the source has there
			m.keep(i, to, false)
		}
		return nil
	}
	was := ch.OldPath()
	if to := cmp.Or(m.left.own[was], m.left.above(was), m.above[was], m.to[was]); to != nil {
		m.keep(i, to, false)
	}
	err := walkTree(ctx, m.source, was, func(rel string, st *unix.Stat_t) (err error) {
		e := Entry{Mode: modeOf(st.Mode), Size: st.Size}
		if e.Mode&fs.ModeSymlink != 0 {
			e.Link, err = linkAt(m.source, rel)
		}
		of := shapeOf(e)
		r := removal{rel, i, st.Size}
		if k := m.alike[of]; k != nil && err == nil {
			k.removed = append(k.removed, r)
		}
		if of.size > 0 {
			m.origins.removed = append(m.origins.removed, r)
		}
		return err
	})
	if gone(err) {
		return nil
	}
	return err
}

// keep leaves out a change, with what else lands at its path. What may be another file's removal lands if it is
// accepted.
func (m *moved) keep(i int, to *Change, maybe bool) {
	ch := m.landing[i]
	if maybe && ch.Kind != Modified && m.accepted(ch) {
		return
	}
	old, is := m.found[ch.Path]
	if is && (maybe || !old.maybe) {
		return
	}
	m.found[ch.Path] = loss{ch, to, maybe}
	if is || m.edits && ch.Kind == Modified {
		return
	}
	for p := ch.Path; i < len(m.landing) && m.landing[i].Path == p; i++ {
		m.queue = append(m.queue, m.landing[i])
	}
}

// leave keeps what removes the content of a change that is left out, unless it lands with another one.
func (m *moved) leave(ctx context.Context, ch *Change, landed bool) error {
	k := m.alike[shapeOf(ch.New)]
	if k == nil || len(k.removed) == 0 {
		return nil
	}
	if k.contents == nil {
		if err := m.read(ctx, k); err != nil {
			return err
		}
	}
	sum, err := m.sum(ctx, m.upper, ch.Path, k.shape)
	if err != nil {
		return err
	}
	own := k.contents[sum]
	if own != nil && landed {
		own.lands--
	}
	lost := []*content{own, k.contents[""]}
	if sum == "" && !k.unread { // it may be any of them
		k.unread, lost = true, slices.Collect(maps.Values(k.contents))
	}
	for _, s := range lost {
		if s == nil || s.lands > 0 {
			continue
		}
		for _, i := range s.removed {
			m.keep(i, ch, false)
		}
		s.removed = nil
	}
	return nil
}

// read hashes the contents of one shape that are removed, or land.
func (m *moved) read(ctx context.Context, k *alike) error {
	k.contents = map[string]*content{}
	for _, r := range k.removed {
		sum, err := m.sum(ctx, m.source, r.path, k.shape)
		if err != nil {
			return err
		}
		s := k.contents[sum]
		if s == nil {
			s = &content{}
			k.contents[sum] = s
		}
		switch carried := m.carried(r.path); {
		case !carried:
			s.removed = append(s.removed, r.by)
		case sum != "":
			s.lands++
		}
	}
	for _, ch := range k.landing {
		sum, err := m.sum(ctx, m.upper, ch.Path, k.shape)
		if err != nil {
			return err
		}
		if s := k.contents[sum]; s != nil && sum != "" {
			s.lands++
		}
	}
	return nil
}

// carried reports whether a file of the source lands with a renamed directory.
func (m *moved) carried(p string) bool {
	to := m.renamed.above(p)
	if to == nil {
		return false
	}
	at := to.Path + p[len(to.From):]
	return m.hides.own[at] == "" && m.hides.above(at) == to.Path
}

// sum returns the hash of what is at a path, or "" if it is not read.
func (m *moved) sum(ctx context.Context, side int, p string, of shape) (string, error) {
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case of.link != "":
		return "link", nil
	case side == m.source:
		return m.hashed(side, "<"+p, p, of.size)
	}
	return m.hashed(side, ">"+p, p, of.size)
}

// hashed returns the hash of a file, or "" if it is not read.
func (c *commit) hashed(side int, key, rel string, size int64) (string, error) {
	if c.sums == nil {
		c.sums = map[string]string{}
	}
	sum, known := c.sums[key]
	if known || size > maxSum || c.summed+size > maxMoved {
		return sum, nil
	}
	b, err := sumOf(side, rel)
	if errors.Is(err, unix.EACCES) || gone(err) {
		err = nil
	}
	c.summed += size
	c.sums[key] = string(b)
	return string(b), err
}
