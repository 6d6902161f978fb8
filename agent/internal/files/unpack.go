package files

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of an archive that is unpacked.
const (
	// maxInflated bounds an archive once it is decompressed, in bytes.
	maxInflated = 64 << 30
	// maxMembers bounds the number of members, and maxNames the bytes of their names
	// and links, since they stay in memory until the archive is unpacked.
	maxMembers = 1 << 18
	maxNames   = 64 << 20
	// maxDictionary bounds the memory that the first block of an xz stream
	// needs, in bytes. It is what xz -9 uses.
	maxDictionary = 64 << 20
	// maxPadding bounds the bytes after the end of a compressed archive.
	maxPadding = 16 << 20
)

const (
	archiveBuffer = 256 << 10
	tarBlock      = 512 // the size of an archive's blocks, in bytes
)

// openArchive detects how an archive is compressed, and returns a reader of it.
func openArchive(r io.Reader) (*inflated, error) {
	br := bufio.NewReaderSize(r, archiveBuffer)
	head, err := br.Peek(32)
	if len(head) == 0 {
		return nil, badArchive(err)
	}
	var plain io.Reader = br
	err = nil // of a short archive, which its reader rejects
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		plain, err = gzip.NewReader(br)
	case bytes.HasPrefix(head, []byte("BZh")):
		plain = bzip2.NewReader(br)
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		if err = checkDictionary(head); err == nil {
			plain, err = xz.NewReader(br)
		}
	}
	if err != nil {
		return nil, badArchive(err)
	}
	return &inflated{r: plain}, nil
}

// badArchive returns the error for an archive that cannot be read. It returns a
// [*wire.Error] unchanged.
func badArchive(err error) error {
	var werr *wire.Error
	if errors.As(err, &werr) {
		return werr
	}
	return core.BadField("archive", "cannot read the archive: "+err.Error())
}

func tooLarge(text string) error {
	return &wire.Error{Code: wire.CodeTooLarge, Object: "archive", Message: text}
}

// inflated is a decompressed archive. Its Read fails if the archive becomes too large.
type inflated struct {
	r    io.Reader
	read int64
}

func (i *inflated) Read(p []byte) (int, error) {
	if i.read >= maxInflated {
		return 0, tooLarge("decompressed archive is too large")
	}
	n, err := i.r.Read(p)
	i.read += int64(n)
	return n, err
}

// finish reads a compressed archive to its end, so that the checksum there is verified.
// It ignores bytes after the end that do not belong to the archive.
func (i *inflated) finish() error {
	if _, plain := i.r.(*bufio.Reader); plain {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(i, maxPadding+1))
	switch {
	case errors.Is(err, gzip.ErrHeader):
		return nil
	case err == nil && n > maxPadding:
		return tooLarge("archive has too much data after its end")
	}
	return err
}

// checkDictionary checks how much memory the first block of an xz stream
// needs (The .xz File Format, sections 3.1 and 5.3.1).
func checkDictionary(head []byte) error {
	const streamHeader = 12
	if len(head) < streamHeader+6 {
		return io.ErrUnexpectedEOF
	}
	flags, rest := head[streamHeader+1], head[streamHeader+2:]
	for _, present := range []byte{0x40, 0x80} { // the block's sizes
		if flags&present != 0 {
			_, n := binary.Uvarint(rest)
			rest = rest[max(n, 0):]
		}
	}
	if len(rest) < 3 || rest[0] != 0x21 || rest[1] != 1 { // other filters than one LZMA2
		return nil // the xz reader rejects them
	}
	bits := rest[2] & 0x3f
	if size := int64(2|bits&1) << (bits/2 + 11); size > maxDictionary {
		return tooLarge("decompressing the archive needs too much memory")
	}
	return nil
}

// tarMember is a member of an archive whose name is valid. It has not been checked
// against the destination yet.
type tarMember struct {
	name  string   // as the archive has it
	names []string // below the destination
	kind  string   // wire.TypeFile, …; wire.TypeOther is rejected later
	// stripped means that name begins or ends with white space, which was removed
	// from names.
	stripped bool
	link     string // the target of a symbolic link
	hard     bool   // a hard link, which is also rejected later
	size     int64
	mode     uint32
}

