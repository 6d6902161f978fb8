package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type FileMoveInput struct {
	op.InSandbox
	Replace bool            `json:"replace,omitempty" flag:"replace" help:"replace an existing file or link"`
	Path    osstring.String `json:"path" arg:"PATH" help:"what to move, relative to the workspace or below /workspace" max:"4096"`
	Target  osstring.String `json:"target" arg:"TARGET" help:"its new path, including the name; missing directories above it are made" max:"4096"`
}

type FileMoveOutput struct {
	Path   osstring.String `json:"path"`
	Target osstring.String `json:"target"`
}

func (FileMoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_move", CLI: []string{"file", "move"},
		Summary: "Move or rename a file or directory of the workspace",
		Doc: `Move a file or directory. target is the whole new path, not the directory to move
into. Something that exists there is replaced only with replace, and a directory
never.

` + filesDoc,
		Examples: "  paddock file move old.go pkg/new.go",
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}
}

func (in FileMoveInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileMoveOutput, err error) {
	if err := errors.Join(op.CheckPath("path", in.Path), op.CheckPath("target", in.Target)); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Move, wire.MoveRequest{Path: in.Path, Target: in.Target, Replace: in.Replace})
		if err != nil {
			err, e := fileError("move", in.Path, err), (*paddock.Error)(nil)
			if errors.As(err, &e) && e.Code == wire.CodeExists {
				e.Message = "cannot move " + text.QuoteName(string(in.Path)) + " to " + text.QuoteName(string(in.Target)) + ": something is there already"
				e.Hint = "set replace, if it may be lost"
			}
			return err
		}
		out = FileMoveOutput{r.Path, r.Target}
		return nil
	})
	return out, err
}

func (out FileMoveOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "moved %s to %s\n", text.QuoteName(string(out.Path)), text.QuoteName(string(out.Target)))
	return err
}
