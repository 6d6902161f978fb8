package files

import (
	"context"
	"crypto/rand"
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
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type FileWriteInput struct {
	op.InSandbox
	Content      *string         `json:"content,omitempty" flag:"content" arg:"TEXT" help:"the content (default, on the command line: standard input)"`
	Encoding     string          `json:"encoding,omitempty" flag:"encoding" arg:"NAME" choices:"text,base64" help:"how content is written: text (default) or base64"`
	Append       bool            `json:"append,omitempty" flag:"append" help:"append the content to the file, if it exists"`
	Mode         string          `json:"mode,omitempty" flag:"mode" arg:"OCTAL" help:"permissions, such as 0755 (default: as the file had them, else 0644)" max:"4"`
	MustNotExist bool            `json:"must_not_exist,omitempty" flag:"must-not-exist" help:"fail if the path exists"`
	Expected     string          `json:"expected_sha256,omitempty" flag:"expected-sha256" arg:"HEX" help:"fail unless the file exists and its content has this SHA-256" max:"64"`
	Path         osstring.String `json:"path" arg:"PATH" help:"the file, relative to the workspace or below /workspace" max:"4096"`
}

type FileWriteOutput struct {
	Path      osstring.String `json:"path"`
	SizeBytes int64           `json:"size_bytes"` // of the whole file
	Mode      string          `json:"mode"`
	SHA256    string          `json:"sha256"`
	Created   bool            `json:"created"` // it did not exist before
}

func (FileWriteInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_write", CLI: []string{"file", "write"},
		Summary: "Write a file of the workspace",
		Doc: `Write a whole file: create it, with missing directories above it, or replace its
content. Readers see the old content or the new one, never a part. An existing file
keeps its permissions unless mode is given. To change a part of a file use
file_edit, which needs less text and cannot lose the rest.

With expected_sha256 (from file_read or file_write) the file is replaced only if it
has not changed since; with must_not_exist only a new file is created. append adds
to the end. The content may have up to 32 MiB. In a model's text, ⟦U+001B⟧ stands
for the character that file_read shows so; encoding base64 writes any bytes.

` + filesDoc,
		Examples: `  # from standard input
  printf 'hello\n' | paddock file write notes/hello.txt`,
		Profile: op.ProfileWorkspace,
		Hints:   changeHints,
		Streams: op.Streams{In: true},
	}
}

func (out FileWriteOutput) Render(w io.Writer) error {
	verb := "replaced"
	if out.Created {
		verb = "created"
	}
	_, err := fmt.Fprintf(w, "%s %s (%d bytes, mode %s)\n", verb, text.QuoteName(string(out.Path)), out.SizeBytes, out.Mode)
	return err
}

// data returns the content, from the input or from standard input.
func (in FileWriteInput) data(stream *op.Stream) ([]byte, error) {
	var text string
	field := "content"
	switch {
	case in.Content != nil:
		text = *in.Content
	case stream.Stdin != nil:
		all, err := io.ReadAll(io.LimitReader(stream.Stdin, maxContent*2+1))
		if err != nil {
			return nil, fmt.Errorf("cannot read standard input: %w", err)
		}
		text, field = string(all), "standard input"
	default:
		return nil, &policy.FieldError{Field: field, Reason: "it is missing", Hint: `an empty file has the content ""`}
	}
	data := []byte(text)
	if in.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err != nil {
			return nil, &policy.FieldError{Field: field, Reason: "it is not base64"}
		}
	}
	if len(data) > maxContent {
		return nil, &policy.FieldError{Field: field, Reason: fmt.Sprintf("it has more than %d bytes", maxContent), Hint: "write it with a command, or in parts with append"}
	}
	return data, nil
}

