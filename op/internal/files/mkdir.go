package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type FileMkdirInput struct {
	op.InSandbox
	Mode string          `json:"mode,omitempty" flag:"mode" arg:"OCTAL" help:"permissions of a new directory (default: 0755)" max:"4"`
	Path osstring.String `json:"path" arg:"PATH" help:"the directory, relative to the workspace or below /workspace" max:"4096"`
}

type FileMkdirOutput struct {
	Path    osstring.String `json:"path"`
	Created bool            `json:"created"`
}

func (FileMkdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_mkdir", CLI: []string{"file", "mkdir"},
		Summary:  "Make a directory in the workspace",
		Doc:      "Make a directory, and its parents if they are missing. An existing directory stays as it is.\n\n" + filesDoc,
		Examples: "  paddock file mkdir src/new",
		Hints:    op.Hints{Idempotent: true},
	}
}

func (in FileMkdirInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileMkdirOutput, err error) {
	mode, wrong := parseMode(in.Mode)
	if err := errors.Join(wrong, op.CheckPath("path", in.Path)); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Mkdir, wire.MkdirRequest{Path: in.Path, Mode: mode})
		if err != nil {
			return fileError("make", in.Path, err)
		}
		out = FileMkdirOutput{r.Path, r.Created}
		return nil
	})
	return out, err
}

func (out FileMkdirOutput) Render(w io.Writer) error {
	verb := "was there already:"
	if out.Created {
		verb = "made"
	}
	_, err := fmt.Fprintln(w, verb, text.QuoteName(string(out.Path)))
	return err
}
