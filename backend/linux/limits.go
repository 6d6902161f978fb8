//go:build linux

package linux

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// hierarchy is where a sandbox's control groups can be made.
type hierarchy struct {
	place cgroup.Delegate // without Controllers if there is no such place
	why   error           // why no place was found
}

// findHierarchy finds a place where groups with controllers can be made, and prepares it.
func findHierarchy() hierarchy {
	place, err := cgroup.FindDelegate()
	return hierarchy{place, err}
}

// lookForHierarchy returns what findHierarchy would find, and changes nothing.
func lookForHierarchy() hierarchy {
	place, err := cgroup.ProbeDelegate()
	return hierarchy{place, err}
}

func (h hierarchy) has(controller string) bool {
	return slices.Contains(h.place.Controllers, controller)
}

// limits puts the limits of the spec into the plan, and decides which mechanism enforces
// each. A limit that the user set and that cannot be enforced is an error, unless the
// spec allows that by name. A default that cannot be enforced as meant is enforced as
// well as possible.
func (b *builder) limits(l policy.Limits) error {
	if err := b.hostHas(l); err != nil {
		return err
	}
	kept := map[string]string{"tmp": "tmpfs size=" + l.Tmp.String()}
	b.plan.Holds.Limits = kept
	b.plan.Rlimits = confine.Rlimits{
		CPUSeconds: uint64((time.Duration(l.CPUTime) + time.Second - 1) / time.Second),
		FileSize:   uint64(l.FileSize), OpenFiles: l.OpenFiles,
	}
	each := func(name, rlimit string, value uint64) {
		if value > 0 {
			kept[name] = rlimit + "=" + strconv.FormatUint(value, 10) + ", of each process"
		}
	}
	each("cpu_time", "RLIMIT_CPU", b.plan.Rlimits.CPUSeconds)
	if l.CPUTime > 0 {
		kept["cpu_time"] += ", with SIGXCPU a second before its end"
	}
	each("file_size", "RLIMIT_FSIZE", b.plan.Rlimits.FileSize)
	each("open_files", "RLIMIT_NOFILE", b.plan.Rlimits.OpenFiles)
	switch {
	case b.spec.Workspace.Mode == policy.ModeCopy:
		kept["disk"] = "tmpfs size=" + l.Disk.String()
	case l.Disk > 0 && b.spec.Workspace.Access != "ro":
		b.degrade(policy.DegradeDisk)
	}
	if b.plan.Scratch != "" {
		delete(kept, "tmp") // the landlock level does not promise it
	}
	if err := b.limitProcesses(l, kept); err != nil {
		return err
	}
	if err := b.limitMemory(l, kept); err != nil {
		return err
	}
	if l.CPUs > 0 {
		if !b.groups.has("cpu") {
			return b.unkept("cpus", policy.DegradeCPUs, l.CPUs.String(), "cpu")
		}
		b.plan.GroupLimits.MilliCPUs = int64(l.CPUs)
		kept["cpus"] = "cpu.max=" + l.CPUs.String()
	}
	return nil
}

// hostHas refuses limits above what this host has, because they would limit nothing.
// If the spec allows a weaker limit, it allows this too.
func (b *builder) hostHas(l policy.Limits) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return backend.Failed("plan", "sysinfo", "", err, "")
	}
	if total := policy.Size(info.Totalram * uint64(info.Unit)); l.Memory > total && !b.spec.Allows(policy.DegradeMemory) {
		return &policy.FieldError{Field: "limits.memory", Value: l.Memory.String(), Reason: "this host has " + strconv.FormatInt(int64(total/policy.MiB), 10) + "MiB", Hint: "ask for less, or leave it out"}
	}
	if most := policy.CPUs(runtime.NumCPU()) * 1000; l.CPUs > most {
		return &policy.FieldError{Field: "limits.cpus", Value: l.CPUs.String(), Reason: "this process may use " + most.String(), Hint: "ask for less, or leave it out"}
	}
	return nil
}

// agentThreads is how many threads a limit on the user's processes leaves for the agent,
// which counts too. It has seven or eight, and more while it serves many requests, so commands
// usually get a few processes above the limit. The result gives the range.
const agentThreads = 10

// limitProcesses limits processes and threads, of the sandbox if there is a pids
// controller, else of the user. The kernel does not count processes of the host's uid 0.
func (b *builder) limitProcesses(l policy.Limits, kept map[string]string) error {
	number := strconv.FormatUint(l.Processes, 10)
	bare := len(b.plan.Namespaces) == 0
	if bare && !b.groups.has("pids") && l.Processes < policy.DefaultProcesses && b.spec.Allows(policy.DegradeProcesses) {
		b.degrade(policy.DegradeProcesses)
		l.Processes = policy.DefaultProcesses
		number = strconv.FormatUint(l.Processes, 10)
	}
	switch {
	case b.groups.has("pids"):
		b.plan.GroupLimits.Pids = l.Processes
		kept["processes"] = "pids.max=" + number
		return nil
	case bare && b.plan.Holds.UIDHost == 0 && l.Processes != policy.DefaultProcesses:
		return backend.Failed("plan", "limit processes to", number, errors.New("the kernel does not count processes of uid 0, and there is no control group with the pids controller"),
			"use a workspace that an ordinary user owns, or level full")
	case bare && b.plan.Holds.UIDHost == 0:
		b.plan.Holds.Lost = append(b.plan.Holds.Lost, "the number of processes is not bounded: the kernel counts none of uid 0")
		return nil
	case bare:
		kept["processes"] = "RLIMIT_NPROC=" + number + ", of all that the user runs on the host"
	case l.Processes < policy.DefaultProcesses:
		l.Processes += agentThreads
		kept["processes"] = fmt.Sprintf("RLIMIT_NPROC=%d, of the sandbox's user: %s and up to %d more, since the agent's threads count too", l.Processes, number, agentThreads)
	default:
		kept["processes"] = "RLIMIT_NPROC=" + number + ", of the sandbox's user"
	}
	b.plan.Rlimits.Processes = l.Processes
	return nil
}

