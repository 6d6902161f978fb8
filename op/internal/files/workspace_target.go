package files

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

// archiveTarget is where an archive goes.
type archiveTarget struct {
	io.Writer
	size  int64
	most  int64 // 0: no bound
	sum   hash.Hash
	file  *os.File // beside the file that is meant, until all is written
	path  string   // where the file goes
	name  string   // as it was written
	kept  *output.Output
	inner bytes.Buffer // the beginning, for an archive that is small
	whole int          // up to which size it is
}

// target finds the place: a file, standard output, the store of outputs, or the answer.
func (in WorkspaceExportInput) target(env *op.Env, stream *op.Stream) (*archiveTarget, error) {
	t := &archiveTarget{sum: sha256.New()}
	switch {
	case in.Output != "":
		// Over no link that commands have put there, as for what is read.
		way, err := hostpath.Locate(env.StateDir(), filepath.Dir(in.Output))
		if err != nil {
			return nil, op.FieldError("output", in.Output, err)
		}
		f, err := os.CreateTemp(way.Path, "."+filepath.Base(in.Output)+"-*")
		if err != nil {
			return nil, &policy.FieldError{Field: "output", Value: in.Output, Reason: op.CauseOf(err)}
		}
		t.file, t.path, t.name, t.Writer = f, filepath.Join(way.Path, filepath.Base(in.Output)), in.Output, f
	case stream.Stdout != nil:
		t.Writer = stream.Stdout
	case env.Outputs != nil:
		t.kept = env.Outputs.New(env.PrincipalName())
		t.Writer, t.most, t.whole = t.kept.Side(0), maxKeptExport, min(maxInline, env.Room(maxInline)*3/4)
	default:
		t.Writer, t.most, t.whole = io.Discard, maxCaptured, maxCaptured
	}
	return t, nil
}

// Write passes on, counts and sums.
func (t *archiveTarget) Write(p []byte) (int, error) {
	if t.most > 0 && t.size+int64(len(p)) > t.most {
		return 0, &paddock.Error{Message: fmt.Sprintf("cannot keep the archive: it has more than %d bytes", t.most),
			Hint: "export fewer paths, or exclude what is not needed"}
	}
	if t.whole > 0 {
		t.inner.Write(p[:max(0, min(len(p), t.whole+1-t.inner.Len()))])
	}
	n, err := t.Writer.Write(p)
	t.size += int64(n)
	t.sum.Write(p[:n])
	return n, err
}

// finish puts the archive in its place, or takes it away where it failed.
func (t *archiveTarget) finish(env *op.Env, failed bool, out *WorkspaceExportOutput) error {
	if t.file != nil {
		err := t.file.Close()
		if !failed && err == nil {
			if err = errors.Join(os.Chmod(t.file.Name(), 0o644), os.Rename(t.file.Name(), t.path)); err == nil {
				out.File = t.name
				return nil
			}
		}
		_ = os.Remove(t.file.Name())
		if err != nil {
			err = fmt.Errorf("cannot write %s: %s", t.name, op.CauseOf(err))
		}
		return err
	}
	if t.kept != nil {
		if failed {
			t.kept.Drop()
			return nil
		}
		t.kept.End("exported")
		if !t.kept.Complete() {
			t.kept.Drop()
			return &paddock.Error{Message: "cannot keep the archive: there is no room for it", Hint: "export fewer paths, or exclude what is not needed"}
		}
		out.Output = t.kept.ID()
	}
	if t.whole > 0 && t.size <= int64(t.whole) {
		out.Content = t.inner.Bytes()
	}
	return nil
}
