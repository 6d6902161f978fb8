package wire

import (
	"io"
	"os"
	"testing"
)

// BenchmarkOutput follows a command that prints, into a pipe, as the CLI's
// standard output is one. The peer is the same pipe without the wire.
func BenchmarkOutput(b *testing.B) {
	const chunk = 64 << 10
	data := make([]byte, chunk)
	b.Run("wire", func(b *testing.B) {
		b.SetBytes(chunk)
		c := unixClient(b, streamed(StdinWindow, func(f *fakeExec) {
			go f.drain()
			for range b.N {
				_ = f.out.WriteFrame(StreamStdout, data)
			}
			f.exit(0)
		}))
		p, err := c.Start(b.Context(), ExecRequest{Command: "x"}, Streams{Stdout: sinkPipe(b)})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("pipe", func(b *testing.B) {
		b.SetBytes(chunk)
		w := sinkPipe(b)
		for b.Loop() {
			_, _ = w.Write(data)
		}
	})
}

// sinkPipe gives the writing end of a pipe that is read as fast as it can be.
func sinkPipe(b *testing.B) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	go func() {
		defer r.Close()
		buf := make([]byte, copyBuffer)
		for {
			if _, err := r.Read(buf); err == io.EOF {
				return
			}
		}
	}()
	return w
}
