package files

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// WorkspaceExportInput asks for a part of a workspace as an archive.
type WorkspaceExportInput struct {
	op.InSandbox
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
	maxKeptExport = output.MaxWhole
	// maxInline is up to which size an archive is in an answer.
	maxInline = 4 << 10
	// maxCaptured is the same where nothing keeps it.
	maxCaptured = 8 << 20
)

func WorkspaceExportOp() op.Op {
	return op.New(op.Desc{
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
		Hints: op.Hints{ReadOnly: true, Idempotent: true, LongRunning: true}, Streams: op.Streams{In: true, Out: true},
	}, workspaceExport, renderExport)
}

func (in WorkspaceExportInput) check(env *op.Env, stream *op.Stream) error {
	errs := []error{op.OneOf("format", in.Format, "tar.gz", "tar"), env.MayRead("output", in.Output)}
	if in.Output != "" && stream.Stdin == nil {
		errs = append(errs, atTerminal("output", in.Output))
	}
	for i, pattern := range in.Exclude {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > 1024 {
			errs = append(errs, &policy.FieldError{Field: fmt.Sprintf("exclude[%d]", i), Value: text.FirstOf(pattern, 80), Reason: "it is no pattern"})
		}
	}
	for i, p := range in.Paths {
		field := fmt.Sprintf("paths[%d]", i)
		if err := op.CheckPath(field, p); err != nil {
			errs = append(errs, err)
		} else if len(p) > 4096 {
			errs = append(errs, &policy.FieldError{Field: field, Value: text.FirstOf(p, 80), Reason: "it is longer than 4096 bytes"})
		}
	}
	return errors.Join(errs...)
}

// workspaceExport packs, and puts the archive where this door has a place for it.
func workspaceExport(ctx context.Context, env *op.Env, in WorkspaceExportInput, stream *op.Stream) (out WorkspaceExportOutput, err error) {
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
	if err := errors.Join(err, to.finish(env, err != nil, &out)); err != nil {
		return WorkspaceExportOutput{}, err
	}
	return out, nil
}

// interruptible is a context that ends with the signals that end a program: a
// door with live streams hands them on.
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
