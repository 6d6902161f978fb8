package files

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// ReadText returns a whole file in one answer.
func (w *Workspace) ReadText(q *wire.ReadWorkspaceFileRequest) (*wire.ReadWorkspaceFileResult, error) {
	switch {
	case q.MaxBytes <= 0:
		return nil, core.BadField("max_bytes", "max_bytes must be positive")
	case q.MaxBytes > wire.MaxFileText:
		return nil, core.BadField("max_bytes", fmt.Sprintf("max_bytes must be at most %d bytes", wire.MaxFileText))
	}
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	f, st, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := &wire.Error{Code: wire.CodeTooLarge, Object: p.Path.Text,
		Message: "workspace file exceeds the maximum supported size of " + strconv.FormatInt(q.MaxBytes, 10) + " bytes"}
	if st.Size > q.MaxBytes {
		return nil, tooLarge
	}
	// A file may grow while it is read, and files of the kernel have the size 0.
	content, err := readUpTo(f, st.Size, q.MaxBytes+1)
	switch {
	case err != nil:
		return nil, core.FileError("read", p.Path, err)
	case int64(len(content)) > q.MaxBytes:
		return nil, tooLarge
	}
	return &wire.ReadWorkspaceFileResult{Path: wire.OSString(p.Path.Text), SizeBytes: int64(len(content)), ContentB64: content}, nil
}

// readUpTo reads a file of an expected size, at most limit bytes of it.
func readUpTo(f *os.File, size, limit int64) ([]byte, error) {
	buf := make([]byte, 0, min(size+1, limit)) // one more, to read the end of the file
	for {
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF || int64(len(buf)) >= limit:
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) == cap(buf):
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), limit))
			copy(grown, buf)
			buf = grown
		}
	}
}

// Read returns a part of a file, as a body.
func (w *Workspace) Read(q *wire.ReadFileRequest) (*wire.ReadFileResult, Body, error) {
	if q.Offset < 0 {
		return nil, nil, core.BadField("offset", "offset must not be negative")
	}
	if q.Length != nil && *q.Length < 0 {
		return nil, nil, core.BadField("length", "length must not be negative")
	}
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	f, st, err := p.open()
	if err != nil {
		return nil, nil, err
	}
	size := max(0, st.Size-q.Offset)
	if q.Length != nil {
		size = min(size, *q.Length)
	}
	if _, err := f.Seek(q.Offset, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, nil, core.FileError("read", p.Path, err)
	}
	return &wire.ReadFileResult{Path: wire.OSString(p.Path.Text), SizeBytes: st.Size, Mode: st.Mode & permissions,
		ModifiedAt: timestamp(st.Mtim), ContentSize: size}, &fileBody{f, size}, nil
}

// fileBody is a part of a file. If the file shrinks meanwhile, Send fails.
type fileBody struct {
	*os.File
	size int64
}

func (b *fileBody) Send(w io.Writer) error {
	return core.CopyExactly(w, b.File, b.size)
}
