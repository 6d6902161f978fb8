package files

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

type FileStatInput struct {
	op.InSandbox
	Hash bool            `json:"hash,omitempty" flag:"hash" help:"also compute the SHA-256 of a file's content"`
	Path osstring.String `json:"path" arg:"PATH" help:"the path, relative to the workspace or below /workspace" max:"4096"`
}

type FileStatOutput struct {
	Path       osstring.String `json:"path"`
	Kind       string          `json:"kind"` // file, directory, symlink or other
	SizeBytes  int64           `json:"size_bytes"`
	Mode       string          `json:"mode"`
	UID        uint32          `json:"uid"`
	GID        uint32          `json:"gid"`
	Links      uint64          `json:"links"`
	ModifiedAt string          `json:"modified_at"`
	Link       osstring.String `json:"link,omitempty"` // the target of a symbolic link
	SHA256     string          `json:"sha256,omitempty"`
}

func (FileStatInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_stat", CLI: []string{"file", "stat"},
		Summary:  "Describe a file or directory of the workspace",
		Doc:      "Report kind, size, permissions, owner and modification time of one path.\n\n" + filesDoc,
		Examples: "  paddock file stat --hash go.mod",
		Hints:    readHints,
	}
}

func (in FileStatInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileStatOutput, err error) {
	if err := op.CheckPath("path", in.Path); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		r, err := wire.Call(ctx, s.Client(), wire.Stat, wire.StatRequest{Path: in.Path})
		if err != nil {
			return fileError("look at", in.Path, err)
		}
		got := FileStatOutput{Path: r.Path, Kind: r.ArtifactType, SizeBytes: r.SizeBytes, Mode: octal(r.Mode),
			UID: r.UID, GID: r.GID, Links: r.Links, ModifiedAt: r.ModifiedAt}
		if r.LinkTarget != nil {
			got.Link = *r.LinkTarget
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

func (out FileStatOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s, %d bytes, mode %s, owner %d:%d, changed %s\n", text.QuoteName(string(out.Path)), out.Kind, out.SizeBytes, out.Mode, out.UID, out.GID, out.ModifiedAt)
	if err == nil && out.Link != "" {
		_, err = fmt.Fprintf(w, "leads to %s\n", text.QuoteName(string(out.Link)))
	}
	if err == nil && out.SHA256 != "" {
		_, err = fmt.Fprintf(w, "sha256 %s\n", out.SHA256)
	}
	return err
}
