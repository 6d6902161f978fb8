package files

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// sniffed is how much of a file says whether it is a text, in bytes.
const sniffed = 8000

// isBinary says whether a file that begins so is no text, as git does.
func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0
}

// magics are how files of some kinds begin.
var magics = []struct{ head, kind string }{
	{"\x7fELF", "ELF program or library"}, {"\x89PNG\r\n\x1a\n", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF8", "image/gif"},
	{"%PDF-", "application/pdf"}, {"PK\x03\x04", "application/zip"}, {"\x1f\x8b", "application/gzip"}, {"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"}, {"\x28\xb5\x2f\xfd", "application/zstd"}, {"SQLite format 3\x00", "SQLite database"},
	{"\x00asm", "WebAssembly module"}, {"MZ", "Windows program"}, {"\xca\xfe\xba\xbe", "Java class or Mach-O program"}, {"!<arch>\n", "static library"},
	{"wOF2", "font/woff2"}, {"ID3", "audio/mpeg"}, {"OggS", "audio/ogg"}, {"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"}, {"DIRC", "git index"},
}

// kindOfFile says what a file that begins so seems to be.
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

// Tell numbers the lines.
func (o FileReadOutput) Tell(w io.Writer) error {
	var b strings.Builder
	switch {
	case o.Content != nil:
		fmt.Fprintf(&b, "%s: %d bytes of %d, from byte %d on, in content_base64", text.NameText(o.Path), len(o.Content), o.SizeBytes, o.Offset)
		if o.NextOffset > 0 {
			fmt.Fprintf(&b, "; read on with offset %d", o.NextOffset)
		}
		b.WriteByte('\n')
	case o.Binary:
		fmt.Fprintf(&b, "%s is a binary file (%s, %d bytes): encoding base64 reads its bytes\n", text.NameText(o.Path), o.Type, o.SizeBytes)
	case o.EndLine == 0:
		fmt.Fprintf(&b, "%s is empty\n", text.NameText(o.Path))
	default:
		o.numbered(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o FileReadOutput) numbered(b *strings.Builder) {
	n := o.StartLine
	for line := range strings.Lines(o.Text) {
		body := strings.TrimSuffix(line, "\n")
		if o.LineEnding != "mixed" {
			body = strings.TrimSuffix(body, "\r") // a note says it of all lines
		}
		fmt.Fprintf(b, "%6d\t%s\n", n, text.Reveal(body))
		n++
	}
	var notes []string
	if o.CutBytes > 0 {
		notes = append(notes, fmt.Sprintf("line %d goes on for %d bytes, which encoding base64 reads", o.StartLine, o.CutBytes))
	}
	if o.NextLine > 0 {
		of := ""
		if o.TotalLines > 0 {
			of = fmt.Sprintf(" of %d", o.TotalLines)
		}
		notes = append(notes, fmt.Sprintf("lines %d to %d%s; read on with start_line %d", o.StartLine, o.EndLine, of, o.NextLine))
	}
	if o.LineEnding == "crlf" || o.LineEnding == "mixed" {
		notes = append(notes, "line endings: "+o.LineEnding)
	}
	if o.NoFinalNewline && o.NextLine == 0 {
		notes = append(notes, "no newline at the end of the file")
	}
	if o.InvalidUTF8 {
		notes = append(notes, "some bytes are no UTF-8 and are shown as \uFFFD")
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "[%s]\n", strings.Join(notes, "; "))
	}
}

func renderFileRead(w io.Writer, out FileReadOutput) error {
	if out.streamed {
		return nil
	}
	if out.Content == nil && !out.Binary {
		_, err := io.WriteString(w, out.Text)
		return err
	}
	return out.Tell(w)
}
