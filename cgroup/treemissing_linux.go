package cgroup

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// knownControllers are those of version 2; a file's name begins with one.
var knownControllers = []string{"cpu", "cpuset", "io", "memory", "hugetlb", "pids", "rdma", "misc", "dmem"}

// without says that a group lacks the file of a controller, and why.
func (g *Group) without(op, file, controller string) error {
	return &Error{Op: op, Object: path.Join(g.name, file),
		Err: fmt.Errorf("%w: %s", ErrNoController, controller), Hint: controllerHint(controller)}
}

// controllerHint says what to do about a controller that a group has not.
func controllerHint(controller string) string {
	text, _ := os.ReadFile("/proc/cgroups") // newer kernels may not have it
	known, v1, enabled := controllerState(string(text), controller)
	switch {
	case known && v1:
		return "it is bound to a cgroup v1 hierarchy: start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=" + v1Name(controller)
	case known && !enabled:
		return "it is disabled on the kernel's command line (cgroup_disable=" + v1Name(controller) + ")"
	}
	return "hand it on: write +" + controller + " to cgroup.subtree_control of the group above, and of those above that"
}

// lackingAny says which of the controllers that were to be handed on the group has not.
func (t *Tree) lackingAny(rel, text string) error {
	g, err := t.Group(path.Dir(rel))
	if err != nil {
		return err
	}
	defer g.Close()
	have, err := g.Controllers()
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(text) {
		if name, ok := strings.CutPrefix(word, "+"); ok && !slices.Contains(have, name) {
			return g.without("write to", path.Base(rel), name)
		}
	}
	return t.fail("write to", rel, unix.ENOENT)
}
