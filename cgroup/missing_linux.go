package cgroup

import (
	"os"
	"slices"
	"strings"
)

// missing says why a controller cannot be had.
func (s *surveyed) missing(name string) Missing {
	m := Missing{Controller: name}
	text, _ := os.ReadFile("/proc/cgroups") // newer kernels may not have it: then nothing is known of version 1
	known, v1, enabled := controllerState(string(text), name)
	top, atTop := s.top()
	switch {
	case known && v1:
		m.Why = "it is bound to a cgroup v1 hierarchy"
		m.Remedy = "start the kernel with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=" + v1Name(name)
	case known && !enabled:
		m.Why = "it is disabled on the kernel's command line"
		m.Remedy = "take cgroup_disable=" + v1Name(name) + " from the kernel's command line; where that is a default, add cgroup_enable=" + v1Name(name)
	case atTop && !slices.Contains(top, name):
		m.Why = "this kernel does not offer it"
		m.Remedy = "use a kernel with " + kernelOption[name]
	case slices.Contains(s.available, name), s.base == nil && slices.Contains(top, name):
		m.Why = "there is no group here that may hand it on"
		m.Remedy = DelegationHint
	default:
		m.Why = "the groups above do not hand it on"
		m.Remedy = administratorHint
	}
	return m
}

// top are the controllers of the whole hierarchy, where the mount shows its root.
func (s *surveyed) top() ([]string, bool) {
	if s.mount == "" || !isTop(s.mount) {
		return nil, false
	}
	g, err := Open(s.mount)
	if err != nil {
		return nil, false
	}
	defer g.Close()
	have, err := g.Controllers()
	return have, err == nil
}

var kernelOption = map[string]string{
	"memory": "CONFIG_MEMCG", "cpu": "CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH", "pids": "CONFIG_CGROUP_PIDS", "io": "CONFIG_BLK_CGROUP",
}

// v1Name is what version 1 and the kernel's command line call a controller.
func v1Name(name string) string {
	if name == "io" {
		return "blkio"
	}
	return name
}

// controllerState finds a controller in the text of /proc/cgroups (cgroups(7)):
// its name, the hierarchy of version 1 that it is bound to or 0, the number of groups, and
// whether it is enabled.
func controllerState(text, name string) (known, v1, enabled bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == v1Name(name) {
			return true, f[1] != "0", f[3] == "1"
		}
	}
	return false, false, false
}
