package layer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// maxMoved is how many bytes of files are hashed to find out what was moved. Further files of equal
// sizes count as equal.
const maxMoved = 1 << 30

// stranded returns the paths of those of the changes that land which remove something that a change has which is
// left out, with the reasons: its content would be in neither place. A renamed directory is known by
// its mark. What was moved otherwise is a copy and a deletion, and is known by size and hash; of empty
// files there is nothing to lose.
func (c *commit) stranded(ctx context.Context, landing, left []*Change) (map[string]string, error) {
	m := moved{commit: c, bySize: map[int64][]*Change{}, byLink: map[string]*Change{}}
	for _, ch := range left {
		switch mode := ch.New.Mode; {
		case ch.Kind == Deleted:
		case ch.Kind == Renamed:
			m.renamed = append(m.renamed, ch)
		case mode.IsRegular() && ch.New.Size > 0:
			m.bySize[ch.New.Size] = append(m.bySize[ch.New.Size], ch)
		case mode&fs.ModeSymlink != 0:
			m.byLink[ch.New.Link] = ch
		}
	}
	found := map[string]string{}
	for _, ch := range landing {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to, err := m.to(ctx, ch)
		if err != nil {
			return nil, err
		}
		if to != nil {
			found[ch.Path] = "what is there was moved to " + text.QuoteName(to.Path) + ", which does not land"
		}
	}
	return found, nil
}

// moved has where content is that is left out.
type moved struct {
	*commit
	renamed []*Change
	bySize  map[int64][]*Change
	byLink  map[string]*Change
}

// to returns the change that is left out and has what another one removes from the source, or nil.
func (m *moved) to(ctx context.Context, ch *Change) (to *Change, err error) {
	if ch.Kind == Added || ch.Kind == Renamed || ch.Kind == Modified && ch.New.Mode.IsDir() {
		return nil, nil //nolint:nilnil // it removes nothing
	}
	was := ch.OldPath()
	if i := slices.IndexFunc(m.renamed, func(r *Change) bool {
		return within(was, r.From) || within(r.From, was) || ch.Kind == Deleted && ch.Path == r.Path
	}); i >= 0 {
		return m.renamed[i], nil
	}
	if len(m.bySize)+len(m.byLink) == 0 {
		return nil, nil //nolint:nilnil // nothing can have it
	}
	if size := ch.Old.Size; ch.Kind == Modified && ch.New.Mode.IsRegular() && size == ch.New.Size && len(m.bySize[size]) > 0 {
		own, err := m.hashed(m.source, "<"+was, was, size)
		if err != nil {
			return nil, err
		}
		now, err := m.hashed(m.upper, ">"+ch.Path, ch.Path, size)
		if err != nil || own == now && own != "" {
			return nil, err // its permissions alone have changed
		}
	}
	err = walkTree(ctx, m.source, was, func(rel string, st *unix.Stat_t) error {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			to, err = m.copyOf(rel, st.Size)
		case unix.S_IFLNK:
			link, lerr := linkAt(m.source, rel)
			to, err = m.byLink[link], lerr
		}
		if err == nil && to != nil {
			err = io.EOF
		}
		return err
	})
	if errors.Is(err, io.EOF) || gone(err) {
		err = nil
	}
	return to, err
}

// copyOf returns a change that is left out and has the content of a file of the source, or nil.
func (m *moved) copyOf(rel string, size int64) (*Change, error) {
	list := m.bySize[size]
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no file has its size
	}
	own, err := m.hashed(m.source, "<"+rel, rel, size)
	if err != nil {
		return nil, err
	}
	for _, ch := range list {
		other, err := m.hashed(m.upper, ">"+ch.Path, ch.Path, size)
		if err != nil {
			return nil, err
		}
		if own == other || own == "" || other == "" {
			return ch, nil
		}
	}
	return nil, nil //nolint:nilnil // none has its content
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
