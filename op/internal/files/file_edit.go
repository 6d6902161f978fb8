package files

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/patch"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// maxDiff is what an answer holds of a diff, in characters.
const maxDiff = 8000

// FileEdit is one replacement.
type FileEdit struct {
	Old string `json:"old" help:"the exact text that is to be replaced, with its white space and enough of its surroundings to be there once; empty: make a new file of new" max:"4194304"`
	New string `json:"new" help:"the text in its place; empty to remove it" max:"4194304"`
	All bool   `json:"all,omitempty" help:"replace it wherever it is, and not once"`
}

// FileEditInput asks for replacements in one file.
type FileEditInput struct {
	op.InSandbox
	Edits []FileEdit `json:"edits" flag:"edit" arg:"JSON" help:"a replacement, {\"old\": TEXT, \"new\": TEXT, \"all\": BOOL}; they are made in order (may be repeated)" min:"1" max:"500"`
	Path  string     `json:"path" arg:"PATH" help:"the file, relative to the workspace or below /workspace" max:"4096"`
}

// FileEditOutput says what was changed.
type FileEditOutput struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Created      bool   `json:"created,omitempty"`
	SizeBytes    int64  `json:"size_bytes"`
	SHA256       string `json:"sha256"`
	// Diff is the unified diff of what was changed, as far as there is room. What cannot
	// be seen is there by number, as file_read shows it.
	Diff string `json:"diff"`
}

func fileEditOp() op.Op {
	return op.New(op.Desc{
		Name: "file_edit", CLI: []string{"file", "edit"},
		Summary: "Replace exact text in a file of the workspace",
		Doc: `Replace text in one file. Each of edits has old, the exact text with its indentation,
and new, what is to be there instead. old must be in the file once; give more lines
around it, or set all to replace it everywhere. Edits are made in order, each in what
the one before has left, and all or none: if one of them does not fit, the file stays
as it was, and the error says what is there instead. The answer has a diff.

Do not copy the line numbers that file_read shows. In a file whose lines end in CRLF
text may be written with plain line feeds: they are taken as CRLF, and what is written
ends so, too. A byte order mark, the permissions, and a missing end of the last line
stay as they are. With an empty old a file is made that must not exist or be empty.

Read the file before you edit it. For many files at once use patch_apply.

` + filesDoc,
		Examples: `  paddock file edit --edit '{"old": "Hello", "new": "Goodbye"}' main.go`,
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}, fileEdit, renderFileEdit)
}

func (in FileEditInput) check() error {
	for i, e := range in.Edits {
		field := fmt.Sprintf("edits[%d].", i)
		switch {
		case e.Old == e.New:
			return &policy.FieldError{Field: field + "new", Reason: "it is the same as old", Hint: "leave out an edit that changes nothing"}
		case e.Old == "" && i > 0:
			return &policy.FieldError{Field: field + "old", Reason: "it is empty", Hint: "give the text to be replaced; only the first edit may make a new file"}
		}
	}
	if len(in.Edits) == 0 {
		return &policy.FieldError{Field: "edits", Reason: "there is none"}
	}
	return op.CheckPath("path", in.Path)
}

func fileEdit(ctx context.Context, env *op.Env, in FileEditInput, _ *op.Stream) (out FileEditOutput, err error) {
	if err := in.check(); err != nil {
		return out, err
	}
	err = inFiles(env, ctx, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		old, err := load(s, ctx, in.Path)
		create := missing(err) && in.Edits[0].Old == ""
		switch {
		case create:
			old = &content{}
		case err != nil:
			return fileError("edit", in.Path, err)
		}
		data, n, err := in.apply(old.bytes, env.Budget > 0)
		if err != nil {
			return err
		}
		if len(data) > maxContent {
			return &paddock.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("cannot edit %s: it would have more than %d bytes", in.Path, maxContent)}
		}
		var r wire.WriteFileResult
		if create {
			r, err = saveNew(s, ctx, in.Path, data, nil)
		} else if err = unchanged(s, ctx, in.Path, old); err == nil {
			r, err = save(s, ctx, in.Path, data, nil)
		}
		if err != nil {
			return fileError("edit", in.Path, err)
		}
		out = FileEditOutput{Path: pathText(r.Path), Replacements: n, Created: create, SizeBytes: r.SizeBytes, SHA256: digest(data)}
		diff := text.RevealDiff(patch.Diff(old.bytes, data))
		out.Diff = cutLines(diff, min(maxDiff, env.Room(maxDiff)/2))
		return nil
	})
	return out, err
}

func renderFileEdit(w io.Writer, out FileEditOutput) error {
	verb, times := "edited", "1 replacement"
	if out.Created {
		verb = "created"
	}
	if out.Replacements != 1 {
		times = fmt.Sprintf("%d replacements", out.Replacements)
	}
	_, err := fmt.Fprintf(w, "%s %s: %s\n%s", verb, text.NameText(out.Path), times, out.Diff)
	return err
}
