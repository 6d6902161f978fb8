package host

import (
	"context"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/op"
)

// Bounds of what is read, in bytes.
const (
	readDefault = 256 << 10
	readMost    = 512 << 10
)

// truncated follows what is not all.
const truncated = "\n... [truncated]"

// cgroupDoc is what all operations on control groups say of paths.
const cgroupDoc = `A path is absolute, or relative to where the cgroup v2 hierarchy is mounted. Where
that is not /sys/fs/cgroup, on hosts with version 1 beside it, a path below
/sys/fs/cgroup that names nothing there is taken as one below the mount; the
answer has the whole path. Links are never followed beyond the mount.

This reaches the host, outside every sandbox, and needs the privilege
UNSANDBOXED_EXEC. The root of the hierarchy, the groups that Paddock and its
ancestors live in, and those above are guarded: nothing is written there, and
process 1, Paddock and its ancestors are not moved.`

// CgroupReadInput asks for an interface file.
type CgroupReadInput struct {
	Path     looseText `json:"path" arg:"FILE" help:"the file"`
	MaxBytes looseInt  `json:"max_bytes" flag:"max-bytes" arg:"N" help:"how much to read at most, in bytes (default 262144, at most 524288)"`
}

// CgroupRead is what it holds.
type CgroupRead struct {
	Path      string `json:"path"`
	Content   string `json:"content"`    // with a note where there is more
	BytesRead int    `json:"bytes_read"` // without the note
}

// Desc describes the operation cgroup_read_file.
func (CgroupReadInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_read_file", CLI: []string{"cgroup", "read"},
		Summary: "Read a file of a control group",
		Doc:     "Read an interface file of a control group.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup read cgroup.controllers
  paddock cgroup read --json build/memory.current`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Render writes the output for people.
func (r *CgroupRead) Render(w io.Writer) error {
	_, err := io.WriteString(w, r.Content)
	return err
}

// Do runs the operation.
func (in CgroupReadInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupRead, error) {
	if in.MaxBytes.wrong {
		return nil, sentence("max_bytes must be an integer.")
	}
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupRead, error) {
		text, more, err := t.Read(rel, int(in.MaxBytes.within(1, readMost, readDefault)))
		if err != nil {
			return nil, failed("Read failed", err)
		}
		r := &CgroupRead{Path: t.Path(rel), Content: strings.ToValidUTF8(string(text), "\uFFFD"), BytesRead: len(text)}
		if more {
			r.Content += truncated
		}
		return r, nil
	})
}

// inTree resolves a path in the hierarchy, and does something there.
func inTree[R any](text looseText, name string, do func(*cgroup.Tree, string) (*R, error)) (*R, error) {
	if err := text.check(name); err != nil {
		return nil, err
	}
	t, err := cgroup.OpenTree()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	rel, err := t.Resolve(text.text)
	if err != nil {
		return nil, err
	}
	return do(t, rel)
}

// CgroupWriteInput asks for a write.
type CgroupWriteInput struct {
	Path    looseText `json:"path" arg:"FILE" help:"the file"`
	Content looseText `json:"content" arg:"TEXT" help:"what to write"`
}

// CgroupWritten says what was written.
type CgroupWritten struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes_written"`
}

// Desc describes the operation cgroup_write_file.
func (CgroupWriteInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_write_file", CLI: []string{"cgroup", "write"},
		Summary: "Write to a file of a control group",
		Doc: `Write to an interface file of a control group, in one system call. Nothing is
created. One process id written to cgroup.procs moves that process, under the rules
for moving.

` + cgroupDoc,
		Examples: `  paddock cgroup write build/cgroup.subtree_control '+memory +pids'
  paddock cgroup write build/job/memory.max 512M`,
		Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

// Render writes nothing: the exit status says it all.
func (*CgroupWritten) Render(io.Writer) error { return nil }

// Do runs the operation.
func (in CgroupWriteInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupWritten, error) {
	if err := in.Content.check("content"); err != nil {
		return nil, err
	}
	if !in.Content.set {
		return nil, sentence("content must be a string.")
	}
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupWritten, error) {
		if err := t.Write(rel, in.Content.text); err != nil {
			return nil, failed("Write failed", err)
		}
		return &CgroupWritten{t.Path(rel), len(in.Content.text)}, nil
	})
}

