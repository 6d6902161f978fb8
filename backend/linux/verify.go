//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// The host side reads from the kernel whether the walls are in place, before it sends the
// first request. The agent is trusted until commands run, so this guards against mistakes
// that neither side has noticed. It also means that the reported isolation was observed, not
// assumed.

// check is one check of a process.
type check struct {
	what string
	look func(int, *confine.Plan) error
}

// verifyClone checks what cannot change after the agent was cloned, and can
// therefore be checked while the agent is still busy.
func verifyClone(pid int, p *confine.Plan) error {
	if len(p.Namespaces) == 0 {
		return nil
	}
	return lookAt(pid, p, check{"namespaces", verifyNamespaces}, check{"ids", verifyMaps})
}

// seenMounts is the result of examining an agent's mounts.
type seenMounts struct {
	below  []string // places inside that are read-only only because the host has mounted something there
	copies []string // files that commands have a copy of
	layer  string   // how the overlay of the workspace was mounted: its marks, as the kernel has them
}

// lookAt makes the checks at the same time and returns the error of the first that fails.
func lookAt(pid int, p *confine.Plan, checks ...check) error {
	errs := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() { errs[i] = c.look(pid, p) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return backend.Failed("verify", "look at", checks[i].what, err, "this should never happen; please report it with the output of paddock plan and paddock doctor")
		}
	}
	return nil
}

func verifyNamespaces(pid int, p *confine.Plan) error {
	own, err := state.OwnNamespaces(pid)
	if err != nil {
		return err
	}
	for _, ns := range p.Namespaces {
		if !slices.Contains(own, string(ns)) {
			return fmt.Errorf("the %s namespace is the host's", ns)
		}
	}
	return nil
}

func verifyMaps(pid int, p *confine.Plan) error {
	for file, want := range map[string][]confine.IDMap{"uid_map": p.UIDs, "gid_map": p.GIDs} {
		text, err := state.ReadProc(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return err
		}
		var lines []string
		for _, m := range want {
			lines = append(lines, fmt.Sprintf("%d %d %d", m.Inside, m.Host, m.Count))
		}
		if got := strings.Join(strings.Fields(string(text)), " "); got != strings.Join(lines, " ") {
			return fmt.Errorf("%s is %q", file, got)
		}
	}
	return nil
}

// verifyThreads checks that no thread of the agent has more rights than the plan says,
// and that one of them, the spawner, is confined as commands are to be: it has all
// filters of the plan, and no capability can come back.
func verifyThreads(pid int, p *confine.Plan) error {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours, err := state.ReadStatus("/proc/thread-self/status")
	if err != nil {
		return err
	}
	inherited, err := strconv.Atoi(ours["Seccomp_filters"])
	if err != nil {
		return errors.New("the kernel does not count seccomp filters")
	}
	filters, spawner := inherited, false
	for _, s := range p.Spawn {
		if s.Do == confine.OpSeccomp || s.Do == confine.OpShield {
			filters++
		}
	}
	for _, task := range tasks {
		status, err := state.ReadStatus(path.Join(dir, task.Name(), "status"))
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that has ended
		}
		if err != nil {
			return err
		}
		if err := checkThread(status, p); err != nil {
			return fmt.Errorf("thread %s: %w", task.Name(), err)
		}
		if status["Seccomp_filters"] == strconv.Itoa(filters) && (zero(status["CapBnd"]) || len(p.Namespaces) == 0) {
			spawner = true
		}
	}
	if !spawner {
		return errors.New("no thread is confined as commands are to be")
	}
	return nil
}

// verifyLinks checks that a network namespace of the sandbox's own has loopback and, with
// rules, the link to the gateway, and no other interface.
func verifyLinks(pid int, p *confine.Plan) error {
	if !slices.Contains(p.Namespaces, confine.NSNet) {
		return nil
	}
	text, err := state.ReadProc(fmt.Sprintf("/proc/%d/net/dev", pid))
	if err != nil {
		return err
	}
	want := []string{"lo"}
	if policy.ByName(p.Holds.Network) {
		want = append(want, confine.SandboxLink)
	}
	var links []string
	for line := range strings.Lines(string(text)) { // two of headings, without a colon in the first column
		if name, _, found := strings.Cut(line, ":"); found {
			links = append(links, strings.TrimSpace(name))
		}
	}
	// Modules that are loaded put tunnels that carry nothing into each new namespace, down.
	links = slices.DeleteFunc(links, func(name string) bool { return slices.Contains(fallbackTunnels, name) })
	if slices.Sort(links); !slices.Equal(links, want) {
		return fmt.Errorf("its network namespace has the interfaces %s", strings.Join(links, ", "))
	}
	return nil
}

// fallbackTunnels are the interfaces that the kernel makes in new network namespaces
// (net.core.fb_tunnels_only_for_init_net, ip(8)).
var fallbackTunnels = []string{"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0", "teql0"}

