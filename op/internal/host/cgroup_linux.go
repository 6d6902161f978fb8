package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/op"
)

// Bounds on how much is read, in bytes.
const (
	readDefault = 256 << 10
	readMost    = 512 << 10
)

// truncated is the contract's mark at the end of a text that was cut.
const truncated = "\n... [truncated]"

// cgroupDoc is in the manual of every operation on control groups.
const cgroupDoc = `A path is absolute, or relative to the mount of the cgroup v2 hierarchy. If that is
not /sys/fs/cgroup, as on hosts that also have version 1, a path below /sys/fs/cgroup
that does not exist there is taken as one below the mount; the answer has the whole
path. Links are never followed beyond the mount.

This reaches the host, outside every sandbox, and needs the privilege
UNSANDBOXED_EXEC. The root of the hierarchy, the groups of Paddock and its ancestors,
and the groups above them are guarded: nothing is written there, and process 1,
Paddock and its ancestors are not moved.`

type CgroupReadInput struct {
	Path     looseText `json:"path" arg:"FILE" help:"the file"`
	MaxBytes looseInt  `json:"max_bytes" flag:"max-bytes" arg:"N" help:"how much to read at most, in bytes (default 262144, at most 524288)"`
}

// CgroupRead is the result of cgroup_read_file.
type CgroupRead struct {
	Path      string `json:"path"`
	Content   string `json:"content"`    // with a mark if there is more
	BytesRead int    `json:"bytes_read"` // without the mark
}

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

// Render writes the content.
func (r *CgroupRead) Render(w io.Writer) error {
	_, err := io.WriteString(w, r.Content)
	return err
}

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

// inTree opens the hierarchy, resolves a path in it, and calls do.
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

type CgroupWriteInput struct {
	Path    looseText `json:"path" arg:"FILE" help:"the file"`
	Content looseText `json:"content" arg:"TEXT" help:"what to write"`
}

// CgroupWritten is the result of cgroup_write_file.
type CgroupWritten struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes_written"`
}

func (CgroupWriteInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_write_file", CLI: []string{"cgroup", "write"},
		Summary: "Write to a file of a control group",
		Doc: `Write to an interface file of a control group, in one system call. No file is
created. Writing a process id to cgroup.procs moves that process, with the same
restrictions as cgroup_move_pid.

` + cgroupDoc,
		Examples: `  paddock cgroup write build/cgroup.subtree_control '+memory +pids'
  paddock cgroup write build/job/memory.max 512M`,
		Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

// Render writes nothing; the exit status is enough.
func (*CgroupWritten) Render(io.Writer) error { return nil }

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

type CgroupMkdirInput struct {
	Path    looseText `json:"path" arg:"GROUP" help:"the group"`
	Parents *bool     `json:"parents" flag:"parents" help:"also make missing groups above it (default true)"`
}

// CgroupPath is the result of cgroup_mkdir.
type CgroupPath struct {
	Path string `json:"path"`
}

func (CgroupMkdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_mkdir", CLI: []string{"cgroup", "mkdir"},
		Summary:  "Make a control group",
		Doc:      "Make a control group. It may exist already. Its whole path is printed.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup mkdir build/job`,
		Hints:    op.Hints{Idempotent: true},
	}
}

// Render writes the path.
func (r *CgroupPath) Render(w io.Writer) error {
	_, err := io.WriteString(w, r.Path+"\n")
	return err
}

func (in CgroupMkdirInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupPath, error) {
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupPath, error) {
		if err := t.Mkdir(rel, in.Parents == nil || *in.Parents); err != nil {
			return nil, failed("mkdir failed", err)
		}
		return &CgroupPath{t.Path(rel)}, nil
	})
}

// CgroupRemoved is the result of cgroup_rmdir.
type CgroupRemoved struct {
	Path string `json:"path"`
}

type CgroupRmdirInput struct {
	Path looseText `json:"path" arg:"GROUP" help:"the group"`
}

func (CgroupRmdirInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_rmdir", CLI: []string{"cgroup", "rmdir"},
		Summary:  "Remove a control group",
		Doc:      "Remove a control group that has no processes and no groups in it.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup rmdir build/job`,
		Hints:    op.Hints{Destructive: true},
	}
}

