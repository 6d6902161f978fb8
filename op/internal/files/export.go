package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type WorkspaceExportInput struct {
	op.InSandbox
	Paths   osstring.List `json:"paths,omitempty" arg:"[PATH]..." help:"files and directories, relative to the workspace (default: all of the workspace)" max:"256"`
	Exclude []string      `json:"exclude,omitempty" flag:"exclude" arg:"PATTERN" help:"leave out what this matches (*, ?, [a-z]), with everything below it: a name anywhere, or with a / a path (may be repeated)" max:"256"`
	Format  string        `json:"format,omitempty" flag:"format" arg:"FORMAT" help:"tar.gz or tar (default: tar.gz)" choices:"tar.gz,tar"`
	Output  string        `json:"output,omitempty" flag:"output" short:"o" arg:"FILE" complete:"file" help:"write the archive to this file (default: standard output)" only:"cli"`
}

type WorkspaceExportOutput struct {
	// Output is the id for output_read to read the archive (encoding base64); empty if
	// it was written elsewhere.
	Output  string          `json:"output,omitempty"`
	File    osstring.String `json:"file,omitempty"` // the file that it was written to
	Format  string          `json:"format"`
	Size    int64           `json:"size"` // of the archive, in bytes
	SHA256  string          `json:"sha256"`
	Entries int64           `json:"entries"` // files, directories and links
	Bytes   int64           `json:"bytes"`   // of files, before compression
	// Content is the whole archive in base64, if it is small.
	Content []byte `json:"content,omitempty"`
}

// Bounds of exports, in bytes.
const (
	// maxKeptExport is the most that the output store keeps completely.
	maxKeptExport = output.MaxWhole
	// maxInline is the largest archive that is in the answer itself.
	maxInline = 4 << 10
	// maxCaptured is the same if there is no output store.
	maxCaptured = 8 << 20
)

func (WorkspaceExportInput) Desc() op.Desc {
	return op.Desc{
		Name: "workspace_export", CLI: []string{"workspace", "export"}, Summary: "Export files of a workspace as an archive",
		Doc: `Pack a workspace, or paths in it, into a tar.gz or tar archive. Symbolic links stay
links, hard links become copies, and everything that is not a file, directory or
link is left out.

In a tool call, the answer has the archive's size, its SHA-256, and how many entries and
bytes it has; content is the archive itself in base64 if it has at most 4 KiB. A larger one
is kept as long as the server runs: output_read with the answer's output and
encoding base64 reads it in parts. It may have at most 32 MiB: exclude what is not
needed.

On the command line the archive is written to standard output or a file, of any size.`,
		Examples: `  # what is in the current directory, without dependencies
  paddock workspace export --exclude node_modules -o app.tar.gz

  # one directory of a sandbox that runs
  paddock workspace export --sandbox web dist | tar -tz`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true}, Streams: op.Streams{In: true, Out: true, Progress: true},
	}
}

func (in WorkspaceExportInput) check(env *op.Env, stream *op.Stream) error {
	errs := []error{op.OneOf("format", in.Format, "tar.gz", "tar"), env.MayRead("output", in.Output), checkExclude(in.Exclude)}
	if in.Output != "" && stream.Stdin == nil {
		errs = append(errs, atTerminal("output", in.Output))
	}
	for i, p := range in.Paths {
		field := fmt.Sprintf("paths[%d]", i)
		if err := op.CheckPath(field, osstring.String(p)); err != nil {
			errs = append(errs, err)
		} else if len(p) > 4096 {
			errs = append(errs, &policy.FieldError{Field: field, Value: text.Truncate(p, 80), Reason: "it is longer than 4096 bytes"})
		}
	}
	return errors.Join(errs...)
}

// checkExclude checks the patterns of what is left out.
func checkExclude(patterns []string) error {
	errs := make([]error, 0, len(patterns))
	for i, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > 1024 {
			errs = append(errs, &policy.FieldError{Field: fmt.Sprintf("exclude[%d]", i), Value: text.Truncate(pattern, 80), Reason: "it is not a valid pattern"})
		}
	}
	return errors.Join(errs...)
}

