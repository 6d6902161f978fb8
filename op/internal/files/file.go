// Package files has the operations on a workspace's files: reading, writing, editing,
// searching, patches, and archives in and out.
//
// Every path goes to the agent, which opens it through handles inside the sandbox. Edits
// and patches are computed here, in memory, and written only where all of them fit.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// maxContent bounds a file that an operation holds in memory, in bytes.
const maxContent = 32 << 20

// filesDoc is in the manual of every operation on files.
const filesDoc = `Paths are relative to the workspace, or absolute below /workspace. Only the
workspace can be reached; use a command for /tmp and other places. Symbolic links
are never followed, and what is protected from commands is protected here too.`

// readHints and changeHints are the hints of operations on files.
var (
	readHints   = op.Hints{ReadOnly: true, Idempotent: true}
	changeHints = op.Hints{Destructive: true}
)

// inFiles runs do in the sandbox that where names. Operations that read a file and then write
// it set lock, so that they do not overwrite each other's changes.
func inFiles(ctx context.Context, e *op.Env, where op.InSandbox, lock bool, do func(context.Context, *registry.Sandbox) error) error {
	return e.WithSandbox(ctx, where, func(ctx context.Context, s *registry.Sandbox) error {
		if lock {
			unlock, err := changes.lock(ctx, s.ID())
			if err != nil {
				return err
			}
			defer unlock()
		}
		return do(ctx, s)
	})
}

// changes has a lock for each sandbox whose files are being changed, by its id.
var changes = turns{waiting: map[string]*turn{}}

// turns is a set of locks by name. Waiting for one can be cancelled.
type turns struct {
	mu      sync.Mutex
	waiting map[string]*turn
}

type turn struct {
	free  chan struct{}
	users int
}

func (t *turns) lock(ctx context.Context, name string) (unlock func(), err error) {
	t.mu.Lock()
	own := t.waiting[name]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		t.waiting[name] = own
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.waiting, name)
		}
	}
	select {
	case <-own.free:
		return func() { own.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// fileError returns the error of an action on a file, for the caller.
func fileError(verb string, path osstring.String, err error) error {
	we := (*wire.Error)(nil)
	if !errors.As(err, &we) {
		if registry.Cancelled(err) {
			return err
		}
		return fmt.Errorf("cannot %s %s: %w", verb, text.QuoteName(string(path)), err)
	}
	e := &paddock.Error{Code: we.Code, Hint: we.Hint, Message: we.Message}
	told := func(cause string) { e.Message = "cannot " + verb + " " + text.QuoteName(string(path)) + ": " + cause }
	switch {
	case we.Code == wire.CodeNotFound:
		e.Code = "" // for doors this code means a command that does not exist
		told("it does not exist")
	case we.Code == wire.CodeConflict && strings.Contains(we.Message, "symlinked parent"):
		told("a parent of it is a symbolic link, and links are not followed")
		e.Hint = "name the file by the path that the link leads to"
	case we.Code == wire.CodeConflict && strings.Contains(we.Message, "regular file"):
		told("it is not a regular file")
	case we.Errno == int(syscall.EROFS) || we.Errno == int(syscall.EBUSY):
		told("it is read-only in this sandbox")
		e.Hint = "paths that programs of the host execute or obey are protected; nothing inside can change them"
	case we.Errno == int(syscall.EXDEV):
		told("one of the two paths is read-only in this sandbox, or a mount of its own")
	case we.Errno != 0:
		told(syscall.Errno(we.Errno).Error())
	case !strings.HasPrefix(we.Message, "cannot "):
		told(we.Message)
	}
	return e
}

// missing reports whether err says that the path does not exist.
func missing(err error) bool {
	we := (*wire.Error)(nil)
	return errors.As(err, &we) && we.Code == wire.CodeNotFound
}

// content is a whole file.
type content struct {
	wire.ReadFileResult
	bytes []byte
}

// load reads a whole file.
func load(ctx context.Context, h *registry.Sandbox, path osstring.String) (*content, error) {
	head, body, err := wire.Download(ctx, h.Client(), wire.ReadFile, wire.ReadFileRequest{Path: path})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if head.ContentSize > maxContent {
		return nil, &paddock.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("cannot read %s: it has %d bytes, and %d are the most", path, head.ContentSize, maxContent),
			Hint: "use a command for it"}
	}
	all, err := io.ReadAll(body)
	return &content{head, all}, err
}

// save writes a file, and makes it and its parents if necessary.
func save(ctx context.Context, h *registry.Sandbox, path osstring.String, data []byte, mode *uint32) (wire.WriteFileResult, error) {
	return wire.Upload(ctx, h.Client(), wire.WriteFile,
		wire.WriteFileRequest{Path: path, ContentSize: int64(len(data)), Mode: mode}, strings.NewReader(string(data)))
}

// unchanged returns an error if a file has changed since it was read.
func unchanged(ctx context.Context, h *registry.Sandbox, path osstring.String, was *content) error {
	st, err := wire.Call(ctx, h.Client(), wire.Stat, wire.StatRequest{Path: path})
	if err != nil {
		return err
	}
	if st.ModifiedAt != was.ModifiedAt || st.SizeBytes != was.SizeBytes {
		return &paddock.Error{Code: wire.CodeConflict, Message: "cannot change " + string(path) + ": something else has changed it in this moment", Hint: "read it again"}
	}
	return nil
}

// digest returns the SHA-256 of data in hexadecimal.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// octal returns permission bits as people write them.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// parseMode parses permission bits. An empty text is nil.
func parseMode(text string) (*uint32, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no mode is a mode: the default
	}
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return nil, &policy.FieldError{Field: "mode", Value: text, Reason: "it is not an octal number from 0 to 777", Hint: "write 0644 or 0755"}
	}
	mode := uint32(n)
	return &mode, nil
}

// cutLines returns the beginning of a text that fits into room, cut after a line.
func cutLines(s string, room int) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if room -= text.Cost(line); room < 0 {
			rest := strings.Count(s[b.Len():], "\n")
			fmt.Fprintf(&b, "... %d more lines ...\n", rest)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
