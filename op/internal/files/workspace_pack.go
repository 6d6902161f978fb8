package files

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// packer makes one archive of what the agent sends for each path, with names
// from the workspace on.
type packer struct {
	paths, exclude []string
	entries, bytes int64
	seen           map[string]bool // what is in it: paths may overlap
	progress       func(done, total float64, message string)
}

// pack writes the archive.
func (p *packer) pack(ctx context.Context, s *registry.Sandbox, to io.Writer, format string) error {
	compressed, finish := compressor(format, to)
	t := tar.NewWriter(compressed)
	paths := p.paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	p.seen = map[string]bool{}
	for _, from := range paths {
		if err := p.path(ctx, s, t, from); err != nil {
			return err
		}
	}
	err := errors.Join(t.Close(), finish())
	return packError(err)
}

// packError keeps what says more than that writing failed.
func packError(err error) error {
	var own *paddock.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	}
	return fmt.Errorf("cannot export: %w", err)
}

// path adds what is at a path, and below.
func (p *packer) path(ctx context.Context, s *registry.Sandbox, t *tar.Writer, from string) error {
	head, body, err := wire.Download(ctx, s.Client(), wire.ExportArchive, wire.ExportRequest{Path: wire.Path(from)})
	if err != nil {
		return fileError("export", from, err)
	}
	defer body.Close()
	at := strings.Trim(strings.TrimPrefix(string(head.WorkspacePath), "/workspace"), "/")
	if head.ArtifactType != wire.TypeDirectory {
		if at = path.Dir(at); at == "." {
			at = ""
		}
	}
	r := tar.NewReader(body)
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			_, err := io.Copy(io.Discard, body) // the rest of the last block: a body that is short is an error
			return registry.Refusal("export "+from, err)
		case err != nil:
			return packError(err)
		}
		if err := p.entry(t, h, at, r); err != nil {
			return packError(err)
		}
		if p.progress != nil && p.entries%256 == 0 {
			p.progress(float64(p.bytes), 0, fmt.Sprintf("%d entries", p.entries))
		}
	}
}

// entry adds one, unless it is left out or in the archive already.
func (p *packer) entry(t *tar.Writer, h *tar.Header, at string, content io.Reader) error {
	name := path.Join(at, h.Name) //nolint:gosec // G305: it is checked before it is used, and names no file of this host
	if kind := h.Typeflag; !filepath.IsLocal(name) || kind != tar.TypeReg && kind != tar.TypeDir && kind != tar.TypeSymlink {
		return &paddock.Error{Message: fmt.Sprintf("cannot export: the agent sent %q, which is not in the workspace", text.FirstOf(name, 200)), Code: wire.CodeInternal}
	}
	if p.seen[name] || p.excluded(name) {
		return nil
	}
	p.seen[name] = true
	next := &tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime}
	if h.Typeflag == tar.TypeDir {
		next.Name += "/"
	}
	if h.PAXRecords[exactName] != "" {
		next.PAXRecords = map[string]string{exactName: "exact"}
	}
	if err := t.WriteHeader(next); err != nil {
		return err
	}
	p.entries++
	n, err := io.Copy(t, content)
	p.bytes += n
	return err
}

// excluded says whether a pattern matches a path, or a directory above it.
func (p *packer) excluded(name string) bool {
	for _, pattern := range p.exclude {
		pattern = strings.Trim(pattern, "/")
		for at := name; at != "" && at != "."; at = path.Dir(at) {
			what := path.Base(at)
			if strings.Contains(pattern, "/") {
				what = at
			}
			if ok, _ := path.Match(pattern, what); ok { // check has tried the pattern
				return true
			}
		}
	}
	return false
}

// compressor is the writer of a format; a plain archive needs none.
func compressor(format string, to io.Writer) (io.Writer, func() error) {
	if format == "tar" {
		return to, func() error { return nil }
	}
	z := gzip.NewWriter(to)
	return z, z.Close
}
