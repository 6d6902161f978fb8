package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// frame gives the bytes of one frame.
func frame(s Stream, p string) string {
	var buf bytes.Buffer
	_ = NewFrameWriter(&buf).WriteFrame(s, []byte(p))
	return buf.String()
}

func TestFrameBytes(t *testing.T) {
	if got, want := frame(StreamStderr, "hi"), "\x02\x00\x00\x00\x00\x00\x00\x02hi"; got != want {
		t.Errorf("frame %q, want %q", got, want)
	}
	if got, want := frame(StreamStdin, ""), "\x00\x00\x00\x00\x00\x00\x00\x00"; got != want {
		t.Errorf("empty frame %q, want %q", got, want)
	}
}

func TestFrameReader(t *testing.T) {
	big := strings.Repeat("0123456789", 50_000)
	in := frame(StreamStdout, "one") + frame(StreamStderr, "") + frame(StreamStdout, big) +
		frame(StreamStdin, "skipped") + frame(StreamControl, `{"type":"x"}`)
	for name, src := range map[string]io.Reader{
		"whole":        strings.NewReader(in),
		"byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		"own buffer":   bufio.NewReaderSize(strings.NewReader(in), 16),
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFrameReader(src, MaxFrame)
			wantFrame(t, f, StreamStdout, "one")
			wantFrame(t, f, StreamStderr, "")
			wantFrame(t, f, StreamStdout, big)
			if s, n, err := f.Next(); s != StreamStdin || n != 7 || err != nil {
				t.Fatalf("Next = %v, %d, %v", s, n, err)
			}
			part := make([]byte, 3)
			if _, err := io.ReadFull(f.Payload(), part); err != nil || string(part) != "ski" {
				t.Fatalf("part of a payload %q, %v", part, err)
			}
			wantFrame(t, f, StreamControl, `{"type":"x"}`)
			if _, _, err := f.Next(); err != io.EOF {
				t.Fatalf("error %v at the end, want io.EOF", err)
			}
		})
	}
}

func wantFrame(t *testing.T, f *FrameReader, stream Stream, payload string) {
	t.Helper()
	s, n, err := f.Next()
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.ReadPayload(nil)
	if s != stream || n != len(payload) || string(got) != payload || err != nil {
		t.Fatalf("frame %v of %d bytes: %.40q, %v; want %v: %.40q", s, n, got, err, stream, payload)
	}
}

func TestFrameReaderErrors(t *testing.T) {
	tests := []struct {
		name, in string
		err      error
		code     Code
		text     string
	}{
		{name: "nothing", in: "", err: io.EOF},
		{name: "half a header", in: "\x01\x00\x00", err: io.ErrUnexpectedEOF},
		{name: "no payload", in: "\x01\x00\x00\x00\x00\x00\x00\x05", err: io.ErrUnexpectedEOF},
		{name: "half a payload", in: "\x01\x00\x00\x00\x00\x00\x00\x05abc", err: io.ErrUnexpectedEOF},
		{name: "unknown stream", in: "\x04\x00\x00\x00\x00\x00\x00\x00", code: CodeBadRequest, text: "unknown stream 4"},
		{name: "text", in: `{"error":"x"}`, code: CodeBadRequest, text: "unknown stream 123"},
		{name: "first pad", in: "\x01\x01\x00\x00\x00\x00\x00\x00", code: CodeBadRequest, text: "header"},
		{name: "second pad", in: "\x01\x00\x01\x00\x00\x00\x00\x00", code: CodeBadRequest, text: "header"},
		{name: "third pad", in: "\x01\x00\x00\x01\x00\x00\x00\x00", code: CodeBadRequest, text: "header"},
		{name: "one over the bound", in: "\x01\x00\x00\x00\x00\x00\x01\x01", code: CodeTooLarge, text: "257 bytes are more than 256"},
		{name: "4 GiB", in: "\x01\x00\x00\x00\xff\xff\xff\xff", code: CodeTooLarge, text: "4294967295 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFrameReader(strings.NewReader(tt.in), 256)
			_, _, err := f.Next()
			if err == nil {
				_, err = f.ReadPayload(nil)
			}
			if tt.code != "" {
				wantError(t, err, tt.code, tt.text)
			} else if err != tt.err {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
		})
	}
}

