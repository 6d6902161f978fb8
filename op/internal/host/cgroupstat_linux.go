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

// CgroupStatInput asks what a group uses.
type CgroupStatInput struct {
	Path looseText `json:"path" arg:"GROUP" help:"the group; . is the root"`
}

// CgroupStat is what a group may use, and does. What its controllers do not
// count is absent.
type CgroupStat struct {
	Path        string        `json:"path"`
	Controllers []string      `json:"controllers"`
	Processes   int           `json:"processes"` // in the group itself
	Groups      int           `json:"groups"`    // directly inside of it
	Populated   bool          `json:"populated"` // by a process, also of a group inside of it
	Frozen      bool          `json:"frozen"`
	Limits      cgroup.Limits `json:"limits"`
	Stats       cgroup.Stats  `json:"stats"`
}

// Desc describes the operation cgroup_stat.
func (CgroupStatInput) Desc() op.Desc {
	return op.Desc{
		Name: "cgroup_stat", CLI: []string{"cgroup", "stat"},
		Summary:  "Say what a control group may use, and does",
		Doc:      "Say which limits a control group has, what its processes use and have used, and what has happened to them.\n\n" + cgroupDoc,
		Examples: `  paddock cgroup stat build/job`,
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do runs the operation.
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

// Render prints a line for each thing that is known.
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

// flat prints the members of an object, and of those in it, by their JSON names.
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
