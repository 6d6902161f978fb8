package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// peer gives a client whose connections serve answers.
func peer(t *testing.T, serve func(net.Conn, *bufio.Reader)) *Client {
	t.Helper()
	return &Client{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := bufio.NewReader(there)
			if _, err := ReadLine(in, MaxLine); err == nil {
				serve(there, in)
			}
		}()
		return here, nil
	}}
}

func TestUpload(t *testing.T) {
	c := peer(t, func(conn net.Conn, in *bufio.Reader) {
		body := make([]byte, 5)
		_, _ = io.ReadFull(in, body)
		_ = WriteLine(conn, WriteFileResult{Path: Path(body), BytesWritten: 5})
	})
	q := WriteFileRequest{Path: "x", ContentSize: 5}
	r, err := Upload(t.Context(), c, WriteFile, q, strings.NewReader("hello, and more"))
	if err != nil || r.Path != "hello" || r.BytesWritten != 5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := Upload(t.Context(), c, WriteFile, q, strings.NewReader("hell")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short body: %v", err)
	}
	if _, err := Upload(t.Context(), c, WriteFile, q, iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a body that fails: %v", err)
	}
}

// An agent that refuses a body before it has read it is heard all the same.
func TestUploadThatIsRefused(t *testing.T) {
	c := peer(t, func(conn net.Conn, _ *bufio.Reader) {
		_ = WriteLine(conn, Errorf(CodeTooLarge, "archive is too large"))
	})
	// A pipe has no buffer: the refusal is read while the body cannot be sent.
	c.Dial = buffered(c.Dial)
	_, err := Upload(t.Context(), c, ExtractArchive, ExtractRequest{ArchiveSize: 1 << 30}, zeros{})
	wantError(t, err, CodeTooLarge, "archive is too large")
}

func TestDownload(t *testing.T) {
	size := int64(5)
	c := peer(t, func(conn net.Conn, _ *bufio.Reader) {
		_ = WriteLine(conn, ReadFileResult{Path: "x", ContentSize: size})
		_, _ = io.WriteString(conn, "hello, and more")
	})
	r, body, err := Download(t.Context(), c, ReadFile, ReadFileRequest{Path: "x"})
	if err != nil || r.ContentSize != size {
		t.Fatalf("got %+v, %v", r, err)
	}
	got, err := io.ReadAll(body)
	if string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	_ = body.Close()

	size = 100
	if _, body, err = Download(t.Context(), c, ReadFile, ReadFileRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(body)
	wantError(t, err, CodeGone, "85 bytes before")
	_ = body.Close()

	size = -1
	_, _, err = Download(t.Context(), c, ReadFile, ReadFileRequest{})
	wantError(t, err, CodeInternal, "negative")
}

// A download ends with its context.
func TestDownloadEnds(t *testing.T) {
	c := peer(t, func(conn net.Conn, in *bufio.Reader) {
		_ = WriteLine(conn, ReadFileResult{ContentSize: 10})
		_, _ = in.ReadByte() // until the client has gone
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, body, err := Download(ctx, c, ReadFile, ReadFileRequest{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_ = body.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// buffered dials TCP-like: over a socket pair that holds some bytes.
func buffered(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		inner, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		here, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return nil, err
		}
		there, err := ln.Accept()
		if err != nil {
			return nil, err
		}
		go func() {
			line, _ := bufio.NewReader(there).ReadBytes('\n')
			_, _ = inner.Write(line)
			_, _ = io.Copy(there, inner)
			_ = there.(*net.TCPConn).CloseWrite()
			_, _ = io.CopyN(io.Discard, there, 1<<20)
			_ = there.Close()
		}()
		return here, nil
	}
}