// exactName is the PAX record of a member whose name keeps white space at its beginning
// and end. Other programs ignore the record.
const exactName = "PADDOCK.name"

// newMember checks the name and the link of a member.
func newMember(h *tar.Header) (*tarMember, error) {
	m := &tarMember{name: strings.TrimRight(h.Name, "/"), size: h.Size, mode: defaultFileMode, link: h.Linkname}
	if h.Mode&0o111 != 0 {
		m.mode = defaultDirMode // a program gets the same bits as a directory
	}
	refuse := func(text string) (*tarMember, error) {
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: m.name, Message: text + ": " + m.name}
	}
	clean := m.name
	if h.PAXRecords[exactName] != "exact" {
		clean = strings.TrimSpace(m.name)
		m.stripped = clean != m.name
	}
	var ok bool
	m.names, ok = beneath.Clean(clean)
	switch {
	case clean == "":
		return nil, core.BadField("archive", "archive member path is empty")
	case clean[0] == '/':
		return refuse("absolute archive member paths are not allowed")
	case ok && len(m.names) == 0:
		return nil, &wire.Error{Code: wire.CodeBadRequest, Object: m.name, Message: "unsafe archive member path: " + m.name,
			Hint: "archive the content of the directory, not the directory itself: tar -c *, not tar -c ."}
	case !ok:
		return refuse("unsafe archive member path")
	case len(m.names) > maxDepth || slices.ContainsFunc(m.names, func(name string) bool { return len(name) > core.MaxFileName }):
		return refuse("archive member path is too long")
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
		m.kind = wire.TypeFile
	case tar.TypeDir:
		m.kind = wire.TypeDirectory
	case tar.TypeSymlink:
		m.kind = wire.TypeSymlink
	default:
		m.kind, m.hard = wire.TypeOther, h.Typeflag == tar.TypeLink
	}
	return m, nil
}

// checkLink rejects a link that leads, or might lead, out of the destination. Those of a tree
// may lead up in it.
func (m *tarMember) checkLink(tree bool) error {
	name := strings.Join(m.names, "/")
	escapes := &wire.Error{Code: wire.CodeBadRequest, Object: m.name, Message: "symlink " + name + " escapes the workspace"}
	target := strings.TrimSpace(m.link)
	switch _, ok := beneath.Clean(target); {
	case tree && wire.LinkStaysInside(len(m.names)-1, m.link):
		return nil
	case target == "":
		return &wire.Error{Code: wire.CodeBadRequest, Object: m.name, Message: "symlink " + name + " has an empty target"}
	case target[0] == '/' || !ok:
		return escapes
	}
	return nil
}

// unpack reads an archive and the rest of the body, and calls do with each member. An archive of
// a tree may have the destination itself as a member, which is skipped.
func unpack(body io.Reader, tree bool, do func(*tarMember, io.Reader) error) (count int64, err error) {
	in, err := openArchive(body)
	if err != nil {
		return 0, err
	}
	if count, err = eachMember(tar.NewReader(in), tree, do); err != nil {
		return 0, err
	}
	if in.read%tarBlock != 0 {
		return 0, badArchive(io.ErrUnexpectedEOF)
	}
	if err := in.finish(); err != nil {
		return 0, badArchive(err)
	}
	// Read the body to its end: this fails if the body is shorter than the client has
	// announced, and then the archive may be incomplete.
	buf := core.Buffers.Get().(*[]byte)
	defer core.Buffers.Put(buf)
	for err == nil {
		_, err = body.Read(*buf)
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	return count, nil
}

// eachMember reads an archive to its end, and calls do with each member.
func eachMember(tr *tar.Reader, tree bool, do func(*tarMember, io.Reader) error) (count int64, err error) {
	names := 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, badArchive(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if tree && h.Typeflag == tar.TypeDir && (h.Name == "./" || h.Name == ".") {
			continue
		}
		if count++; count > maxMembers {
			return count, tooLarge("archive has too many members")
		}
		if names += len(h.Name) + len(h.Linkname); names > maxNames {
			return count, tooLarge("archive has too many names")
		}
		m, err := newMember(h)
		if err == nil {
			err = do(m, tr)
		}
		if err != nil {
			return count, err
		}
	}
}
