package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of an answer of file_read.
const (
	maxReadLines = 2000
	maxReadText  = 1 << 20 // in characters, as JSON
	// maxCounted bounds the size of files whose lines are all counted, in bytes.
	maxCounted = 64 << 20
)

type FileReadInput struct {
	op.InSandbox
	StartLine uint64          `json:"start_line,omitempty" flag:"start-line" arg:"N" help:"first line, from 1 (default: 1)" min:"1"`
	EndLine   uint64          `json:"end_line,omitempty" flag:"end-line" arg:"N" help:"last line (default: as many as the answer has room for, at most 2000 lines)" min:"1"`
	Encoding  string          `json:"encoding,omitempty" flag:"encoding" arg:"NAME" choices:"text,base64" help:"text (default), or base64 for the raw bytes of any file"`
	Offset    uint64          `json:"offset,omitempty" flag:"offset" arg:"BYTES" help:"with base64: the byte to start at" max:"9007199254740991"`
	Length    uint64          `json:"length,omitempty" flag:"length" arg:"BYTES" help:"with base64: how many bytes (default: as many as the answer has room for)" max:"9007199254740991"`
	Path      osstring.String `json:"path" arg:"PATH" help:"the file, relative to the workspace or below /workspace" max:"4096"`
}

func (in FileReadInput) check() error {
	if err := op.OneOf("encoding", in.Encoding, "text", "base64"); err != nil {
		return err
	}
	bytes := in.Encoding == "base64"
	switch {
	case in.EndLine > 0 && in.EndLine < max(in.StartLine, 1):
		return &policy.FieldError{Field: "end_line", Value: fmt.Sprint(in.EndLine), Reason: "it is before start_line"}
	case bytes && (in.StartLine > 0 || in.EndLine > 0):
		return &policy.FieldError{Field: "start_line", Reason: "base64 has no lines", Hint: "use offset and length"}
	case !bytes && (in.Offset > 0 || in.Length > 0):
		return &policy.FieldError{Field: "offset", Reason: "it is for base64 alone", Hint: `use start_line and end_line, or set encoding to "base64"`}
	}
	return op.CheckPath("path", in.Path)
}

