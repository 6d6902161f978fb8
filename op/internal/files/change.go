package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// FileStatInput asks about one path.
type FileStatInput struct {
	op.InSandbox
	Hash bool   `json:"hash,omitempty" flag:"hash" help:"tell the SHA-256 of a file's content, too"`
	Path string `json:"path" arg:"PATH" help:"what to look at, relative to the workspace or below /workspace" max:"4096"`
}

// FileStatOutput describes one path.
type FileStatOutput struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"` // file, directory, symlink or other
	SizeBytes  int64  `json:"size_bytes"`
	Mode       string `json:"mode"`
	UID        uint32 `json:"uid"`
	GID        uint32 `json:"gid"`
	Links      uint64 `json:"links"`
	ModifiedAt string `json:"modified_at"`
	Link       string `json:"link,omitempty"` // where a symbolic link leads
	SHA256     string `json:"sha256,omitempty"`
}

// Desc describes the operation file_stat.
func (FileStatInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_stat", CLI: []string{"file", "stat"},
		Summary:  "Look at a file or directory of the workspace",
		Doc:      "Tell kind, size, permissions, owner and time of one path.\n\n" + filesDoc,
		Examples: "  paddock file stat --hash go.mod",
		Hints:    readHints,
	}
}

// Do runs the operation.
func (in FileStatInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileStatOutput, err error) {
	if err := op.CheckPath("path", in.Path); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Stat, wire.StatRequest{Path: wire.Path(in.Path)})
		if err != nil {
			return fileError("look at", in.Path, err)
		}
		got := FileStatOutput{Path: pathText(r.Path), Kind: r.ArtifactType, SizeBytes: r.SizeBytes, Mode: octal(r.Mode),
			UID: r.UID, GID: r.GID, Links: r.Links, ModifiedAt: r.ModifiedAt}
		if r.LinkTarget != nil {
			got.Link = pathText(*r.LinkTarget)
		}
		if in.Hash && r.ArtifactType == wire.TypeFile {
			c, err := load(ctx, s, in.Path)
			if err != nil {
				return fileError("read", in.Path, err)
			}
			got.SHA256 = digest(c.bytes)
		}
		out = got
		return nil
	})
	return out, err
}

// Render writes the output for people.
func (out FileStatOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s, %d bytes, mode %s, owner %d:%d, changed %s\n", text.NameText(out.Path), out.Kind, out.SizeBytes, out.Mode, out.UID, out.GID, out.ModifiedAt)
	if err == nil && out.Link != "" {
		_, err = fmt.Fprintf(w, "leads to %s\n", text.NameText(out.Link))
	}
	if err == nil && out.SHA256 != "" {
		_, err = fmt.Fprintf(w, "sha256 %s\n", out.SHA256)
	}
	return err
}

// FileMkdirInput asks for a directory.
type FileMkdirInput struct {
	op.InSandbox
	Mode string `json:"mode,omitempty" flag:"mode" arg:"OCTAL" help:"permissions of a new one (default: 0755)" max:"4"`
	Path string `json:"path" arg:"PATH" help:"the directory, relative to the workspace or below /workspace" max:"4096"`
}

// FileMkdirOutput says whether the directory is new.
type FileMkdirOutput struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
}

// Desc describes the operation file_mkdir.
func (FileMkdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_mkdir", CLI: []string{"file", "mkdir"},
		Summary:  "Make a directory in the workspace",
		Doc:      "Make a directory and those above it. One that is there already is left as it is.\n\n" + filesDoc,
		Examples: "  paddock file mkdir src/new",
		Hints:    op.Hints{Idempotent: true},
	}
}

// Do runs the operation.
func (in FileMkdirInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileMkdirOutput, err error) {
	mode, wrong := parseMode(in.Mode)
	if err := errors.Join(wrong, op.CheckPath("path", in.Path)); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Mkdir, wire.MkdirRequest{Path: wire.Path(in.Path), Mode: mode})
		if err != nil {
			return fileError("make", in.Path, err)
		}
		out = FileMkdirOutput{pathText(r.Path), r.Created}
		return nil
	})
	return out, err
}

// Render writes the output for people.
func (out FileMkdirOutput) Render(w io.Writer) error {
	verb := "was there already:"
	if out.Created {
		verb = "made"
	}
	_, err := fmt.Fprintln(w, verb, text.NameText(out.Path))
	return err
}