// limitMemory limits the commands' memory together, or, if the spec allows a weaker
// limit, the data of each process.
func (b *builder) limitMemory(l policy.Limits, kept map[string]string) error {
	if l.Memory == 0 && l.MemoryHigh == 0 {
		return nil
	}
	if !b.groups.has("memory") {
		if err := b.unkept("memory", policy.DegradeMemory, max(l.Memory, l.MemoryHigh).String(), "memory"); err != nil {
			return err
		}
		if l.Swap > 0 {
			if err := b.unkept("swap", policy.DegradeSwap, l.Swap.String(), "memory"); err != nil {
				return err
			}
		}
		b.plan.Rlimits.Data = uint64(max(l.Memory, l.MemoryHigh))
		if l.MemoryHigh > 0 && l.Memory > 0 {
			b.plan.Holds.Lost = append(b.plan.Holds.Lost, "nothing slows commands down at limits.memory_high")
		}
		kept["memory"] = "RLIMIT_DATA=" + max(l.Memory, l.MemoryHigh).String() + ", of each process, advisory"
		return nil
	}
	group := &b.plan.GroupLimits
	group.MemoryMax, group.MemoryHigh = int64(l.Memory), int64(l.MemoryHigh)
	var words []string
	if l.Memory > 0 {
		swap := int64(l.Swap)
		group.SwapMax = &swap
		words = append(words, "memory.max="+l.Memory.String(), "memory.swap.max="+l.Swap.String())
	}
	if l.MemoryHigh > 0 {
		words = append(words, "memory.high="+l.MemoryHigh.String())
	}
	kept["memory"] = strings.Join(words, " ")
	return nil
}

// unkept refuses a limit because its controller is missing or, if the spec allows
// that, records that the limit is degraded.
func (b *builder) unkept(limit, degradation, value, controller string) error {
	if b.spec.Allows(degradation) {
		b.degrade(degradation)
		return nil
	}
	// A reason that applies to all users comes before a reason that applies to this user.
	remedy, why := cgroupHint(b.groups.why), b.groups.why
	if f := probeController(lookForHierarchy(), controller); !f.OK && f.Remedy != "" {
		remedy, why = f.Remedy, errors.New(f.Detail)
	} else if why == nil {
		why = fmt.Errorf("%s has %s", b.groups.place.Dir, strings.Join(b.groups.place.Controllers, ", "))
	}
	hint := "allow it to be weaker: `allow_degraded`=" + degradation
	if remedy != "" {
		hint += "; or " + remedy
	}
	return backend.Failed("plan", "limit "+limit+" to", value, fmt.Errorf("no control group with the %s controller is available (%w)", controller, why), hint)
}

// useGroup adds the steps that put commands into control groups, if these have
// controllers.
func (b *builder) useGroup(dir string) {
	if len(b.groups.place.Controllers) == 0 {
		return
	}
	b.plan.Holds.Cgroup = strings.Join(b.groups.place.Controllers, " ")
	b.add(confine.Step{Do: confine.OpCgroup, Source: dir, Why: "each command has a control group, in one that bounds them all"})
	if len(b.plan.Namespaces) == 0 {
		return
	}
	b.add(confine.Step{Do: confine.OpCgroupNS, Why: "commands see their own groups alone"})
	b.add(confine.Step{Do: confine.OpBind, Source: dir, Target: "/sys/fs/cgroup", Flags: append([]string{confine.FlagNoExec}, roDir...),
		Why: "programs size themselves by their limits"})
}

// watch is a limit of the sandbox's user namespace on inotify. What processes in the
// namespace use also counts for the user who made it, so without this limit a sandbox
// could leave nothing for that user's other programs.
type watch struct {
	limit string // its name in /proc/sys/user
	host  string // the host's limit for each user, in /proc/sys
	most  int    // enough for language servers and tools that build on change
}

var watching = []watch{
	{"max_inotify_instances", "fs/inotify/max_user_instances", 64},
	{"max_inotify_watches", "fs/inotify/max_user_watches", 1 << 16},
}

// bound returns the limit: at most half of the host's limit for one user.
func (w watch) bound() int {
	text, err := state.ReadProc("/proc/sys/" + w.host)
	if err != nil {
		return w.most
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return w.most
	}
	return min(w.most, n/2)
}
