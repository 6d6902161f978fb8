package xz

import (
	"encoding/binary"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/paddock-dev/paddock/internal/sha256"
)

// check sums the content of a block.
type check interface {
	io.Writer
	Sum([]byte) []byte
}

// reversed has its sum in the order of bytes that xz has.
type reversed struct{ hash.Hash }

func (h reversed) Sum(b []byte) []byte {
	sum := h.Hash.Sum(nil)
	for i := range sum {
		b = append(b, sum[len(sum)-1-i])
	}
	return b
}

// newCheck makes the check of a block.
func (r *Reader) newCheck() error {
	switch r.flags[1] {
	case 0:
		r.check = nil
	case 1:
		r.check = reversed{crc32.NewIEEE()}
	case 4:
		r.check = reversed{crc64.New(crc64.MakeTable(crc64.ECMA))}
	case 10:
		r.check = sha256.New()
	default:
		return ErrUnknown
	}
	return nil
}

// endStream reads the index, whose first byte has been read, and the footer,
// and compares them with what was there.
func (r *Reader) endStream() error {
	sum := crc32.NewIEEE()
	_, _ = sum.Write([]byte{0})
	number := func(want int64) error {
		var text [binary.MaxVarintLen64]byte
		for i := range text {
			b, err := r.readByte()
			if err != nil {
				return err
			}
			if text[i] = b; b >= 0x80 {
				continue
			}
			_, _ = sum.Write(text[:i+1])
			if v, n := binary.Uvarint(text[:i+1]); n <= 0 || v != uint64(want) {
				return ErrFormat
			}
			return nil
		}
		return ErrFormat
	}
	if err := number(int64(len(r.blocks))); err != nil {
		return err
	}
	for _, b := range r.blocks {
		if err := number(b.packed); err != nil {
			return err
		}
		if err := number(b.plain); err != nil {
			return err
		}
	}
	padding := (r.begun - r.count) & 3
	_, _ = sum.Write(make([]byte, padding))
	if err := r.zeros(); err != nil {
		return err
	}
	size := r.count - r.begun + 4
	var end [4 + headerSize]byte
	if err := r.readFull(end[:]); err != nil {
		return err
	}
	footer := end[4:]
	switch {
	case binary.LittleEndian.Uint32(end[:]) != sum.Sum32(),
		binary.LittleEndian.Uint32(footer) != crc32.ChecksumIEEE(footer[4:10]):
		return ErrChecksum
	case int64(binary.LittleEndian.Uint32(footer[4:])+1)*4 != size, [2]byte(footer[8:10]) != r.flags, string(footer[10:]) != footerMagic:
		return ErrFormat
	}
	r.inside = false
	return nil
}

// counted is the Reader's input, for the decoder of a block.
type counted Reader

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.count += int64(n)
	return n, err
}

func (r *Reader) readByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err != nil {
		return 0, unexpected(err)
	}
	r.count++
	return b, nil
}

func (r *Reader) readFull(p []byte) error {
	n, err := io.ReadFull(r.in, p)
	r.count += int64(n)
	return unexpected(err)
}