func TestFrameReaderDiscardsATruncatedPayload(t *testing.T) {
	f := NewFrameReader(strings.NewReader(frame(StreamStdout, "abc")[:9]), MaxFrame)
	if _, _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Next(); err != io.ErrUnexpectedEOF {
		t.Fatalf("error %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestReadPayloadReusesItsBuffer(t *testing.T) {
	f := NewFrameReader(strings.NewReader(frame(StreamStdout, "abc")), MaxFrame)
	if _, _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	buf := []byte("old content")
	got, err := f.ReadPayload(buf)
	if err != nil || string(got) != "abc" || &got[0] != &buf[0] {
		t.Fatalf("payload %q, %v; want abc in the given buffer", got, err)
	}
}

func TestReadPayloadDoesNotTrustTheHeader(t *testing.T) {
	f := NewFrameReader(strings.NewReader("\x01\x00\x00\x00\x00\x10\x00\x00abc"), MaxFrame)
	used := allocated(func() {
		_, _, _ = f.Next()
		if got, err := f.ReadPayload(nil); string(got) != "abc" || err != io.ErrUnexpectedEOF {
			t.Errorf("payload %q, %v", got, err)
		}
	})
	if used > 2*firstAlloc {
		t.Errorf("three bytes took %d bytes of memory", used)
	}
}

func TestReadControlBound(t *testing.T) {
	f := NewFrameReader(strings.NewReader(frame(StreamControl, `{"type":"signal"}`)), MaxFrame)
	if _, _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	_, err := f.ReadControl(16)
	wantError(t, err, CodeTooLarge, "17 bytes are more than 16")
	if c, err := f.ReadControl(17); c.Type != "signal" || err != nil {
		t.Fatalf("control %+v, %v", c, err)
	}
}

// countingReader counts calls of Read.
type countingReader struct {
	r     io.Reader
	calls int
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.calls++
	return c.r.Read(p)
}

func TestSmallFramesShareReads(t *testing.T) {
	const frames = 1000
	src := &countingReader{r: strings.NewReader(strings.Repeat(frame(StreamStdout, "small"), frames))}
	f := NewFrameReader(src, MaxFrame)
	for range frames {
		wantFrame(t, f, StreamStdout, "small")
	}
	if src.calls > 10 {
		t.Fatalf("%d small frames took %d reads", frames, src.calls)
	}
}

func TestWriteFrameSplits(t *testing.T) {
	var buf bytes.Buffer
	long := bytes.Repeat([]byte("x"), 2*MaxFrame+5)
	if err := NewFrameWriter(&buf).WriteFrame(StreamStdout, long); err != nil {
		t.Fatal(err)
	}
	f := NewFrameReader(&buf, MaxFrame)
	for _, want := range []int{MaxFrame, MaxFrame, 5} {
		if s, n, err := f.Next(); s != StreamStdout || n != want || err != nil {
			t.Fatalf("Next = %v, %d, %v; want %d bytes", s, n, err, want)
		}
	}
}

func TestLargeControlIsRefused(t *testing.T) {
	w := &writes{}
	f := NewFrameWriter(w)
	err := f.WriteControl(Control{Type: "exit", Result: &ExecResult{Stdout: strings.Repeat("x", MaxFrame)}})
	wantError(t, err, CodeTooLarge, "more than 1048576")
	if err := f.WriteControl(Control{Type: "exit"}); err != nil || len(w.got) != 1 {
		t.Fatalf("the next control: %v and writes %q", err, w.got)
	}
}

func TestSmallFrameIsOneWrite(t *testing.T) {
	w := &writes{}
	if err := NewFrameWriter(w).WriteFrame(StreamStdout, make([]byte, scratchSize-frameHeader)); err != nil {
		t.Fatal(err)
	}
	if len(w.got) != 1 {
		t.Fatalf("%d writes, want 1", len(w.got))
	}
}

func TestWriteErrorSticks(t *testing.T) {
	w := &writes{err: errors.New("full")}
	f := NewFrameWriter(w)
	for range 2 {
		if err := f.WriteFrame(StreamStdout, []byte("x")); err != w.err {
			t.Fatalf("error %v, want %v", err, w.err)
		}
	}
	if len(w.got) != 1 {
		t.Fatalf("%d writes after an error, want none", len(w.got)-1)
	}
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestShortWriteIsAnError(t *testing.T) {
	if err := NewFrameWriter(shortWriter{}).WriteFrame(StreamStdout, nil); err != io.ErrShortWrite {
		t.Fatalf("error %v, want io.ErrShortWrite", err)
	}
}

func TestFrameWriterIsConcurrent(t *testing.T) {
	const writers, frames = 8, 200
	for name, start := range transports {
		t.Run(name, func(t *testing.T) {
			client := start(t, func(conn net.Conn) {
				f := NewFrameWriter(conn)
				var wg sync.WaitGroup
				for i := range writers {
					payload := bytes.Repeat([]byte{byte('a' + i)}, 100*(i+1))
					wg.Go(func() {
						for range frames {
							_ = f.WriteFrame(Stream(i%4), payload)
						}
					})
				}
				wg.Wait()
			})
			conn, err := client.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			f := NewFrameReader(conn, MaxFrame)
			var seen [writers]int
			for range writers * frames {
				s, n, err := f.Next()
				if err != nil {
					t.Fatal(err)
				}
				got, err := f.ReadPayload(nil)
				i := n/100 - 1
				if err != nil || s != Stream(i%4) || string(got) != strings.Repeat(string(rune('a'+i)), n) {
					t.Fatalf("frame %v of %d bytes is torn: %v", s, n, err)
				}
				seen[i]++
			}
			for i, n := range seen {
				if n != frames {
					t.Errorf("writer %d: %d frames, want %d", i, n, frames)
				}
			}
		})
	}
}

func TestFramesDoNotAllocate(t *testing.T) {
	client := unixClient(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	conn, err := client.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, r := NewFrameWriter(conn), NewFrameReader(conn, MaxFrame)
	payload, buf := make([]byte, 32<<10), make([]byte, 32<<10)
	allocs := testing.AllocsPerRun(100, func() {
		if err := w.WriteFrame(StreamStdout, payload); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadPayload(buf); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Fatalf("%v allocations for a frame there and back, want none", allocs)
	}
}