func (in FileWriteInput) check() error {
	switch {
	case in.MustNotExist && in.Expected != "":
		return &policy.FieldError{Field: "expected_sha256", Reason: "must_not_exist is set, too", Hint: "give one of the two"}
	case in.Expected != "" && len(in.Expected) != 64:
		return &policy.FieldError{Field: "expected_sha256", Value: in.Expected, Reason: "it does not have 64 hexadecimal digits"}
	}
	return errors.Join(op.OneOf("encoding", in.Encoding, "text", "base64"), op.CheckPath("path", in.Path))
}

func (in FileWriteInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out FileWriteOutput, err error) {
	mode, wrong := parseMode(in.Mode)
	if err := errors.Join(wrong, in.check()); err != nil {
		return out, err
	}
	data, err := in.data(stream)
	if err != nil {
		return out, err
	}
	if env.Budget > 0 && in.Encoding != "base64" { // a model, to which file_read has shown texts
		data = []byte(text.DecodeHidden(string(data)))
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		_, err := wire.Call(ctx, s.Client(), wire.Stat, wire.StatRequest{Path: in.Path})
		created := missing(err)
		if in.Append || in.Expected != "" {
			if data, err = in.onto(ctx, s, data); err != nil {
				return fileError("write", in.Path, err)
			}
		}
		var r wire.WriteFileResult
		if in.MustNotExist {
			r, err = saveNew(ctx, s, in.Path, data, mode)
		} else {
			r, err = save(ctx, s, in.Path, data, mode)
		}
		if err != nil {
			return fileError("write", in.Path, err)
		}
		out = FileWriteOutput{Path: r.Path, SizeBytes: r.SizeBytes, Mode: octal(r.Mode), SHA256: digest(data), Created: created}
		return nil
	})
	return out, err
}

// onto reads the existing file: it checks that the file is the expected one, and returns its
// content with data appended if the input asks for that, else data.
func (in FileWriteInput) onto(ctx context.Context, s *registry.Sandbox, data []byte) ([]byte, error) {
	old, err := load(ctx, s, in.Path)
	switch {
	case missing(err) && in.Expected == "":
		return data, nil
	case err != nil:
		return nil, err
	case in.Expected != "" && !strings.EqualFold(in.Expected, digest(old.bytes)):
		return nil, &wire.Error{Code: wire.CodeConflict, Message: "it is not what expected_sha256 says: its SHA-256 is " + digest(old.bytes),
			Hint: "read it again"}
	case in.Append && len(old.bytes)+len(data) > maxContent:
		return nil, &wire.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("it would have more than %d bytes", maxContent), Hint: "append with a command"}
	case in.Append:
		return append(old.bytes, data...), nil
	}
	return data, nil
}

// saveNew writes a file that must not exist: beside its place, and then moves it there,
// which the kernel refuses if the path exists by then.
func saveNew(ctx context.Context, h *registry.Sandbox, file osstring.String, data []byte, mode *uint32) (wire.WriteFileResult, error) {
	if _, err := wire.Call(ctx, h.Client(), wire.Stat, wire.StatRequest{Path: file}); err == nil {
		return wire.WriteFileResult{}, &wire.Error{Code: wire.CodeExists, Message: "something is there already"}
	}
	temp := path.Join(path.Dir(path.Clean(string(file))), ".paddock-new-"+rand.Text())
	r, err := save(ctx, h, osstring.String(temp), data, mode)
	if err != nil {
		return r, err
	}
	moved, err := wire.Call(ctx, h.Client(), wire.Move, wire.MoveRequest{Path: wire.OSString(temp), Target: file})
	if err != nil {
		_, lost := wire.Call(context.WithoutCancel(ctx), h.Client(), wire.DeleteWorkspacePath, wire.DeleteRequest{Path: wire.OSString(temp)})
		we := (*wire.Error)(nil)
		if errors.As(err, &we) && we.Code == wire.CodeExists {
			err = &paddock.Error{Code: wire.CodeExists, Message: string("cannot write " + file + ": something is there already")}
		}
		if lost != nil && !missing(lost) {
			err = errors.Join(err, fmt.Errorf("%s is left: %w", temp, lost))
		}
		return r, err
	}
	r.Path = moved.Target
	return r, nil
}
