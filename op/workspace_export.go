package op

import (
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
	"github.com/paddock-dev/paddock/policy"
)

// WorkspaceExportInput asks for a part of a workspace as an archive.
type WorkspaceExportInput struct {
	InSandbox
	Paths   []string `json:"paths,omitempty" arg:"PATH..." help:"files and directories, relative to the workspace (default: all of it)" max:"256"`
	Exclude []string `json:"exclude,omitempty" flag:"exclude" arg:"PATTERN" help:"leave out what this matches (*, ?, [a-z]), with all below it: a name anywhere, or with a / a path (may be repeated)" max:"256"`
	Format  string   `json:"format,omitempty" flag:"format" arg:"FORMAT" help:"tar.gz or tar (default: tar.gz)" choices:"tar.gz,tar"`
	Output  string   `json:"output,omitempty" flag:"output" short:"o" arg:"FILE" complete:"file" help:"write the archive to this file (default: standard output)" only:"cli"`
}

// WorkspaceExportOutput says what was exported.
type WorkspaceExportOutput struct {
	// Output is what output_read takes to read the archive (encoding base64);
	// empty where it was written elsewhere.
	Output  string `json:"output,omitempty"`
	File    string `json:"file,omitempty"` // that it was written to
	Format  string `json:"format"`
	Size    int64  `json:"size"` // of the archive, in bytes
	SHA256  string `json:"sha256"`
	Entries int64  `json:"entries"` // files, directories and links
	Bytes   int64  `json:"bytes"`   // of files, before compression
	// Content is the whole archive in base64, where it is small.
	Content []byte `json:"content,omitempty"`
}

// Bounds of exports, in bytes.
const (
	// maxKeptExport is what the output store keeps whole.
	maxKeptExport = spoolHead + spoolTail
	// maxInline is up to which size an archive is in an answer.
	maxInline = 4 << 10
	// maxCaptured is the same where nothing keeps it.
	maxCaptured = 8 << 20
)

func workspaceExportOp() Op {
	return New(Desc{
		Name: "workspace_export", CLI: []string{"workspace", "export"}, Summary: "Take files out of a workspace, as an archive",
		Doc: `Pack a workspace, or paths in it, into a tar.gz or tar archive. Links stay links,
hard links become copies, and what is no file, directory or link is left out.

The answer has the archive's size, its SHA-256, and how many entries and bytes it
holds; content is the archive itself in base64 where it has 4 KiB or less. A
larger one is kept: output_read with the answer's output and encoding base64
reads it part by part, as long as the server lives. What is kept has at most 32
MiB: leave out what is not needed. On the command line it is written to standard
output or a file, of any size.`,
		Examples: `  # what is in the current directory, without dependencies
  paddock workspace export --exclude node_modules -o app.tar.gz

  # one directory of a sandbox that runs
  paddock workspace export --sandbox ID dist | tar -tz`,
		Hints: Hints{ReadOnly: true, Idempotent: true, LongRunning: true}, Streams: Streams{In: true, Out: true},
	}, workspaceExport, renderExport)
}

func (in WorkspaceExportInput) check(env *Env, stream *Stream) error {
	errs := []error{oneOf("format", in.Format, "tar.gz", "tar"), env.reads("output", in.Output)}
	if in.Output != "" && stream.Stdin == nil {
		errs = append(errs, atTerminal("output", in.Output))
	}
	for i, pattern := range in.Exclude {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > 1024 {
			errs = append(errs, &policy.FieldError{Field: fmt.Sprintf("exclude[%d]", i), Value: firstOf(pattern, 80), Reason: "it is no pattern"})
		}
	}
	for i, p := range in.Paths {
		if p == "" || len(p) > 4096 || strings.IndexByte(p, 0) >= 0 {
			errs = append(errs, &policy.FieldError{Field: fmt.Sprintf("paths[%d]", i), Value: firstOf(p, 80), Reason: "it is no path"})
		}
	}
	return errors.Join(errs...)
}

// workspaceExport packs, and puts the archive where this door has a place for it.
func workspaceExport(ctx context.Context, env *Env, in WorkspaceExportInput, stream *Stream) (out WorkspaceExportOutput, err error) {
	if err := in.check(env, stream); err != nil {
		return out, err
	}
	ctx, stop := interruptible(ctx, stream)
	defer stop()
	to, err := in.target(env, stream)
	if err != nil {
		return out, err
	}
	err = env.in(ctx, in.InSandbox, func(ctx context.Context, s *held) error {
		p := &packer{exclude: in.Exclude, paths: in.Paths, progress: stream.Progress}
		if err := p.pack(ctx, s, to, in.Format); err != nil {
			return err
		}
		out = WorkspaceExportOutput{Format: "tar.gz", Size: to.size, SHA256: hex.EncodeToString(to.sum.Sum(nil)), Entries: p.entries, Bytes: p.bytes}
		if in.Format != "" {
			out.Format = in.Format
		}
		return nil
	})
	if err = errors.Join(err, to.finish(env, err != nil, &out)); err != nil {
		return WorkspaceExportOutput{}, err
	}
	return out, nil
}

