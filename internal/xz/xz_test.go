package xz

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

const enough = 64 << 20

func packed(t testing.TB, c xz.WriterConfig, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := c.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(data []byte, max int64) ([]byte, error) {
	return io.ReadAll(NewReader(bufio.NewReader(bytes.NewReader(data)), max))
}

func someText() []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < 300<<10 {
		b.WriteString(strings.Repeat("some text ", rnd.IntN(9)))
		b.WriteByte(byte(rnd.Uint32()))
	}
	return b.Bytes()
}

var configs = map[string]xz.WriterConfig{
	"CRC32":          {CheckSum: xz.CRC32},
	"CRC64":          {CheckSum: xz.CRC64},
	"SHA-256":        {CheckSum: xz.SHA256},
	"no check":       {NoCheckSum: true},
	"several blocks": {CheckSum: xz.CRC64, BlockSize: 10001},
}

// What another program packs comes out as it was, and no changed byte changes it.
func TestRead(t *testing.T) {
	text := someText()
	for name, c := range configs {
		data := packed(t, c, text)
		got, err := unpacked(data, enough)
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
		two := append(append(bytes.Clone(data), 0, 0, 0, 0), packed(t, c, []byte("more"))...)
		if got, err := unpacked(append(two, make([]byte, 8)...), enough); err != nil || len(got) != len(text)+4 {
			t.Errorf("%s, two streams: %d bytes, %v", name, len(got), err)
		}
		if got, err := unpacked(packed(t, c, nil), enough); err != nil || len(got) != 0 {
			t.Errorf("%s, empty: %d bytes, %v", name, len(got), err)
		}
		if c.NoCheckSum {
			continue
		}
		for i := 0; i < len(data); i += 1 + i/20 {
			bad := bytes.Clone(data)
			bad[i] ^= 0x10
			if got, err := unpacked(bad, enough); err == nil && !bytes.Equal(got, text) {
				t.Errorf("%s: byte %d of %d was changed, and so was the content", name, i, len(data))
			}
		}
	}
}

func TestErrors(t *testing.T) {
	data := packed(t, xz.WriterConfig{DictCap: 8 << 20}, []byte("text"))
	filter := bytes.Clone(data)
	filter[7] = 7 // a check that there is not; its sum below
	for _, tt := range []struct {
		name string
		data []byte
		max  int64
		want error
	}{
		{"nothing", nil, enough, io.ErrUnexpectedEOF},
		{"half", data[:len(data)/2], enough, io.ErrUnexpectedEOF},
		{"no footer", data[:len(data)-12], enough, io.ErrUnexpectedEOF},
		{"a large dictionary", data, 1 << 20, ErrDictionary},
		{"no header", []byte("something else"), enough, ErrFormat},
		{"padding that is no multiple of four", append(bytes.Clone(data), 0, 0, 0), enough, io.ErrUnexpectedEOF},
		{"rubbish behind it", append(bytes.Clone(data), "rubbish, and more of it"...), enough, ErrFormat},
		{"a changed header", filter, enough, ErrChecksum},
	} {
		if _, err := unpacked(tt.data, tt.max); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// Whatever the bytes are, reading ends, and agrees with the module's reader
// where both take them.
func FuzzRead(f *testing.F) {
	for _, c := range configs {
		c.DictCap = 1 << 16
		f.Add(packed(f, c, []byte("some text, some text, some text")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 1 << 20
		got, err := io.ReadAll(io.LimitReader(NewReader(bufio.NewReader(bytes.NewReader(data)), 1<<20), most))
		if err != nil || len(got) == most {
			return
		}
		r, err := xz.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q, %v", got, want, err)
		}
	})
}
