package files

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type FileDeleteInput struct {
	op.InSandbox
	Recursive bool            `json:"recursive,omitempty" flag:"recursive" short:"r" help:"delete a directory with everything in it"`
	Path      osstring.String `json:"path" arg:"PATH" help:"what to delete, relative to the workspace or below /workspace" max:"4096"`
}

type FileDeleteOutput struct {
	Path    osstring.String `json:"path"`
	Entries int64           `json:"entries"` // everything that was deleted, directories included
}

func (FileDeleteInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_delete", CLI: []string{"file", "delete"},
		Summary: "Delete a file or directory of the workspace",
		Doc: `Delete a file, or a link (not its target). A directory is deleted only with
recursive, with everything in it. This cannot be undone.

` + filesDoc,
		Examples: "  paddock file delete --recursive build",
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}
}

func (in FileDeleteInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileDeleteOutput, err error) {
	if err := op.CheckPath("path", in.Path); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		st, err := wire.Call(ctx, s.Client(), wire.Stat, wire.StatRequest{Path: in.Path})
		if err != nil {
			return fileError("delete", in.Path, err)
		}
		if st.Path == "/workspace" {
			return &paddock.Error{Message: "cannot delete the workspace itself", Code: wire.CodeConflict, Hint: "delete what is in it"}
		}
		if st.ArtifactType == wire.TypeDirectory && !in.Recursive {
			return &paddock.Error{Message: "cannot delete " + string(in.Path) + ": it is a directory", Code: wire.CodeConflict, Hint: "set recursive to delete it with all that is in it"}
		}
		r, err := wire.Call(ctx, s.Client(), wire.DeleteWorkspacePath, wire.DeleteRequest{Path: in.Path,
			Recursive: in.Recursive || st.ArtifactType == wire.TypeOther})
		if err != nil {
			return fileError("delete", in.Path, err)
		}
		out = FileDeleteOutput{r.Path, r.Entries}
		return nil
	})
	return out, err
}

func (out FileDeleteOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "deleted %s (%d in all)\n", text.QuoteName(string(out.Path)), out.Entries)
	return err
}
