// Package sha256 is the checksum SHA-256 (FIPS 180-4) in plain Go. In the
// agent it stands for crypto/sha256, which brings the whole cryptographic
// module with it, a twentieth of the program and 32 MB of its address space.
// What it sums here is no secret key: it makes no promise about the time that
// it takes.
package sha256

import (
	"encoding/binary"
	"math/bits"
)

// Size is the length of a sum, in bytes.
const Size = 32

const block = 64 // bytes

// k and first are fractions of the cube roots and the square roots of the
// first primes.
var k = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

var first = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// Hash sums what is written to it. New makes one.
type Hash struct {
	h    [8]uint32
	rest [block]byte // of which the first len%block bytes wait for more
	len  uint64
}

// New returns the hash of nothing.
func New() *Hash { return &Hash{h: first} }

// Write takes all of p.
func (d *Hash) Write(p []byte) (int, error) {
	n := len(p)
	at := int(d.len % block)
	d.len += uint64(n)
	if at > 0 {
		k := copy(d.rest[at:], p)
		p = p[k:]
		if at+k < block {
			return n, nil
		}
		d.take(d.rest[:])
	}
	for ; len(p) >= block; p = p[block:] {
		d.take(p[:block])
	}
	copy(d.rest[:], p)
	return n, nil
}

// Sum appends the sum to b. Nothing may be written afterwards.
func (d *Hash) Sum(b []byte) []byte {
	length := d.len * 8
	var end [block + 8]byte
	end[0] = 0x80
	pad := (block*2 - 9 - int(d.len%block)) % block // zeros between the first byte and the length
	binary.BigEndian.PutUint64(end[1+pad:], length)
	_, _ = d.Write(end[:1+pad+8])
	for _, word := range d.h {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	return b
}

// Sum256 is the sum of a whole text.
func Sum256(p []byte) (sum [Size]byte) {
	d := New()
	_, _ = d.Write(p)
	d.Sum(sum[:0])
	return sum
}

func (d *Hash) take(p []byte) {
	var w [64]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(p[i*4:])
	}
	for i := 16; i < 64; i++ {
		x, y := w[i-15], w[i-2]
		s0 := bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3
		s1 := bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10
		w[i] = w[i-16] + s0 + w[i-7] + s1
	}
	a, b, c, e, f, g, h := d.h[0], d.h[1], d.h[2], d.h[4], d.h[5], d.h[6], d.h[7]
	dd := d.h[3]
	for i := range 64 {
		s1 := bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)
		t1 := h + s1 + (e&f ^ ^e&g) + k[i] + w[i]
		s0 := bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)
		t2 := s0 + (a&b ^ a&c ^ b&c)
		h, g, f, e, dd, c, b, a = g, f, e, dd+t1, c, b, a, t1+t2
	}
	for i, v := range [8]uint32{a, b, c, dd, e, f, g, h} {
		d.h[i] += v
	}
}