func (in CgroupRmdirInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupRemoved, error) {
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupRemoved, error) {
		if err := t.Rmdir(rel); err != nil {
			return nil, failed("rmdir failed (directory must be empty)", err)
		}
		return &CgroupRemoved{t.Path(rel)}, nil
	})
}

// Render writes nothing; the exit status is enough.
func (*CgroupRemoved) Render(io.Writer) error { return nil }

type CgroupMoveInput struct {
	Path looseText `json:"cgroup_path" arg:"GROUP" help:"the group"`
	PID  looseInt  `json:"pid" arg:"PID" help:"the process"`
}

// CgroupMoved is the result of cgroup_move_pid.
type CgroupMoved struct {
	Path string `json:"cgroup_path"`
	PID  int64  `json:"pid"`
}

func (CgroupMoveInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_move_pid", CLI: []string{"cgroup", "move"},
		Summary:  "Move a process into a control group",
		Doc:      "Move a process, with all its threads, into a control group.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup move build/job 4711`,
		Hints:    op.Hints{Destructive: true, Idempotent: true},
	}
}

// Render writes nothing; the exit status is enough.
func (*CgroupMoved) Render(io.Writer) error { return nil }

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

// maxPID is greater than any process id.
const maxPID = 1<<31 - 1

type CgroupStatInput struct {
	Path looseText `json:"path" arg:"GROUP" help:"the group; . is the root"`
}

// CgroupStat is the result of cgroup_stat: a group's limits and usage. What its controllers
// do not count is absent.
type CgroupStat struct {
	Path        string        `json:"path"`
	Controllers []string      `json:"controllers"`
	Processes   int           `json:"processes"` // in the group itself
	Groups      int           `json:"groups"`    // directly inside of it
	Populated   bool          `json:"populated"` // whether it or a group inside of it has processes
	Frozen      bool          `json:"frozen"`
	Limits      cgroup.Limits `json:"limits"`
	Stats       cgroup.Stats  `json:"stats"`
}

func (CgroupStatInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_stat", CLI: []string{"cgroup", "stat"},
		Summary:  "Print the limits and the usage of a control group",
		Doc:      "Print the limits of a control group, what its processes use and have used, and events such as kills by the out-of-memory killer.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup stat build/job`,
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do reads the group's files.
func (in CgroupStatInput) Do(_ context.Context, _ *op.Env, _ *op.Stream) (*CgroupStat, error) {
	return inTree(in.Path, "path", func(t *cgroup.Tree, rel string) (*CgroupStat, error) {
		g, err := t.Group(rel)
		if err != nil {
			return nil, failed("Read failed", err)
		}
		defer g.Close()
		s := &CgroupStat{Path: t.Path(rel), Groups: len(g.Children())}
		pids, err := g.Procs()
		if errors.Is(err, syscall.EOPNOTSUPP) {
			err = nil // only its threads can be listed
		}
		s.Processes = len(pids)
		errs := []error{err}
		keep := func(err error) { errs = append(errs, err) }
		s.Controllers, err = g.Controllers()
		keep(err)
		if rel != "." { // the root has no events
			s.Populated, err = g.Populated()
			keep(err)
			s.Frozen, err = g.Frozen()
			keep(err)
		} else {
			s.Populated = true
		}
		s.Limits, err = g.Limits()
		keep(err)
		s.Stats, err = g.Stats()
		keep(err)
		i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
		if i >= 0 {
			return nil, failed("Read failed", errs[i])
		}
		return s, nil
	})
}

// Render writes a line for each value.
func (s *CgroupStat) Render(w io.Writer) error {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-12s %v\n", name, value) }
	line("group", s.Path)
	line("controllers", strings.Join(s.Controllers, " "))
	line("processes", s.Processes)
	line("groups", s.Groups)
	line("populated", s.Populated)
	line("frozen", s.Frozen)
	for _, part := range []struct {
		name  string
		value any
	}{{"limit", s.Limits}, {"usage", s.Stats}} {
		if err := flat(part.name, part.value, line); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flat calls line for each member of a value, with its path of JSON names.
func flat(name string, value any, line func(string, any)) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var members map[string]any
	if err := dec.Decode(&members); err != nil {
		return err
	}
	walk(name, members, line)
	return nil
}

func walk(name string, value any, line func(string, any)) {
	members, ok := value.(map[string]any)
	if !ok {
		line(name, value)
		return
	}
	keys := make([]string, 0, len(members))
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		walk(name+"."+key, members[key], line)
	}
}
