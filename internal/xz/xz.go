// Package xz reads xz streams (The .xz File Format, version 1.1.0): the
// container and its checks, around the module's LZMA2 decoder.
//
//	r := xz.NewReader(bufio.NewReader(file), 64<<20)
//
// Checks are none, CRC32, CRC64 and SHA-256; the only filter is LZMA2. Several
// streams and their padding are read as one.
package xz

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Magic is what every stream begins with.
const Magic = "\xfd7zXZ\x00"

const (
	footerMagic  = "YZ"
	headerSize   = 12 // of a stream, and of its footer, in bytes
	lzma2        = 0x21
	maxBlocks    = 1 << 20 // of a stream: what has to be remembered of it
	sizeOfPacked = 0x40    // flags of a block: its sizes are told
	sizeOfPlain  = 0x80
)

// Errors of a stream. What the decoder says comes as it is.
var (
	ErrFormat     = errors.New("it is no valid xz stream")
	ErrChecksum   = errors.New("a checksum of the xz stream does not fit")
	ErrDictionary = errors.New("the xz stream needs too much memory to be decompressed")
	ErrUnknown    = errors.New("the xz stream has a filter or a check that is not supported")
)

// Reader decompresses. NewReader makes one.
type Reader struct {
	in     *bufio.Reader
	count  int64 // of bytes that were read from in
	max    int64 // of a dictionary
	flags  [2]byte
	check  check // of a block; nil where there is none
	inside bool  // a stream
	blocks []record

	block io.Reader // nil between blocks
	begun int64     // where the block's header begins
	size  int64     // of the header
	plain int64     // how much has come out of the block
	told  [2]int64  // the block's sizes, packed and plain, -1 where its header tells none
	err   error
}

// record is what the index says of a block: its sizes without padding, and
// decompressed.
type record struct{ packed, plain int64 }

// NewReader reads from in. Dictionaries of more than max bytes are refused.
func NewReader(in *bufio.Reader, max int64) *Reader { return &Reader{in: in, max: max} }

// Read gives decompressed bytes, and io.EOF behind the last stream.
func (r *Reader) Read(p []byte) (int, error) {
	for r.err == nil && len(p) > 0 {
		if r.block == nil {
			r.err = r.next()
			continue
		}
		n, err := r.block.Read(p)
		r.plain += int64(n)
		if r.check != nil {
			_, _ = r.check.Write(p[:n])
		}
		switch {
		case err == io.EOF:
			r.err = r.endBlock()
		case err != nil:
			r.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	return 0, r.err
}

// next goes on to the next block. It gives io.EOF where there is nothing more.
func (r *Reader) next() error {
	if !r.inside {
		if err := r.beginStream(); err != nil {
			return err
		}
	}
	r.begun = r.count
	size, err := r.readByte()
	if err != nil {
		return err
	}
	if size == 0 {
		return r.endStream()
	}
	return r.beginBlock(size)
}

// beginStream reads the header of a stream, behind the padding of the last.
func (r *Reader) beginStream() error {
	for padding := 0; ; padding++ {
		b, err := r.in.ReadByte()
		if err == io.EOF && r.count > 0 && padding%4 == 0 {
			return io.EOF
		}
		if err != nil {
			return unexpected(err)
		}
		if b == 0 && r.count > 0 {
			continue
		}
		if padding%4 != 0 {
			return ErrFormat
		}
		_ = r.in.UnreadByte()
		break
	}
	var head [headerSize]byte
	if err := r.readFull(head[:]); err != nil {
		return err
	}
	switch {
	case string(head[:6]) != Magic:
		return ErrFormat
	case crc32.ChecksumIEEE(head[6:8]) != binary.LittleEndian.Uint32(head[8:]):
		return ErrChecksum
	}
	r.flags = [2]byte(head[6:8])
	if r.flags[0] != 0 || r.newCheck() != nil {
		return ErrUnknown
	}
	r.inside, r.blocks = true, r.blocks[:0]
	return nil
}

// beginBlock reads the header of a block.
func (r *Reader) beginBlock(size byte) error {
	head := make([]byte, (int(size)+1)*4)
	head[0] = size
	if err := r.readFull(head[1:]); err != nil {
		return err
	}
	body := head[:len(head)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(head[len(body):]) {
		return ErrChecksum
	}
	flags, rest := body[1], body[2:]
	r.told = [2]int64{-1, -1}
	for i, present := range []byte{sizeOfPacked, sizeOfPlain} {
		if flags&present != 0 {
			v, n := binary.Uvarint(rest)
			if n <= 0 || v > 1<<62 {
				return ErrFormat
			}
			r.told[i], rest = int64(v), rest[n:]
		}
	}
	if flags&0x3f != 0 || len(rest) < 3 || rest[0] != lzma2 || rest[1] != 1 || rest[2] > 40 {
		return ErrUnknown
	}
	if len(bytes.Trim(rest[3:], "\x00")) > 0 {
		return ErrFormat
	}
	dictionary := min(int64(2|rest[2]&1)<<(rest[2]/2+11), lzma.MaxDictCap)
	if dictionary > r.max {
		return ErrDictionary
	}
	r.size, r.plain = int64(len(head)), 0
	if err := r.newCheck(); err != nil {
		return err
	}
	block, err := lzma.Reader2Config{DictCap: int(dictionary)}.NewReader2((*counted)(r))
	r.block = block
	return err
}

// endBlock reads what follows the block's content.
func (r *Reader) endBlock() error {
	packed := r.count - r.begun - r.size
	if told := r.told[0]; told >= 0 && told != packed {
		return ErrFormat
	}
	if told := r.told[1]; told >= 0 && told != r.plain {
		return ErrFormat
	}
	if err := r.zeros(); err != nil {
		return err
	}
	var sum []byte
	if r.check != nil {
		sum = r.check.Sum(nil)
	}
	want := make([]byte, len(sum))
	if err := r.readFull(want); err != nil {
		return err
	}
	if !bytes.Equal(sum, want) {
		return ErrChecksum
	}
	if len(r.blocks) >= maxBlocks {
		return ErrFormat
	}
	r.blocks = append(r.blocks, record{r.size + packed + int64(len(sum)), r.plain})
	r.block = nil
	return nil
}

// zeros reads the padding of what began at begun, to a multiple of four bytes.
func (r *Reader) zeros() error {
	for (r.count-r.begun)%4 != 0 {
		b, err := r.readByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return ErrFormat
		}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