// Do packs the files, and writes the archive to where the door has a place for it.
func (in WorkspaceExportInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out WorkspaceExportOutput, err error) {
	if err := in.check(env, stream); err != nil {
		return out, err
	}
	ctx, stop := interruptible(ctx, stream)
	defer stop()
	to, err := in.target(env, stream)
	if err != nil {
		return out, err
	}
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		p := &packer{exclude: in.Exclude, paths: in.Paths, meter: meter{progress: stream.Progress}}
		if err := p.pack(ctx, s, to, in.Format); err != nil {
			return err
		}
		out = WorkspaceExportOutput{Format: "tar.gz", Size: to.size, SHA256: hex.EncodeToString(to.sum.Sum(nil)), Entries: p.entries, Bytes: p.bytes}
		if in.Format != "" {
			out.Format = in.Format
		}
		return nil
	})
	if err := errors.Join(err, to.finish(env, err != nil, &out)); err != nil {
		return WorkspaceExportOutput{}, err
	}
	return out, nil
}

// interruptible returns a context that ends when the door passes a signal that ends a
// program.
func interruptible(ctx context.Context, stream *op.Stream) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if stream.Signals != nil {
		go func() {
			for {
				select {
				case name := <-stream.Signals:
					if name != "SIGWINCH" {
						cancel()
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return ctx, cancel
}

// Render writes the text of Tell, unless standard output has the archive.
func (out WorkspaceExportOutput) Render(w io.Writer) error {
	if out.File == "" && out.Output == "" && out.Content == nil {
		return nil
	}
	return out.Tell(w)
}

// Tell describes the export, and says how to read it.
func (out WorkspaceExportOutput) Tell(w io.Writer) error {
	line := fmt.Sprintf("exported %s, %s: %s archive of %s, sha256 %s\n", text.Count(out.Entries, "entry"), text.Count(out.Bytes, "byte"), out.Format, text.Count(out.Size, "byte"), out.SHA256)
	switch {
	case out.File != "":
		line += "written to " + string(out.File) + "\n"
	case out.Output != "":
		line += fmt.Sprintf("to read it: output_read {\"output\": %q, \"encoding\": \"base64\"}\n", out.Output)
	}
	_, err := io.WriteString(w, line)
	return err
}

// packer makes one archive of the archives that the agent sends for each path. Names are
// relative to the workspace.
type packer struct {
	paths, exclude []string
	meter
	seen map[string]bool // names in the archive, since paths may overlap
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

// packError returns the error of an export.
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

// path adds the file or directory at a path.
func (p *packer) path(ctx context.Context, s *registry.Sandbox, t *tar.Writer, from string) error {
	head, body, err := wire.Download(ctx, s.Client(), wire.ExportArchive, wire.ExportRequest{Path: wire.OSString(from)})
	if err != nil {
		return fileError("export", osstring.String(from), err)
	}
	defer body.Close()
	at := strings.Trim(strings.TrimPrefix(string(head.WorkspacePath), "/workspace"), "/")
	if head.ArtifactType != wire.TypeDirectory {
		if at = path.Dir(at); at == "." {
			at = ""
		}
	}
	return packError(eachEntry(body, func(h *tar.Header, content io.Reader) error { return p.entry(t, h, at, content) }))
}

// eachEntry reads an archive of the agent to its end, and calls do with each entry.
func eachEntry(body io.Reader, do func(*tar.Header, io.Reader) error) error {
	for r := tar.NewReader(body); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, body) // the rest of the last block: a short body is an error
			return err
		}
		if err == nil {
			err = do(h, r)
		}
		if err != nil {
			return err
		}
	}
}

// entry adds one entry, unless it is excluded or in the archive already.
func (p *packer) entry(t *tar.Writer, h *tar.Header, at string, content io.Reader) error {
	name := path.Join(at, h.Name) //nolint:gosec // G305: it is checked before it is used, and names no file of this host
	if kind := h.Typeflag; !filepath.IsLocal(name) || kind != tar.TypeReg && kind != tar.TypeDir && kind != tar.TypeSymlink {
		return &paddock.Error{Message: fmt.Sprintf("cannot export: the agent sent %q, which is not in the workspace", text.Truncate(name, 200)), Code: wire.CodeInternal}
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
	_, err := io.Copy(t, p.content(content))
	return err
}

// excluded reports whether a pattern matches a path, or a directory above it.
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

// compressor returns a writer that compresses for a format, and its close function.
func compressor(format string, to io.Writer) (io.Writer, func() error) {
	if format == "tar" {
		return to, func() error { return nil }
	}
	z := gzip.NewWriter(to)
	return z, z.Close
}

// archiveTarget is the place where an archive is written to.
type archiveTarget struct {
	io.Writer
	size  int64
	most  int64 // 0: no bound
	sum   hash.Hash
	file  *os.File // a temporary file beside path, until everything is written
	path  string   // the file that is meant
	name  string   // as it was written
	kept  *output.Output
	inner bytes.Buffer // the beginning, in case the archive is small
	whole int          // the largest small archive
}

// target returns the place: a file, standard output, the output store, or the answer.
func (in WorkspaceExportInput) target(env *op.Env, stream *op.Stream) (*archiveTarget, error) {
	t := &archiveTarget{sum: sha256.New()}
	switch {
	case in.Output != "":
		// Follow no link that commands may have made, as for files that are read.
		way, err := hostpath.Locate(env.StateDir(), filepath.Dir(in.Output))
		if err != nil {
			return nil, op.FieldError("output", in.Output, err)
		}
		f, err := os.CreateTemp(way.Path, "."+filepath.Base(in.Output)+"-*")
		if err != nil {
			return nil, &policy.FieldError{Field: "output", Value: in.Output, Reason: op.CauseOf(err)}
		}
		t.file, t.path, t.name, t.Writer = f, filepath.Join(way.Path, filepath.Base(in.Output)), in.Output, f
	case stream.Stdout != nil:
		t.Writer = stream.Stdout
	case env.Outputs != nil:
		t.kept = env.Outputs.New(env.PrincipalName())
		t.Writer, t.most, t.whole = t.kept.Side(0), maxKeptExport, min(maxInline, env.Room(maxInline)*3/4)
	default:
		t.Writer, t.most, t.whole = io.Discard, maxCaptured, maxCaptured
	}
	return t, nil
}

// Write writes, counts and hashes.
func (t *archiveTarget) Write(p []byte) (int, error) {
	if t.most > 0 && t.size+int64(len(p)) > t.most {
		return 0, &paddock.Error{Message: fmt.Sprintf("cannot keep the archive: it has more than %d bytes", t.most),
			Hint: "export fewer paths, or exclude what is not needed"}
	}
	if t.whole > 0 {
		t.inner.Write(p[:max(0, min(len(p), t.whole+1-t.inner.Len()))])
	}
	n, err := t.Writer.Write(p)
	t.size += int64(n)
	t.sum.Write(p[:n])
	return n, err
}

// finish moves the archive to its place, or removes it if the export has failed.
func (t *archiveTarget) finish(env *op.Env, failed bool, out *WorkspaceExportOutput) error {
	if t.file != nil {
		err := t.file.Close()
		if !failed && err == nil {
			if err = errors.Join(os.Chmod(t.file.Name(), 0o644), os.Rename(t.file.Name(), t.path)); err == nil {
				out.File = osstring.String(t.name)
				return nil
			}
		}
		_ = os.Remove(t.file.Name())
		if err != nil {
			err = fmt.Errorf("cannot write %s: %s", t.name, op.CauseOf(err))
		}
		return err
	}
	if t.kept != nil {
		if failed {
			t.kept.Drop()
			return nil
		}
		t.kept.End("exported")
		if !t.kept.Complete() {
			t.kept.Drop()
			return &paddock.Error{Message: "cannot keep the archive: there is no room for it", Hint: "export fewer paths, or exclude what is not needed"}
		}
		out.Output = t.kept.ID()
	}
	if t.whole > 0 && t.size <= int64(t.whole) {
		out.Content = t.inner.Bytes()
	}
	return nil
}
