package files

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type WorkspaceImportInput struct {
	op.InSandbox
	File        osstring.String `json:"file,omitempty" arg:"ARCHIVE" complete:"file" help:"a tar archive, or - for standard input" only:"cli"`
	Archive     []byte          `json:"archive,omitempty" help:"a tar archive in base64, plain or compressed with gzip, bzip2 or xz" flag:"-"`
	Files       []ImportFile    `json:"files,omitempty" help:"files to write, instead of an archive" max:"10000" flag:"-"`
	Destination osstring.String `json:"destination,omitempty" flag:"into" arg:"DIR" help:"directory in the workspace, created if it is missing (default: the workspace itself)" max:"4096"`
}

// ImportFile is one file of an import.
type ImportFile struct {
	Path       osstring.String `json:"path" help:"its path, relative to the destination" min:"1" max:"4096"`
	Content    string          `json:"content" help:"its content, in the encoding"`
	Encoding   string          `json:"encoding,omitempty" help:"of the content (default: text)" choices:"text,base64"`
	Executable bool            `json:"executable,omitempty" help:"make it executable"`
}

type WorkspaceImportOutput struct {
	Destination osstring.String `json:"destination"`
	Entries     int64           `json:"entries"` // files, directories and links
	Bytes       int64           `json:"bytes"`   // of files
}

// maxImport bounds an archive as it is sent, in bytes.
const maxImport = 8 << 30

func (WorkspaceImportInput) Desc() op.Desc {
	return op.Desc{
		Name: "workspace_import", CLI: []string{"workspace", "import"}, Summary: "Bring an archive, or many files at once, into a workspace",
		Doc: `Unpack a tar archive into a workspace, or write a list of files, all or nothing: if
one entry cannot be written, the error names it and nothing has changed. Files
replace files of the same name, directories are created and merged. An archive may
be plain or compressed with gzip, bzip2 or xz; hard links, devices and names that
lead out of the destination are refused. Files are executable if they are in the
archive; owners and times are not kept. In JSON the whole input has at most 16 MiB.

The answer says how many entries and bytes were written. For a single file use
file_write.`,
		Examples: `  # unpack into the current directory, from inside a sandbox
  paddock workspace import app.tar.gz

  # into a directory of a sandbox that runs
  tar -cz . | paddock workspace import --sandbox web --into src -`,
		Hints: op.Hints{Destructive: true, Idempotent: true, LongRunning: true}, Streams: op.Streams{In: true, Progress: true},
	}
}

func (out WorkspaceImportOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "imported into %s: %s, %s\n", out.Destination, text.Count(out.Entries, "entry"), text.Count(out.Bytes, "byte"))
	return err
}

// Do imports the archive or the files.
func (in WorkspaceImportInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out WorkspaceImportOutput, err error) {
	if err := op.CheckGiven("destination", in.Destination); err != nil {
		return out, err
	}
	archive, size, err := in.archive(env, stream)
	if err != nil {
		return out, err
	}
	defer archive.Close()
	err = env.WithSandbox(ctx, in.InSandbox, func(ctx context.Context, s *registry.Sandbox) error {
		q := wire.ExtractRequest{ArchiveSize: size, Destination: in.Destination}
		r, err := wire.Upload(ctx, s.Client(), wire.ExtractArchive, q, (&meter{all: size, progress: stream.Progress}).content(archive))
		if err != nil {
			return in.refused(err)
		}
		out = WorkspaceImportOutput{Destination: r.Destination, Entries: r.EntryCount, Bytes: r.BytesWritten}
		return nil
	})
	return out, err
}

// refused returns the agent's error with the file of the list, or the entry of the archive,
// that it is about. Nothing was changed.
func (in WorkspaceImportInput) refused(err error) error {
	var own *wire.Error
	if !errors.As(err, &own) {
		return registry.Refusal("import into the workspace", err)
	}
	told := (*paddock.Error)(nil)
	if own.Errno == 0 || !errors.As(fileError("unpack", osstring.String(own.Object), err), &told) {
		told = &paddock.Error{Code: own.Code, Message: own.Message, Hint: own.Hint}
	}
	object, below := strings.TrimSuffix(own.Object, "/."), path.Join("/workspace", strings.TrimPrefix(string(in.Destination), "/workspace"))+"/"
	for i, f := range in.Files {
		name := path.Clean(string(f.Path))
		if object != name && object != below+name && (!strings.HasPrefix(object, below) || !strings.HasPrefix(below+name, object+"/")) {
			continue // the error is not about the file or a directory above it
		}
		reason := strings.TrimPrefix(strings.TrimSuffix(told.Message, ": "+own.Object), "cannot unpack "+text.QuoteName(own.Object)+": ")
		return &policy.FieldError{Field: fmt.Sprintf("files[%d].path", i), Value: string(f.Path), Reason: reason, Hint: told.Hint}
	}
	if !strings.HasPrefix(told.Message, "cannot ") {
		told.Message = "cannot import into the workspace: " + told.Message
	}
	return told
}