// FileMoveInput asks for another name of a file or directory.
type FileMoveInput struct {
	op.InSandbox
	Replace bool   `json:"replace,omitempty" flag:"replace" help:"replace a file or link that is there already"`
	Path    string `json:"path" arg:"PATH" help:"what to move, relative to the workspace or below /workspace" max:"4096"`
	Target  string `json:"target" arg:"TARGET" help:"its new path, with its name; directories above it are made" max:"4096"`
}

// FileMoveOutput says where it is now.
type FileMoveOutput struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Desc describes the operation file_move.
func (FileMoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_move", CLI: []string{"file", "move"},
		Summary: "Move or rename a file or directory of the workspace",
		Doc: `Give a file or directory another path. target is the whole new path, not the
directory to move into. Something that is there already is replaced only with
replace, and never a directory.

` + filesDoc,
		Examples: "  paddock file move old.go pkg/new.go",
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}
}

// Do runs the operation.
func (in FileMoveInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileMoveOutput, err error) {
	if err := errors.Join(op.CheckPath("path", in.Path), op.CheckPath("target", in.Target)); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Move, wire.MoveRequest{Path: wire.Path(in.Path), Target: wire.Path(in.Target), Replace: in.Replace})
		if err != nil {
			return moveError(in, fileError("move", in.Path, err))
		}
		out = FileMoveOutput{pathText(r.Path), pathText(r.Target)}
		return nil
	})
	return out, err
}

// Render writes the output for people.
func (out FileMoveOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "moved %s to %s\n", text.NameText(out.Path), text.NameText(out.Target))
	return err
}

// moveError adds what to do about something that is in the way.
func moveError(in FileMoveInput, err error) error {
	e := (*paddock.Error)(nil)
	if errors.As(err, &e) && e.Code == wire.CodeExists {
		e.Message = "cannot move " + text.NameText(in.Path) + " to " + text.NameText(in.Target) + ": something is there already"
		e.Hint = "set replace, if it may be lost"
	}
	return err
}

// FileDeleteInput asks for something to be removed.
type FileDeleteInput struct {
	op.InSandbox
	Recursive bool   `json:"recursive,omitempty" flag:"recursive" short:"r" help:"delete a directory with all that is in it"`
	Path      string `json:"path" arg:"PATH" help:"what to delete, relative to the workspace or below /workspace" max:"4096"`
}

// FileDeleteOutput says what was removed.
type FileDeleteOutput struct {
	Path    string `json:"path"`
	Entries int64  `json:"entries"` // all that went, directories included
}

// Desc describes the operation file_delete.
func (FileDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_delete", CLI: []string{"file", "delete"},
		Summary: "Delete a file or directory of the workspace",
		Doc: `Delete a file, or a link (not where it leads). A directory is deleted only with
recursive, with all that is in it. It cannot be taken back.

` + filesDoc,
		Examples: "  paddock file delete --recursive build",
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}
}

// Render writes the output for people.
func (out FileDeleteOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "deleted %s (%d in all)\n", text.NameText(out.Path), out.Entries)
	return err
}

// Do runs the operation.
func (in FileDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileDeleteOutput, err error) {
	if err := op.CheckPath("path", in.Path); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		st, err := wire.Call(ctx, s.Client(), wire.Stat, wire.StatRequest{Path: wire.Path(in.Path)})
		if err != nil {
			return fileError("delete", in.Path, err)
		}
		if st.Path == "/workspace" {
			return &paddock.Error{Message: "cannot delete the workspace itself", Code: wire.CodeConflict, Hint: "delete what is in it"}
		}
		if st.ArtifactType == wire.TypeDirectory && !in.Recursive {
			return &paddock.Error{Message: "cannot delete " + in.Path + ": it is a directory", Code: wire.CodeConflict, Hint: "set recursive to delete it with all that is in it"}
		}
		r, err := wire.Call(ctx, s.Client(), wire.DeleteWorkspacePath, wire.DeleteRequest{Path: wire.Path(in.Path),
			Recursive: in.Recursive || st.ArtifactType == wire.TypeOther})
		if err != nil {
			return fileError("delete", in.Path, err)
		}
		out = FileDeleteOutput{pathText(r.Path), r.Entries}
		return nil
	})
	return out, err
}
