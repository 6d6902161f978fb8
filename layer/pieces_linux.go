package layer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// Bounds of the search for files with equal pieces: the bytes that are read of one, and of all. A file that is
// not read has no pieces.
const (
	maxText  = 1 << 20
	maxTexts = 128 << 20
)

// pieces are sorted hashes of the lines of a file, without the white space around them, which indenting
// changes. Long lines, and binary files, are cut where their content says so: what is inserted moves no cut.
type pieces []uint64

var pieceSeed = maphash.MakeSeed()

// longLine is the length, in bytes, from which a line is cut into pieces of 64 bytes on average.
const longLine = 256

func piecesOf(text []byte) (p pieces) {
	add := func(piece []byte) {
		if piece = bytes.TrimSpace(piece); len(piece) > 0 {
			p = append(p, maphash.Bytes(pieceSeed, piece))
		}
	}
	for line := range bytes.Lines(text) {
		if len(line) > longLine {
			for start, i, last := 0, 0, uint64(0); i < len(line); i++ {
				last = last<<1 + (uint64(line[i])+1)*0x9e3779b97f4a7c15 // of the last 64 bytes
				if last>>58 == 0 || i == len(line)-1 {
					add(line[start : i+1])
					start = i + 1
				}
			}
			continue
		}
		add(line)
	}
	slices.Sort(p)
	return slices.Compact(p)
}

// intersect returns how many pieces two files share.
func intersect(a, b pieces) (n int) {
	for _, piece := range a {
		if _, is := slices.BinarySearch(b, piece); is {
			n++
		}
	}
	return n
}

// pieces returns the pieces of a file, none if it is not read.
func (c *commit) pieces(ctx context.Context, side int, key, rel string) (pieces, error) {
	if known, is := c.texts[key]; is || ctx.Err() != nil || c.textsRead > maxTexts {
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
	text, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return nil, err
	}
	if c.texts == nil {
		c.texts = map[string]pieces{}
	}
	c.textsRead += len(text)
	c.texts[key] = piecesOf(text)
	return c.texts[key], nil
}

// index finds the files that share pieces with another one.
type index struct {
	files []*Change
	sizes []int // of each, in pieces
	of    map[uint64][]int32
}

// maxShared is how many files of one piece are listed. What more have counts as shared with any file.
const maxShared = 64

func (x *index) add(ch *Change, p pieces) {
	if x.of == nil {
		x.of = map[uint64][]int32{}
	}
	for _, piece := range p {
		if at := x.of[piece]; len(at) < maxShared {
			x.of[piece] = append(at, int32(len(x.files)))
		}
	}
	x.files, x.sizes = append(x.files, ch), append(x.sizes, len(p))
}

// cover returns how many pieces of a file are in others that are alike, and those: the most alike first. Two
// files are alike if half of the larger one, or four pieces and half of the smaller, are the same.
func (x *index) cover(p pieces) (n int, files []*Change) {
	shared := map[int32]int{}
	for _, piece := range p {
		for _, i := range x.of[piece] {
			shared[i]++
		}
	}
	alike := make([]int32, 0, len(shared))
	for i, same := range shared {
		least := min(len(p), x.sizes[i])
		if same < 4 {
			least = max(len(p), x.sizes[i])
		}
		if same*2 >= least {
			alike = append(alike, i)
		} else {
			delete(shared, i)
		}
	}
	slices.SortFunc(alike, func(a, b int32) int { return cmp.Or(shared[b]-shared[a], int(a-b)) })
	for _, piece := range p {
		at := x.of[piece]
		if len(at) == maxShared || slices.ContainsFunc(at, func(i int32) bool { return shared[i] > 0 }) {
			n++
		}
	}
	for _, i := range alike {
		files = append(files, x.files[i])
	}
	for i := 0; n > 0 && len(files) == 0; i++ { // what many share is in any of these
		if at := x.of[p[i]]; len(at) == maxShared {
			files = append(files, x.files[at[0]])
		}
	}
	return n, files
}

// indexOf returns the index of what changes bring. If fresh, what a file had before does not count.
func (c *commit) indexOf(ctx context.Context, changes []*Change, fresh bool) (*index, error) {
	var x index
	for _, ch := range changes {
		if !isText(ch) {
			continue
		}
		now, err := c.pieces(ctx, c.upper, ">"+ch.Path, ch.Path)
		if err != nil {
			return nil, err
		}
		if fresh && ch.Kind == Modified {
			was, err := c.pieces(ctx, c.source, "<"+ch.OldPath(), ch.OldPath())
			if err != nil {
				return nil, err
			}
			now = slices.DeleteFunc(slices.Clone(now), func(piece uint64) bool { _, had := slices.BinarySearch(was, piece); return had })
		}
		x.add(ch, now)
	}
	return &x, nil
}

// indexBefore returns the index of what the source has where something was changed or removed.
func (c *commit) indexBefore(ctx context.Context) (*index, error) {
	var x index
	for i := range c.changes {
		ch := &c.changes[i]
		if ch.Kind == Added || ch.Kind == Renamed || ch.Kind == Modified && ch.New.Mode.IsDir() {
			continue
		}
		err := walkTree(ctx, c.source, ch.OldPath(), func(rel string, st *unix.Stat_t) error {
			if st.Mode&unix.S_IFMT != unix.S_IFREG {
				return nil
			}
			was, err := c.pieces(ctx, c.source, "<"+rel, rel)
			x.add(ch, was)
			return err
		})
		if err != nil && !gone(err) {
			return nil, err
		}
	}
	return &x, nil
}
