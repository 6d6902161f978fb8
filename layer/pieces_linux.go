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

// Bounds of the search for files with equal pieces: the bytes that are read of one, of all of the source's,
// and of all of the layer's, in one pass. A file that is not read has no pieces.
const (
	maxText    = 1 << 20
	maxOldText = 32 << 20
	maxNewText = 128 << 20
)

// pieces are sorted hashes of the lines of a file, without the white space around them, which indenting
// changes. Long lines, and binary files, are cut where their content says so: an insertion moves no other cut.
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
		if len(line) <= longLine {
			add(line)
			continue
		}
		for start, i, last := 0, 0, uint64(0); i < len(line); i++ {
			last = last<<1 + (uint64(line[i])+1)*0x9e3779b97f4a7c15 // of the last 64 bytes
			if last>>58 == 0 || i == len(line)-1 {
				add(line[start : i+1])
				start = i + 1
			}
		}
	}
	slices.Sort(p)
	return slices.Compact(p)
}

func (p pieces) has(piece uint64) bool {
	_, has := slices.BinarySearch(p, piece)
	return has
}

// readPieces returns the pieces of a file, and adds to read how much of it was read, which it bounds.
func readPieces(side int, rel string, read *int, most int) (pieces, error) {
	if *read > most {
		return nil, nil
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
	*read += len(text)
	return piecesOf(text), err
}

// oldIndex holds the files of the source that commands changed or removed. It tells which of them are in a file of
// the layer.
type oldIndex struct {
	files  []pieces
	byPath map[string]int
	of     map[uint64][]int32   // the files with a piece; none if there are too many
	parts  map[string][]oldPart // what was found, by path in the layer
	read   int                  // bytes of the layer's files
}

// oldPart lists the pieces that a file of the layer shares with one of the source.
type oldPart struct {
	file  int      // by its index in oldIndex
	has   []uint64 // pieces
	own   bool     // it is the one at the same path
	alike bool     // half of the larger file, or four pieces and half of the smaller, are the same
	best  bool     // no other file of the source has more of it, or is smaller and has as much
}

// maxCrowd is how many files may have a piece that tells one of them from others.
const maxCrowd = 64

// changedFiles returns the files of the source that commands changed or removed.
func (c *commit) changedFiles(ctx context.Context) (*oldIndex, error) {
	if c.oldIndex != nil {
		return c.oldIndex, nil
	}
	o := &oldIndex{byPath: map[string]int{}, of: map[uint64][]int32{}, parts: map[string][]oldPart{}}
	read := 0
	for i := range c.changes {
		err := c.eachOld(ctx, &c.changes[i], func(rel string, st *unix.Stat_t) error {
			if st.Mode&unix.S_IFMT != unix.S_IFREG {
				return nil
			}
			p, err := readPieces(c.source, rel, &read, maxOldText)
			for _, piece := range p {
				if at := o.of[piece]; len(at) <= maxCrowd {
					o.of[piece] = append(at, int32(len(o.files)))
				}
			}
			o.byPath[rel] = len(o.files)
			o.files = append(o.files, p)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for piece, at := range o.of {
		if len(at) > maxCrowd {
			o.of[piece] = nil
		}
	}
	for i, p := range o.files {
		o.files[i] = slices.DeleteFunc(p, func(piece uint64) bool { return o.of[piece] == nil })
	}
	c.oldIndex = o
	return o, nil
}

// partsOf finds the files of the source that a regular file of the layer shares pieces with. Pieces that were at
// its own path before count for that file alone.
func (c *commit) partsOf(ctx context.Context, ch *Change) ([]oldPart, error) {
	o, err := c.changedFiles(ctx)
	if err != nil || ctx.Err() != nil {
		return nil, cmp.Or(err, ctx.Err())
	}
	if known, is := o.parts[ch.Path]; is {
		return known, nil
	}
	now, err := readPieces(c.upper, ch.Path, &o.read, maxNewText)
	if err != nil {
		return nil, err
	}
	own, is := o.byPath[ch.OldPath()]
	if !is || ch.Kind != Modified {
		own = -1
	}
	shared := map[int][]uint64{}
	var size, most, least int // the pieces that tell; the most that a file shares, and how many that one has
	for _, piece := range now {
		at, known := o.of[piece]
		if known && at == nil {
			continue
		}
		if own >= 0 && o.files[own].has(piece) {
			shared[own] = append(shared[own], piece)
			continue
		}
		size++
		for _, file := range at {
			shared[int(file)] = append(shared[int(file)], piece)
		}
	}
	for file, has := range shared {
		if n := len(has); file != own && (n > most || n == most && len(o.files[file]) < least) {
			most, least = n, len(o.files[file])
		}
	}
	parts := []oldPart{}
	for file, has := range shared {
		of := len(o.files[file])
		p := oldPart{file: file, has: has, own: file == own, best: file != own && len(has) == most && of == least}
		switch {
		case p.own:
			p.alike = len(has)*2 >= min(of, size+len(has))
		case len(has) < 4:
			p.alike = len(has)*2 >= max(of, size)
		default:
			p.alike = len(has)*2 >= min(of, size)
		}
		if p.alike || p.best || p.own {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b oldPart) int { return a.file - b.file })
	o.parts[ch.Path] = parts
	return parts, nil
}
