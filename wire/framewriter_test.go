package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

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