// CgroupMkdirInput asks for a group.
type CgroupMkdirInput struct {
	Path    looseText `json:"path" arg:"GROUP" help:"the group"`
	Parents *bool     `json:"parents" flag:"parents" help:"make the groups above it too (default true)"`
}

// CgroupPath is a group.
type CgroupPath struct {
	Path string `json:"path"`
}

// Desc describes the operation cgroup_mkdir.
func (CgroupMkdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_mkdir", CLI: []string{"cgroup", "mkdir"},
		Summary:  "Make a control group",
		Doc:      "Make a control group. One that exists is as good. Its whole path is printed.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup mkdir build/job`,
		Hints:    op.Hints{Idempotent: true},
	}
}

// Render writes the output for people.
func (r *CgroupPath) Render(w io.Writer) error {
	_, err := io.WriteString(w, r.Path+"\n")
	return err
}

// Do runs the operation.
func (in CgroupMkdirInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupPath, error) {
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupPath, error) {
		if err := t.Mkdir(rel, in.Parents == nil || *in.Parents); err != nil {
			return nil, failed("mkdir failed", err)
		}
		return &CgroupPath{t.Path(rel)}, nil
	})
}

// CgroupRemoved is the group that is gone.
type CgroupRemoved struct {
	Path string `json:"path"`
}

// CgroupRmdirInput asks for the end of a group.
type CgroupRmdirInput struct {
	Path looseText `json:"path" arg:"GROUP" help:"the group"`
}

// Desc describes the operation cgroup_rmdir.
func (CgroupRmdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_rmdir", CLI: []string{"cgroup", "rmdir"},
		Summary:  "Remove a control group",
		Doc:      "Remove a control group in which there is no process and no other group.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup rmdir build/job`,
		Hints:    op.Hints{Destructive: true},
	}
}

// Do runs the operation.
func (in CgroupRmdirInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupRemoved, error) {
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupRemoved, error) {
		if err := t.Rmdir(rel); err != nil {
			return nil, failed("rmdir failed (directory must be empty)", err)
		}
		return &CgroupRemoved{t.Path(rel)}, nil
	})
}

// Render writes nothing: the exit status says it all.
func (*CgroupRemoved) Render(io.Writer) error { return nil }

// CgroupMoveInput asks for a process to be moved.
type CgroupMoveInput struct {
	Path looseText `json:"cgroup_path" arg:"GROUP" help:"the group"`
	PID  looseInt  `json:"pid" arg:"PID" help:"the process"`
}

// CgroupMoved is a process in its group.
type CgroupMoved struct {
	Path string `json:"cgroup_path"`
	PID  int64  `json:"pid"`
}

// Desc describes the operation cgroup_move_pid.
func (CgroupMoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_move_pid", CLI: []string{"cgroup", "move"},
		Summary:  "Move a process into a control group",
		Doc:      "Move a process, with all its threads, into a control group.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup move build/job 4711`,
		Hints:    op.Hints{Destructive: true, Idempotent: true},
	}
}

// Render writes nothing: the exit status says it all.
func (*CgroupMoved) Render(io.Writer) error { return nil }

// Do runs the operation.
func (in CgroupMoveInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupMoved, error) {
	return inTree(in.Path, "cgroup_path", func(t *cgroup.Tree, rel string) (*CgroupMoved, error) {
		if !t.IsGroup(rel) {
			return nil, sentence("cgroup_path must be an existing cgroup directory.")
		}
		if in.PID.wrong || in.PID.n < 1 || in.PID.n > maxPID {
			return nil, sentence("pid must be a positive integer.")
		}
		if err := t.Move(rel, int(in.PID.n)); err != nil {
			return nil, failed("Could not write PID to cgroup.procs", err)
		}
		return &CgroupMoved{t.Path(rel), in.PID.n}, nil
	})
}

// maxPID is more than any kernel numbers.
const maxPID = 1<<31 - 1
