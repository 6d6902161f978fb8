//go:build linux

package backendtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func fileCells() []cell {
	return []cell{
		{name: "files: written, read, listed, moved, removed", do: filesRoundTrip},
		{name: "files: commands see what was written, and the other way", do: func(ctx context.Context, b *box) error {
			if err := b.write(ctx, "/workspace/both", "from outside\n"); err != nil {
				return err
			}
			if err := b.sh(ctx, "cat both; echo from inside > back", "from outside\n"); err != nil {
				return err
			}
			r, err := wire.Call(ctx, b.wire, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "/workspace/back", MaxBytes: 100})
			return errors.Join(err, same(string(r.ContentB64), "from inside\n"))
		}},
		{name: "files: no path leads out of the workspace", do: func(ctx context.Context, b *box) error {
			if _, err := b.output(ctx, "ln", "-s", "/etc", "link"); err != nil {
				return err
			}
			for _, path := range []wire.OSString{"/etc/passwd", "/workspace/../etc/passwd", "/workspace/link/passwd"} {
				if _, err := wire.Call(ctx, b.wire, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: path, MaxBytes: 1 << 20}); err == nil {
					return fmt.Errorf("%s was read", path)
				}
			}
			return nil
		}},
		{name: "files: changes reach the host's directory", do: func(ctx context.Context, b *box) error {
			if b.dir == "" {
				return errors.New("the workspace is not a directory of the host")
			}
			if _, err := b.output(ctx, "sh", "-c", "echo changed > reached"); err != nil {
				return err
			}
			text, err := os.ReadFile(filepath.Join(b.dir, "reached"))
			return errors.Join(err, same(string(text), "changed\n"))
		}},
		{name: "files: what commands make belongs to the workspace's owner", do: func(ctx context.Context, b *box) error {
			if b.dir == "" {
				return errors.New("the workspace is not a directory of the host")
			}
			if _, err := b.output(ctx, "touch", "owned"); err != nil {
				return err
			}
			file, err := os.Stat(filepath.Join(b.dir, "owned"))
			if err != nil {
				return err
			}
			dir, err := os.Stat(b.dir)
			return errors.Join(err, same(ownerOf(file), ownerOf(dir)))
		}},
		{name: "workspace: read-only", opens: func(s *policy.Spec) { s.Workspace.Access = "ro" }, do: func(ctx context.Context, b *box) error {
			err := b.s.Command(ctx, "touch", "x").Run()
			return must(err != nil, "it was changed")
		}},
		{name: "workspace: a copy leaves the host's directory alone", opens: func(s *policy.Spec) { s.Workspace.Mode = policy.ModeCopy }, do: func(ctx context.Context, b *box) error {
			if err := b.sh(ctx, "echo x > new; cat new", "x\n"); err != nil {
				return err
			}
			_, err := os.Stat(filepath.Join(b.dir, "new"))
			return must(errors.Is(err, os.ErrNotExist), "it was changed: %v", err)
		}},
		{name: "archive: unpacked inside", do: func(ctx context.Context, b *box) error {
			archive := archiveOf("deep/file", "in an archive\n")
			r, err := wire.Upload(ctx, b.wire, wire.ExtractArchive,
				wire.ExtractRequest{Destination: "/workspace/unpacked", ArchiveSize: int64(len(archive))}, bytes.NewReader(archive))
			return errors.Join(err, same(r.EntryCount, 1), b.sh(ctx, "cat unpacked/deep/file", "in an archive\n"))
		}},
		{name: "archive: one that leads out is refused whole", do: func(ctx context.Context, b *box) error {
			archive := archiveOf("../../escaped", "x")
			_, err := wire.Upload(ctx, b.wire, wire.ExtractArchive,
				wire.ExtractRequest{Destination: "/workspace/out", ArchiveSize: int64(len(archive))}, bytes.NewReader(archive))
			return must(err != nil, "it was unpacked")
		}},
		{name: "archive: packed inside", do: func(ctx context.Context, b *box) error {
			if err := b.write(ctx, "/workspace/pack/file", "packed\n"); err != nil {
				return err
			}
			_, body, err := wire.Download(ctx, b.wire, wire.ExportArchive, wire.ExportRequest{Path: "/workspace/pack"})
			if err != nil {
				return err
			}
			defer body.Close()
			for r := tar.NewReader(body); ; {
				header, err := r.Next()
				if err != nil {
					return err
				}
				if strings.HasSuffix(header.Name, "file") {
					text, err := io.ReadAll(r)
					return errors.Join(err, same(string(text), "packed\n"))
				}
			}
		}},
		{name: "secrets: files for commands, redacted in output", do: func(ctx context.Context, b *box) error {
			fresh, err := b.open(ctx, nil)
			if err != nil {
				return err
			}
			archive := archiveOf("TOKEN", "open-sesame")
			r, err := wire.Upload(ctx, fresh.wire, wire.InstallSecrets, wire.InstallSecretsRequest{ArchiveSize: int64(len(archive))}, bytes.NewReader(archive))
			if err == nil {
				err = fresh.sh(ctx, "cd "+string(r.Destination)+"; wc -c < TOKEN | tr -d ' '; cat TOKEN", "11\n[REDACTED]")
			}
			return errors.Join(err, fresh.close())
		}},
	}
}

func filesRoundTrip(ctx context.Context, b *box) error {
	const text = "text\nof a file\x00\n"
	if err := b.write(ctx, "/workspace/files/new/one", text); err != nil {
		return err
	}
	r, err := wire.Call(ctx, b.wire, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "/workspace/files/new/one", MaxBytes: 100})
	if err := errors.Join(err, same(string(r.ContentB64), text)); err != nil {
		return err
	}
	st, err := wire.Call(ctx, b.wire, wire.Stat, wire.StatRequest{Path: "/workspace/files/new/one"})
	if err := errors.Join(err, same(st.SizeBytes, int64(len(text)))); err != nil {
		return err
	}
	if _, err := wire.Call(ctx, b.wire, wire.Move, wire.MoveRequest{Path: "/workspace/files/new/one", Target: "/workspace/files/two"}); err != nil {
		return err
	}
	list, err := wire.Call(ctx, b.wire, wire.ListWorkspace, wire.ListRequest{Path: "/workspace/files", Recursive: true})
	var paths []string
	for _, e := range list.Entries {
		paths = append(paths, string(e.Path))
	}
	if err := errors.Join(err, same(strings.Join(paths, " "), "/workspace/files/new /workspace/files/two")); err != nil {
		return err
	}
	d, err := wire.Call(ctx, b.wire, wire.DeleteWorkspacePath, wire.DeleteRequest{Path: "/workspace/files", Recursive: true})
	return errors.Join(err, same(d.Entries, 3))
}

func (b *box) write(ctx context.Context, path, text string) error {
	_, err := wire.Call(ctx, b.wire, wire.WriteWorkspaceFile, wire.WriteWorkspaceFileRequest{Path: wire.OSString(path), Text: text})
	return err
}

// archiveOf returns an archive with one file.
func archiveOf(name, text string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// A Buffer cannot fail.
	_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg})
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}
