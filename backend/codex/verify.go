//go:build linux

package codex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/policy"
)

// verify reads from the kernel what the CLI has made of the running agent. The
// attempts have shown that the wall holds; here it must be seen around this
// process.
func (w *wall) verify(_ context.Context, r piped.Running) (policy.Isolation, error) {
	i := w.promised()
	pid, err := findAgent(r.Keeper, w.req.Agent)
	if err != nil {
		return i, unseen("find", err)
	}
	status, err := state.ReadStatus(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return i, unseen("look at", err)
	}
	if status["NoNewPrivs"] != "1" || i.Network != networkHost && status["Seccomp"] != "2" {
		return i, unseen("look at", errors.New("the CLI has not set both no_new_privs and a filter of system calls"))
	}
	if i.Namespaces, err = namespaces(pid); err != nil {
		return i, unseen("look at", err)
	}
	if strings.Trim(status["CapEff"], "0") != "" && !slices.Contains(i.Namespaces, "user") {
		return i, &backend.StartError{Stage: "verify", Op: "look at", Object: "capabilities", Cause: "commands would have those of root on the host",
			Hint: "run Paddock as an ordinary user, or use a version of the codex CLI that makes namespaces"}
	}
	if slices.Contains(i.Namespaces, "mount") {
		if err := w.verifyMounts(pid); err != nil {
			return i, unseen("look at", err)
		}
	} else {
		i.Landlock = "files, by the CLI"
		i.Lost = append(i.Lost, "Commands see the host's processes, and signal those of the caller.", "They have no terminals.")
	}
	i.Verified = true
	return i, nil
}

func unseen(op string, err error) error {
	return &backend.StartError{Stage: "verify", Op: op, Object: "the walls of codex", Cause: err.Error(),
		Hint: "try another version of the codex CLI, or use backend linux"}
}

// findAgent returns the host's pid of the agent among the descendants of the
// keeper. No command runs yet, so nothing else can bear its name.
func findAgent(keeper int, agent string) (int, error) {
	parents, names := map[int]int{}, map[int]string{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, name, parent, ok := readStat(string(text))
		if ok {
			parents[pid], names[pid] = parent, name
		}
	}
	// comm is cut at 15 bytes.
	want := filepath.Base(agent)
	want = want[:min(len(want), 15)]
	for pid, name := range names {
		if name == want && pid != keeper && descends(parents, pid, keeper) {
			return pid, nil
		}
	}
	return 0, errors.New("its process is not there")
}

func descends(parents map[int]int, pid, from int) bool {
	for range len(parents) {
		if pid = parents[pid]; pid == from || pid <= 1 {
			break
		}
	}
	return pid == from
}

// readStat takes a line of /proc/PID/stat apart: PID (NAME) STATE PARENT …
func readStat(line string) (pid int, name string, parent int, ok bool) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return 0, "", 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	rest := strings.Fields(line[end+1:])
	if err != nil || len(rest) < 2 {
		return 0, "", 0, false
	}
	parent, err = strconv.Atoi(rest[1])
	return pid, line[open+1 : end], parent, err == nil
}

// namespaces returns the kinds that a process does not share with this one.
func namespaces(pid int) ([]string, error) {
	var own []string
	for _, ns := range []struct{ name, file string }{{"user", "user"}, {"mount", "mnt"}, {"pid", "pid"}, {"ipc", "ipc"}, {"uts", "uts"}, {"net", "net"}, {"cgroup", "cgroup"}} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.file))
		if err != nil {
			return nil, err
		}
		ours, err := os.Readlink("/proc/self/ns/" + ns.file)
		if err != nil {
			return nil, err
		}
		if theirs != ours {
			own = append(own, ns.name)
		}
	}
	return own, nil
}

// verifyMounts looks for writable mounts of the host beside those that are to
// be. What overrides open is theirs to open.
func (w *wall) verifyMounts(pid int) error {
	if w.custom {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	allowed := append(w.writable(), "/dev", "/proc")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): 5 is the mount point, 6 its options
		if len(f) < 6 {
			return fmt.Errorf("unreadable mount %q", line)
		}
		at := hostpath.Unescape(f[4])
		if !slices.Contains(strings.Split(f[5], ","), "rw") {
			continue
		}
		if !slices.ContainsFunc(allowed, func(dir string) bool { _, in := hostpath.Within(at, dir); return in }) {
			return fmt.Errorf("%s is mounted writable", at)
		}
	}
	return nil
}