// interruptible is a context that ends with the signals that end a program: a
// door with live streams hands them on.
func interruptible(ctx context.Context, stream *Stream) (context.Context, context.CancelFunc) {
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

// archiveTarget is where an archive goes.
type archiveTarget struct {
	io.Writer
	size  int64
	most  int64 // 0: no bound
	sum   hash.Hash
	file  *os.File // beside the file that is meant, until all is written
	name  string
	kept  *Output
	inner bytes.Buffer // the beginning, for an archive that is small
	whole int          // up to which size it is
}

// target finds the place: a file, standard output, the store of outputs, or the answer.
func (in WorkspaceExportInput) target(env *Env, stream *Stream) (*archiveTarget, error) {
	t := &archiveTarget{sum: sha256.New()}
	switch {
	case in.Output != "":
		f, err := os.CreateTemp(filepath.Dir(in.Output), "."+filepath.Base(in.Output)+"-*")
		if err != nil {
			return nil, &policy.FieldError{Field: "output", Value: in.Output, Reason: causeOf(err)}
		}
		t.file, t.name, t.Writer = f, in.Output, f
	case stream.Stdout != nil:
		t.Writer = stream.Stdout
	case env.Outputs != nil:
		t.kept = env.Outputs.New(env.principal())
		t.Writer, t.most, t.whole = outputSide{t.kept, 0}, maxKeptExport, min(maxInline, env.room(maxInline)*3/4)
	default:
		t.Writer, t.most, t.whole = io.Discard, maxCaptured, maxCaptured
	}
	return t, nil
}

// Write passes on, counts and sums.
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

// finish puts the archive in its place, or takes it away where it failed.
func (t *archiveTarget) finish(env *Env, failed bool, out *WorkspaceExportOutput) error {
	if t.file != nil {
		err := t.file.Close()
		if !failed && err == nil {
			if err = errors.Join(os.Chmod(t.file.Name(), 0o644), os.Rename(t.file.Name(), t.name)); err == nil {
				out.File = t.name
				return nil
			}
		}
		_ = os.Remove(t.file.Name())
		if err != nil {
			err = fmt.Errorf("cannot write %s: %s", t.name, causeOf(err))
		}
		return err
	}
	if t.kept != nil {
		if failed {
			env.Outputs.remove(t.kept)
			return nil
		}
		t.kept.End("exported")
		if !t.kept.complete() {
			env.Outputs.remove(t.kept)
			return &paddock.Error{Message: "cannot keep the archive: there is no room for it", Hint: "export fewer paths, or exclude what is not needed"}
		}
		out.Output = t.kept.ID()
	}
	if t.whole > 0 && t.size <= int64(t.whole) {
		out.Content = t.inner.Bytes()
	}
	return nil
}

// complete says whether all that was written is kept.
func (n *Output) complete() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	left, right := n.streams[0].gap()
	return left == right && n.streams[0].kept == n.streams[0].total
}

// compressor is the writer of a format; a plain archive needs none.
func compressor(format string, to io.Writer) (io.Writer, func() error) {
	if format == "tar" {
		return to, func() error { return nil }
	}
	z := gzip.NewWriter(to)
	return z, z.Close
}

func renderExport(w io.Writer, o WorkspaceExportOutput) error {
	if o.File == "" && o.Output == "" && o.Content == nil {
		return nil // standard output has the archive
	}
	return o.Tell(w)
}

// Tell is for [Teller].
func (o WorkspaceExportOutput) Tell(w io.Writer) error {
	text := fmt.Sprintf("exported %d entries, %d bytes: %s archive of %d bytes, sha256 %s\n", o.Entries, o.Bytes, o.Format, o.Size, o.SHA256)
	switch {
	case o.File != "":
		text += "written to " + o.File + "\n"
	case o.Output != "":
		text += fmt.Sprintf("to read it: output_read {\"output\": %q, \"encoding\": \"base64\"}\n", o.Output)
	}
	_, err := io.WriteString(w, text)
	return err
}
