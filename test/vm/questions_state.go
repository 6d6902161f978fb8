package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/wire"
)

// askFiles writes, lists, moves and deletes, and is not led out.
func askFiles(ctx context.Context, c *wire.Client) error {
	_, err := wire.Call(ctx, c, wire.Mkdir, wire.MkdirRequest{Path: "f"})
	if err == nil {
		_, err = wire.Call(ctx, c, wire.WriteWorkspaceFile, wire.WriteWorkspaceFileRequest{Path: "f/a", Text: "text"})
	}
	if err == nil {
		_, err = wire.Call(ctx, c, wire.Move, wire.MoveRequest{Path: "f/a", Target: "f/b"})
	}
	if err != nil {
		return err
	}
	read, err := wire.Call(ctx, c, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "f/b"})
	list, lerr := wire.Call(ctx, c, wire.ListWorkspace, wire.ListRequest{Path: "f"})
	if err := first(err, lerr, differ("the text", string(read.ContentB64), "text"), differ("the number of entries", len(list.Entries), 1)); err != nil {
		return err
	}
	if err := prints(ctx, c, "ln -s /etc f/out", ""); err != nil {
		return err
	}
	if _, err := wire.Call(ctx, c, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "f/out/passwd"}); err == nil {
		return errors.New("a link led out of the workspace")
	}
	gone, err := wire.Call(ctx, c, wire.DeleteWorkspacePath, wire.DeleteRequest{Path: "f", Recursive: true})
	return first(err, differ("what was deleted", gone.Entries, int64(3)), prints(ctx, c, "test -d /etc && ls", ""))
}

// askBodies moves more than any buffer holds.
func askBodies(ctx context.Context, c *wire.Client) error {
	const size = 16 << 20
	in := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	got, err := wire.Upload(ctx, c, wire.WriteFile, wire.WriteFileRequest{Path: "large", ContentSize: size}, bytes.NewReader(in))
	if err := first(err, differ("bytes written", got.BytesWritten, int64(size))); err != nil {
		return err
	}
	_, body, err := wire.Download(ctx, c, wire.ReadFile, wire.ReadFileRequest{Path: "large"})
	if err != nil {
		return err
	}
	defer body.Close()
	out, err := io.ReadAll(body)
	return first(err, differ("the bytes are the same", bytes.Equal(in, out), true), prints(ctx, c, "rm large", ""))
}

// askShells opens a shell that keeps its state from line to line.
func askShells(ctx context.Context, c *wire.Client) error {
	if _, err := wire.Call(ctx, c, wire.OpenShell, wire.OpenShellRequest{ShellID: "s"}); err != nil {
		return err
	}
	for _, line := range []string{"x=4", "echo $((x * 10 + 2))=answer"} {
		if _, err := wire.Call(ctx, c, wire.WriteShell, wire.WriteShellRequest{ShellID: "s", Input: line}); err != nil {
			return err
		}
	}
	text, cursor := "", int64(0)
	for !strings.Contains(text, "42=answer") {
		r, err := wire.Call(ctx, c, wire.ReadShell, wire.ReadShellRequest{ShellID: "s", Cursor: cursor, WaitMS: 1000})
		if err != nil {
			return fmt.Errorf("after %q: %w", text, err)
		}
		text, cursor = text+r.Output, r.NextCursor
	}
	end, err := wire.Call(ctx, c, wire.CloseShell, wire.ShellRequest{ShellID: "s"})
	return first(err, differ("closed", end.Closed, true), differ("the proof of death", end.DeathProved, true))
}

// askServices starts a service that becomes ready, and stops it.
func askServices(ctx context.Context, c *wire.Client) error {
	ready := json.RawMessage(`{"type":"file","path":"/workspace/up"}`)
	s, err := wire.Call(ctx, c, wire.StartService, wire.StartServiceRequest{ServiceName: "web", Readiness: ready, ReadyIntervalMS: 20,
		Command: "echo starting; sleep 0.2; touch up; (setsid sleep 1000 &); exec sleep 1000"})
	if err := first(err, differ("the state", s.State, "running"), differ("ready", s.ReadyAt != nil, true)); err != nil {
		return err
	}
	logs, err := wire.Call(ctx, c, wire.LogsService, wire.LogsServiceRequest{ServiceName: "web"})
	if err := first(err, differ("its log", logs.Stdout, "starting\n")); err != nil {
		return err
	}
	end, err := wire.Call(ctx, c, wire.StopService, wire.ServiceRequest{ServiceName: "web"})
	return first(err, differ("the state", end.State, "stopped"), differ("the proof of death", end.DeathProved, true),
		prints(ctx, c, "rm up; ls /proc/*/exe | grep -c sleep; true", "0\n"))
}

// archive is a tar file of one file.
func archive(name, text string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))})
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func askArchives(ctx context.Context, c *wire.Client) error {
	in := archive("dir/file", "text")
	got, err := wire.Upload(ctx, c, wire.ExtractArchive, wire.ExtractRequest{ArchiveSize: int64(len(in)), Destination: "/workspace/a"}, bytes.NewReader(in))
	if err := first(err, differ("bytes written", got.BytesWritten, int64(4)), prints(ctx, c, "cat a/dir/file", "text")); err != nil {
		return err
	}
	_, body, err := wire.Download(ctx, c, wire.ExportArchive, wire.ExportRequest{Path: "/workspace/a"})
	if err != nil {
		return err
	}
	defer body.Close()
	out, err := io.ReadAll(body)
	return first(err, differ("the text is in the archive", bytes.Contains(out, []byte("text")), true), prints(ctx, c, "rm -r a", ""))
}

func askSecrets(ctx context.Context, c *wire.Client) error {
	in := archive("token", "s3cr3t-value")
	if _, err := wire.Upload(ctx, c, wire.InstallSecrets, wire.InstallSecretsRequest{ArchiveSize: int64(len(in))}, bytes.NewReader(in)); err != nil {
		return err
	}
	return first(prints(ctx, c, "echo s3cr3t-value; stat -c %a /run/secrets/*", "[REDACTED]\n600\n"), prints(ctx, c, "wc -c < /run/secrets/token", "12\n"))
}