// archive returns the archive to unpack, and its size in bytes.
func (in WorkspaceImportInput) archive(env *op.Env, stream *op.Stream) (io.ReadCloser, int64, error) {
	ways := 0
	for _, given := range []bool{in.File != "", in.Archive != nil, in.Files != nil} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0 && stream.Stdin != nil:
		return nil, 0, &paddock.Error{Message: "cannot import: there is no archive", Hint: "name one, or - for standard input"}
	case ways == 0:
		return nil, 0, &policy.FieldError{Field: "archive", Reason: "it is missing", Hint: "give an archive, or files"}
	case ways > 1:
		return nil, 0, &policy.FieldError{Field: "files", Reason: "an archive is given, too", Hint: "give one of the two"}
	case in.File != "":
		return in.fromHost(env, stream)
	case in.Files != nil:
		packed, err := packFiles(in.Files)
		return io.NopCloser(bytes.NewReader(packed)), int64(len(packed)), err
	}
	return io.NopCloser(bytes.NewReader(in.Archive)), int64(len(in.Archive)), nil
}

// fromHost returns the archive in a file of the host, which only the command line can name.
func (in WorkspaceImportInput) fromHost(env *op.Env, stream *op.Stream) (io.ReadCloser, int64, error) {
	if err := env.MayRead("file", string(in.File)); err != nil {
		return nil, 0, err
	}
	if stream.Stdin == nil {
		return nil, 0, atTerminal("file", string(in.File))
	}
	if in.File == "-" {
		return spooled(stream.Stdin)
	}
	f, err := env.OpenFile("file", string(in.File))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		archive, size, spoolErr := spooled(f)
		return archive, size, errors.Join(err, spoolErr, f.Close())
	}
	return f, info.Size(), nil
}

// atTerminal returns the error of a file of the host that was not named on a command line.
func atTerminal(field, value string) error {
	return &policy.FieldError{Field: field, Value: value, Reason: "files of the host are for the command line alone"}
}

// spooled copies a stream to an unnamed file, and returns the file and its size.
func spooled(from io.Reader) (io.ReadCloser, int64, error) {
	f, err := output.Nameless()
	if err != nil {
		return nil, 0, fmt.Errorf("cannot keep the archive: %w", err)
	}
	n, copyErr := io.Copy(f, io.LimitReader(from, maxImport+1))
	_, seekErr := f.Seek(0, io.SeekStart)
	if err := errors.Join(copyErr, seekErr); err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("cannot keep the archive: %w", err)
	}
	return f, n, nil
}

// packFiles returns an archive of a list of files.
func packFiles(files []ImportFile) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	seen := map[string]int{}
	for i, f := range files {
		at := fmt.Sprintf("files[%d]", i)
		if err := op.OneOf(at+".encoding", f.Encoding, "text", "base64"); err != nil {
			return nil, err
		}
		content := []byte(f.Content)
		if f.Encoding == "base64" {
			var err error
			if content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return nil, &policy.FieldError{Field: at + ".content", Reason: "it is not written in base64"}
			}
		}
		name := path.Clean(string(f.Path))
		if name == "." || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") || strings.HasSuffix(string(f.Path), "/") || strings.IndexByte(name, 0) >= 0 {
			return nil, &policy.FieldError{Field: at + ".path", Value: string(f.Path), Reason: "it must be the path of a file, relative to the destination and inside it"}
		}
		if first, twice := seen[name]; twice {
			return nil, &policy.FieldError{Field: at + ".path", Value: string(f.Path), Reason: fmt.Sprintf("files[%d] has the same path", first)}
		}
		seen[name] = i
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		h := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		h.PAXRecords = map[string]string{exactName: "exact"}
		err := t.WriteHeader(h)
		if err == nil {
			_, err = t.Write(content)
		}
		if err != nil {
			return nil, &policy.FieldError{Field: at, Reason: "it cannot be packed: " + err.Error()}
		}
	}
	err := t.Close()
	return b.Bytes(), err
}

// exactName is the PAX record that says that white space around a name is part of it.
const exactName = "PADDOCK.name"