// checkThread checks one thread of the agent, by its status.
func checkThread(status map[string]string, p *confine.Plan) error {
	uid := strconv.FormatUint(uint64(p.Holds.UIDHost), 10)
	for _, id := range strings.Fields(status["Uid"]) {
		if id != uid {
			return fmt.Errorf("uid %s", id)
		}
	}
	switch {
	case status["NoNewPrivs"] != "1":
		return errors.New("no_new_privs is not set")
	case status["Seccomp"] != "2":
		return errors.New("there is no seccomp filter")
	case !zero(status["CapInh"]) || !zero(status["CapAmb"]):
		return errors.New("capabilities would be inherited")
	case p.Holds.Identity != mapped && p.Holds.Identity != caller && status["Groups"] != "":
		return fmt.Errorf("supplementary groups %s", status["Groups"])
	}
	var kept uint64
	if i := slices.IndexFunc(p.Setup, func(s confine.Step) bool { return s.Do == confine.OpCaps }); i >= 0 {
		for _, name := range p.Setup[i].Caps {
			n, _ := confine.CapNumber(name)
			kept |= 1 << n
		}
	}
	have, err := strconv.ParseUint(status["CapPrm"], 16, 64)
	if err != nil || have&^kept != 0 {
		return fmt.Errorf("capabilities %s", status["CapPrm"])
	}
	return nil
}

func zero(hex string) bool { return hex != "" && strings.Trim(hex, "0") == "" }

// verifyMounts compares the mounts that the agent has with the plan's: there must be
// none more, none less, and none weaker. Mounts below a bound path were bound with it.
func verifyMounts(pid int, p *confine.Plan) (seenMounts, error) {
	text, err := state.ReadProc(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return seenMounts{}, err
	}
	seen, err := checkMounts(string(text), mountPoints(p))
	if err == nil && seen.layer != p.Holds.Layer {
		err = fmt.Errorf("the overlay of the workspace has marks %q, not %q", seen.layer, p.Holds.Layer)
	}
	return seen, err
}

// mountPoints returns every place where the plan mounts something, with the step that
// says how it is in the end.
func mountPoints(p *confine.Plan) map[string]confine.Step {
	at := map[string]confine.Step{}
	for _, s := range p.Setup {
		switch s.Do {
		case confine.OpBind, confine.OpSelf, confine.OpOwnCopy, confine.OpOverlay, confine.OpLayer, confine.OpTmpfs, confine.OpDevpts, confine.OpProc:
			at[path.Clean(s.Target)] = s
		case confine.OpReadOnly:
			made := at[path.Clean(s.Target)]
			made.Flags = append(slices.Clone(made.Flags), confine.FlagReadOnly)
			at[path.Clean(s.Target)] = made
		}
	}
	return at
}

// checkMounts compares a mountinfo file with the mounts that there should be.
func checkMounts(mountinfo string, want map[string]confine.Step) (found seenMounts, err error) {
	type mountAt struct{ id, point string }
	covered := map[mountAt]bool{} // by another mount at the same point
	var lines [][]string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): 1 and 2 are its number and its parent's, 5 is the mount point, 6 its options
		if len(f) < 6 {
			return found, fmt.Errorf("unreadable mount %q", line)
		}
		covered[mountAt{f[1], f[4]}] = true
		lines = append(lines, f)
	}
	seen := map[string]bool{}
	for _, f := range lines {
		at, options := hostpath.Unescape(f[4]), strings.Split(f[5], ",")
		if covered[mountAt{f[0], f[4]}] {
			continue
		}
		step, ok := planned(want, at)
		if !ok {
			return found, fmt.Errorf("%s is mounted, and the plan does not say so", at)
		}
		for _, flag := range step.Flags {
			if mountOption[flag] && !slices.Contains(options, flag) {
				return found, fmt.Errorf("%s is not %s", at, flag)
			}
		}
		if kind := slices.Index(f, "-") + 1; step.Do == confine.OpOverlay && f[min(kind, len(f)-1)] != "overlay" {
			return found, fmt.Errorf("%s is not an overlay", at)
		}
		if step.Do == confine.OpLayer && at == path.Clean(step.Target) {
			if found.layer, err = layerMarks(f); err != nil {
				return found, fmt.Errorf("%s: %w", at, err)
			}
		}
		if step.Do == confine.OpOwnCopy && strings.TrimSuffix(hostpath.Unescape(f[3]), "//deleted") == strings.TrimPrefix(step.Source, copiesDir)+confine.OwnCopyLink {
			found.copies = append(found.copies, at)
		}
		if tree := cameWith(want, at); slices.Contains(tree.Flags, confine.FlagBelowRO) && !seen[at] {
			if !slices.Contains(options, confine.FlagReadOnly) {
				return found, fmt.Errorf("%s, which the host has mounted below what was named, is not read-only", at)
			}
			if !slices.Contains(tree.Flags, confine.FlagReadOnly) {
				found.below = append(found.below, at)
			}
		}
		seen[at] = true
	}
	for at := range want {
		if !seen[at] {
			return found, fmt.Errorf("%s is not mounted", at)
		}
	}
	return found, nil
}

var mountOption = map[string]bool{
	confine.FlagReadOnly: true, confine.FlagNoSuid: true, confine.FlagNoDev: true, confine.FlagNoExec: true,
}

// planned returns the step that made a mount.
func planned(want map[string]confine.Step, at string) (confine.Step, bool) {
	if s, ok := want[at]; ok {
		return s, true
	}
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		if s, ok := want[dir]; ok && (s.Do == confine.OpBind || s.Do == confine.OpSelf) {
			return s, true
		}
	}
	return confine.Step{}, false
}

// cameWith returns the plan's bind that brought a mount along, or no step if the plan
// made the mount itself.
func cameWith(want map[string]confine.Step, at string) confine.Step {
	if _, ok := want[at]; ok {
		return confine.Step{}
	}
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		if s, ok := want[dir]; ok && s.Do != confine.OpSelf {
			return s
		}
	}
	return confine.Step{}
}