type FileReadOutput struct {
	Path       osstring.String `json:"path"`
	SizeBytes  int64           `json:"size_bytes"` // of the whole file
	Mode       string          `json:"mode"`
	ModifiedAt string          `json:"modified_at"`
	// SHA256 is of the whole file, if all of it was read: for expected_sha256 of file_write.
	SHA256 string `json:"sha256,omitempty"`
	// Binary files have no text; Type is what the file seems to be.
	Binary bool   `json:"binary"`
	Type   string `json:"type,omitempty"`
	Text   string `json:"text"`
	// StartLine and EndLine are the lines in Text, from 1; both are 0 if it has none.
	StartLine  int64 `json:"start_line"`
	EndLine    int64 `json:"end_line"`
	TotalLines int64 `json:"total_lines,omitempty"` // absent in files above 64MiB that were not read to their end
	NextLine   int64 `json:"next_line,omitempty"`   // where to continue; absent at the end
	// CutBytes counts the bytes missing at the end of Text, if it is one line that is too long.
	CutBytes int64 `json:"cut_bytes,omitempty"`
	// LineEnding is lf, crlf or mixed, for the lines that were read.
	LineEnding     string `json:"line_ending,omitempty"`
	NoFinalNewline bool   `json:"no_final_newline,omitempty"`
	InvalidUTF8    bool   `json:"invalid_utf8,omitempty"` // invalid bytes were replaced in Text
	// Content has the bytes for encoding base64.
	Content    []byte `json:"content_base64,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	NextOffset int64  `json:"next_offset,omitempty"` // absent at the end

	streamed bool
}

func (FileReadInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_read", CLI: []string{"file", "read"},
		Summary: "Read a file of the workspace, or some of its lines",
		Doc: `Read a text file, all of it or from start_line to end_line. Use it instead of cat:
the text is exact and has line numbers. An answer has at most 2000 lines, and no more
than it has room for; it says with which start_line to continue, how many lines there
are, and the file's SHA-256, which file_write can check. The numbers and the tab
after them are not part of the text. Models see an invisible character, or one that a
terminal would obey, as its number, ⟦U+001B⟧, and file_edit, file_write and
patch_apply turn that back into the character; "⟦U+" itself is ⟦U+27E6⟧U+. The same
holds for the lines of file_search and for diffs.

For a binary file the answer has only the size and the type; encoding base64 reads
the bytes of any file, starting at offset.

` + filesDoc + `

On the command line the file, or its lines, are written unchanged.`,
		Examples: `  # lines of a file, as the sandbox sees it
  paddock file read --start-line 10 --end-line 20 main.go`,
		Profile: op.ProfileWorkspace,
		Hints:   readHints,
		Streams: op.Streams{Out: true},
	}
}

func (in FileReadInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out FileReadOutput, err error) {
	if err := in.check(); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		q := wire.ReadFileRequest{Path: in.Path}
		room := env.Room(maxReadText)
		if in.Encoding == "base64" {
			length := int64(room / 4 * 3)
			if in.Length > 0 {
				length = min(length, int64(in.Length))
			}
			q.Offset, q.Length = int64(in.Offset), &length
			if stream.Stdout != nil && in.Length == 0 {
				q.Length = nil
			}
		}
		head, body, err := wire.Download(ctx, s.Client(), wire.ReadFile, q)
		if err != nil {
			return fileError("read", in.Path, err)
		}
		defer body.Close()
		got := FileReadOutput{Path: head.Path, SizeBytes: head.SizeBytes, Mode: octal(head.Mode), ModifiedAt: head.ModifiedAt}
		if q.Offset > 0 || q.Length != nil || stream.Stdout != nil {
			err = in.raw(body, &got, stream.Stdout)
		} else {
			w := window{from: int64(max(in.StartLine, 1)), to: int64(in.EndLine), room: room, out: &got, sum: sha256.New()}
			err = w.read(body, head.SizeBytes)
		}
		if err != nil {
			return fileError("read", in.Path, err)
		}
		out = got
		return nil
	})
	return out, err
}

// raw reads the bytes unchanged, into the output or to a stream.
func (in FileReadInput) raw(body io.Reader, out *FileReadOutput, to io.Writer) error {
	out.Offset = int64(in.Offset)
	if to == nil {
		data, err := io.ReadAll(body)
		if out.Content = data; out.Offset+int64(len(data)) < out.SizeBytes {
			out.NextOffset = out.Offset + int64(len(data))
		}
		out.Binary, out.Type = isBinary(data), kindOfFile(data)
		return err
	}
	out.streamed = true
	if in.StartLine+in.EndLine == 0 {
		_, err := io.Copy(to, body)
		return err
	}
	br := bufio.NewReader(body)
	for line := uint64(1); in.EndLine == 0 || line <= in.EndLine; {
		part, err := br.ReadSlice('\n')
		if line >= in.StartLine {
			if _, err := to.Write(part); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return nil
}

// window selects lines from a file while it is read.
type window struct {
	from, to int64 // lines; to is 0 for no last line
	room     int
	out      *FileReadOutput
	sum      hash.Hash

	text     strings.Builder
	line     int64 // the current one
	part     []byte
	cut      int64 // bytes of it that were dropped
	full     bool
	crlf, lf bool
}

// read reads a file of the given size.
func (w *window) read(body io.Reader, size int64) error {
	br := bufio.NewReaderSize(body, 64<<10)
	head, _ := br.Peek(sniffed)
	if w.out.Binary = isBinary(head); w.out.Binary {
		w.out.Type = kindOfFile(head)
		return nil
	}
	counted := size <= maxCounted
	for w.line = 1; ; {
		part, err := br.ReadSlice('\n')
		w.sum.Write(part)
		w.keep(part)
		if ended := err == nil; ended || errors.Is(err, io.EOF) && len(part)+len(w.part) > 0 {
			w.take(part, ended)
		}
		switch {
		case errors.Is(err, io.EOF):
			return w.close(true)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case w.full && !counted:
			return w.close(false)
		}
	}
}

// keep keeps a part of the current line if it is in the window.
func (w *window) keep(part []byte) {
	if w.full || w.line < w.from {
		return
	}
	n := min(len(part), max(0, w.room+utf8.UTFMax-len(w.part)))
	w.part = append(w.part, part[:n]...)
	w.cut += int64(len(part) - n)
}

// take ends the current line, whose last part is end.
func (w *window) take(end []byte, ended bool) {
	w.out.NoFinalNewline = !ended
	if !w.full && w.line >= w.from {
		w.put(end)
	}
	w.part, w.cut = w.part[:0], 0
	w.line++
}

// lineOverhead is the room that a line's number takes.
const lineOverhead = 8

// put adds the current line to the output, or ends the window if there is no room.
func (w *window) put(end []byte) {
	if w.to > 0 && w.line > w.to || w.line-w.from >= maxReadLines {
		w.full, w.out.NextLine = true, w.line
		return
	}
	line := strings.ToValidUTF8(string(w.part), "\uFFFD")
	cost := max(text.Cost(line), utf8.RuneCountInString(line)+lineOverhead)
	switch {
	case w.cut == 0 && cost <= w.room:
	case w.out.EndLine > 0:
		w.full, w.out.NextLine = true, w.line
		return
	default: // one line that is too long
		whole := len(line)
		line = text.PrefixWithin(line, w.room)
		w.out.CutBytes, cost = w.cut+int64(whole-len(line)), w.room
	}
	w.out.InvalidUTF8 = w.out.InvalidUTF8 || !utf8.Valid(w.part)
	crlf := len(end) > 1 && end[len(end)-2] == '\r'
	w.crlf, w.lf = w.crlf || crlf, w.lf || !crlf && strings.HasSuffix(line, "\n")
	w.text.WriteString(line)
	w.room -= cost
	if w.out.EndLine = w.line; w.out.StartLine == 0 {
		w.out.StartLine = w.line
	}
}

// close completes the output.
func (w *window) close(whole bool) error {
	w.out.Text = w.text.String()
	if whole {
		w.out.TotalLines = w.line - 1
		w.out.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	}
	switch {
	case w.crlf && w.lf:
		w.out.LineEnding = "mixed"
	case w.crlf:
		w.out.LineEnding = "crlf"
	case w.lf:
		w.out.LineEnding = "lf"
	}
	if whole && w.from > w.line-1 && w.from > 1 {
		return &policy.FieldError{Field: "start_line", Value: fmt.Sprint(w.from), Reason: fmt.Sprintf("the file has %d lines", w.line-1)}
	}
	return nil
}

// sniffed is how much of a file decides whether it is text, in bytes.
const sniffed = 8000

// isBinary reports whether a file that begins with head is binary, by the rule of git.
func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0
}

// magics are the first bytes of some kinds of files.
var magics = []struct{ head, kind string }{
	{"\x7fELF", "ELF program or library"}, {"\x89PNG\r\n\x1a\n", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF8", "image/gif"},
	{"%PDF-", "application/pdf"}, {"PK\x03\x04", "application/zip"}, {"\x1f\x8b", "application/gzip"}, {"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"}, {"\x28\xb5\x2f\xfd", "application/zstd"}, {"SQLite format 3\x00", "SQLite database"},
	{"\x00asm", "WebAssembly module"}, {"MZ", "Windows program"}, {"\xca\xfe\xba\xbe", "Java class or Mach-O program"}, {"!<arch>\n", "static library"},
	{"wOF2", "font/woff2"}, {"ID3", "audio/mpeg"}, {"OggS", "audio/ogg"}, {"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"}, {"DIRC", "git index"},
}

// kindOfFile guesses the type of a file from its beginning.
func kindOfFile(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.head)) {
			return m.kind
		}
	}
	if bytes.HasPrefix(head, []byte("RIFF")) && len(head) > 12 {
		return "RIFF " + strings.TrimSpace(strings.ToValidUTF8(string(head[8:12]), "?"))
	}
	if isBinary(head) {
		return "application/octet-stream"
	}
	return "text/plain"
}

// Tell writes the lines with numbers, and remarks.
func (out FileReadOutput) Tell(w io.Writer) error {
	var b strings.Builder
	switch {
	case out.Content != nil:
		fmt.Fprintf(&b, "%s: %d bytes of %d, from byte %d on, in content_base64", text.QuoteName(string(out.Path)), len(out.Content), out.SizeBytes, out.Offset)
		if out.NextOffset > 0 {
			fmt.Fprintf(&b, "; read on with offset %d", out.NextOffset)
		}
		b.WriteByte('\n')
	case out.Binary:
		fmt.Fprintf(&b, "%s is a binary file (%s, %d bytes): encoding base64 reads its bytes\n", text.QuoteName(string(out.Path)), out.Type, out.SizeBytes)
	case out.EndLine == 0:
		fmt.Fprintf(&b, "%s is empty\n", text.QuoteName(string(out.Path)))
	default:
		out.numbered(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// numbered writes the lines with numbers, and remarks.
func (out FileReadOutput) numbered(b *strings.Builder) {
	n := out.StartLine
	for line := range strings.Lines(out.Text) {
		body := strings.TrimSuffix(line, "\n")
		if out.LineEnding != "mixed" {
			body = strings.TrimSuffix(body, "\r") // a remark says it for all lines
		}
		fmt.Fprintf(b, "%6d\t%s\n", n, text.EncodeHidden(body))
		n++
	}
	var notes []string
	if out.CutBytes > 0 {
		notes = append(notes, fmt.Sprintf("line %d goes on for %d bytes, which encoding base64 reads", out.StartLine, out.CutBytes))
	}
	if out.NextLine > 0 {
		of := ""
		if out.TotalLines > 0 {
			of = fmt.Sprintf(" of %d", out.TotalLines)
		}
		notes = append(notes, fmt.Sprintf("lines %d to %d%s; read on with start_line %d", out.StartLine, out.EndLine, of, out.NextLine))
	}
	if out.LineEnding == "crlf" || out.LineEnding == "mixed" {
		notes = append(notes, "line endings: "+out.LineEnding)
	}
	if out.NoFinalNewline && out.NextLine == 0 {
		notes = append(notes, "no newline at the end of the file")
	}
	if out.InvalidUTF8 {
		notes = append(notes, "some bytes are not UTF-8 and are shown as \uFFFD")
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "[%s]\n", strings.Join(notes, "; "))
	}
}

func (out FileReadOutput) Render(w io.Writer) error {
	if out.streamed {
		return nil
	}
	if out.Content == nil && !out.Binary {
		_, err := io.WriteString(w, out.Text)
		return err
	}
	return out.Tell(w)
}
