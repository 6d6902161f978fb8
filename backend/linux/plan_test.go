//go:build linux

package linux

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixedPlan is a plan from which everything is gone that hosts differ in:
// system directories, what of /etc is shown, and whether there are keys.
func fixedPlan(t *testing.T, change func(*policy.Spec, string), id identity, stored ...backend.Stored) string {
	t.Helper()
	root := t.TempDir()
	repository(t, filepath.Join(root, "ws"))
	testkit.Write(t, root+"/data/f", "", 0o644)
	testkit.Write(t, root+"/npm/_cacache/content-v2/x", "", 0o644)
	testkit.Write(t, root+"/ws/state/lock", "", 0o644)
	testkit.Write(t, root+"/ws/bin/paddock", "", 0o644)
	spec := policy.Spec{Workspace: policy.Workspace{Source: filepath.Join(root, "ws")}}
	change(&spec, root)
	spec, err := spec.Resolve(policy.Base{Dir: "/", Home: "/nonexistent"})
	if err != nil {
		t.Fatal(err)
	}
	req := backend.Request{Spec: spec}
	for _, s := range stored {
		s.Source = root + s.Source
		req.Stored = append(req.Stored, s)
	}
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	req.StateDir, req.Agent = root+"/ws/state", root+"/ws/bin/paddock"
	req.Guards = guards(t, req)
	b, err := newPlan(req, id, mounts, hierarchy{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(describe(b.plan), root, "$ROOT")
}

func describe(p *confine.Plan) string {
	var out strings.Builder
	fmt.Fprintf(&out, "namespaces %v\nuids %v gids %v\nfiles %v\n", p.Namespaces, p.UIDs, p.GIDs, p.Files)
	for stage, steps := range [][]confine.Step{p.Setup, p.Spawn} {
		fmt.Fprintf(&out, "%s\n", []string{"setup", "spawn"}[stage])
		for _, s := range steps {
			if ofHost(s) {
				continue
			}
			fmt.Fprintf(&out, "  %s", s.Do)
			for _, word := range []string{s.Source, s.Target, s.FD, strings.Join(s.Flags, ","), strings.Join(s.Caps, ","), strings.Join(s.Names, ",")} {
				if word != "" {
					fmt.Fprintf(&out, " %s", word)
				}
			}
			if s.Size > 0 {
				fmt.Fprintf(&out, " %d bytes", s.Size)
			}
			if s.Mode > 0 {
				fmt.Fprintf(&out, " mode %04o", s.Mode)
			}
			if s.Optional {
				out.WriteString(" optional")
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func ofHost(s confine.Step) bool {
	if _, ok := hostpath.Within(s.Target, "/proc"); ok && s.Target != "/proc" || s.Do == confine.OpLandlock || s.Do == confine.OpApart || strings.HasPrefix(s.Target, "user/max_inotify") {
		return true // it depends on the kernel
	}
	for _, dir := range append([]string{"/etc"}, systemDirs...) {
		if _, ok := hostpath.Within(s.Target, dir); ok && s.Do != confine.OpFile && s.Do != confine.OpTmpfs {
			return true
		}
	}
	return false
}

func TestPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*policy.Spec, string)
		id     identity
		stored []backend.Stored
	}{
		"ordinary": {func(*policy.Spec, string) {}, identity{kind: mapped, uid: 1234, gid: 1235}, nil},
		"root": {func(s *policy.Spec, root string) {
			s.Mounts = []policy.Mount{{Source: root + "/data", Target: "/mnt/data", Mode: "rw"}, {Source: root + "/data/f", Target: "/workspace/src/a"}}
		}, identity{kind: idmap, uid: state.LentFirst, gid: state.LentFirst}, nil},
		"read-only": {func(s *policy.Spec, _ string) { s.Workspace.Access, s.Limits.Tmp = "ro", 2*policy.MiB },
			identity{kind: mapped, uid: 1234, gid: 1234}, nil},
		"overlap": {func(s *policy.Spec, root string) {
			s.Mounts = []policy.Mount{
				{Source: root, Target: "/mnt/all", Mode: "rw"},
				{Source: root + "/ws", Target: "/mnt/shown"},
				{Source: root + "/ws/.git/hooks", Target: "/workspace/.git/hooks", Mode: "rw"},
			}
		}, identity{kind: mapped, uid: 1234, gid: 1234}, nil},
		"open": {func(s *policy.Spec, _ string) { s.Workspace.Unprotected = []string{"*"} }, identity{kind: mapped, uid: 1234, gid: 1234}, nil},
		"layered": {func(s *policy.Spec, root string) {
			s.Workspace.Access, s.Mounts = "ro", []policy.Mount{{Source: root + "/data", Target: "/c"}}
		}, identity{kind: idmap, uid: state.LentFirst, gid: state.LentFirst}, []backend.Stored{{Source: "/data", Tool: "go", Ends: true}}},
		"merged": {func(s *policy.Spec, root string) {
			s.Mounts = []policy.Mount{{Source: root + "/data", Target: "/c", Mode: "rw"}, {Source: root + "/npm/_cacache", Target: "/c/_cacache"}}
		}, identity{kind: idmap, uid: state.LentFirst, gid: state.LentFirst}, []backend.Stored{
			{Source: "/data", Tool: "npm"},
			{Source: "/npm/_cacache", Tool: "npm", Downloads: true, Over: "/c/_cacache", Hidden: []string{"index-v5", "tmp"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := fixedPlan(t, tt.change, tt.id, tt.stored...)
			file := filepath.Join("testdata", "plan_"+name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the plan is another than %s (go test -update writes it anew):\n%s", file, diff)
			}
		})
	}
}

// Every step says why it is there, and nothing writable keeps set-id bits or
// devices.
func TestPlanInvariants(t *testing.T) {
	req := request(t)
	p, err := New().Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(p.Setup, p.Spawn...) {
		if s.Why == "" {
			t.Errorf("%s %s does not say why", s.Do, s.Target)
		}
		switch s.Do {
		case confine.OpBind, confine.OpSelf, confine.OpTmpfs, confine.OpProc, confine.OpDevpts:
			if flags := strings.Join(s.Flags, ","); !strings.Contains(flags, "nosuid") {
				t.Errorf("%s %s has the flags %s", s.Do, s.Target, flags)
			}
		}
	}
	if before, err := os.ReadDir(req.Spec.Workspace.Source); err != nil || len(before) != 0 {
		t.Errorf("making a plan left %v, %v", before, err)
	}
}

// The printed plan is the one that a start with the same request keeps, covers
// of state and programs included, although there is no state yet.
func TestPlanIsWhatStartDoes(t *testing.T) {
	dir := tempDir(t)
	text, err := os.ReadFile(agentPath)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, dir+"/bin/paddock-agent", string(text), 0o644)
	if err := os.Chmod(dir+"/bin/paddock-agent", 0o755); err != nil {
		t.Fatal(err)
	}
	repository(t, dir)
	req := request(t, func(s *policy.Spec) { s.Workspace.Source = dir })
	req.Agent, req.StateDir = dir+"/bin/paddock-agent", dir+"/var/state"
	req.Guards = guards(t, req)
	plan, err := New().Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if state.Exists(dir + "/var") {
		t.Error("planning made the state directory")
	}
	said := describe(plan)
	for _, want := range []string{"tmpfs /workspace/var/state ro", "self /workspace/bin/paddock-agent ro", "self /workspace/.git/hooks ro"} {
		if !strings.Contains(said, want) {
			t.Errorf("the plan lacks %q:\n%s", want, said)
		}
	}
	box := launchBox(t, req)
	for i, s := range plan.Setup { // the group has the sandbox's name
		plan.Setup[i].Source = strings.Replace(s.Source, groupName("ID"), groupName(box.ID()), 1)
	}
	started := box.(*sandbox).plan.plan
	plan.UIDs, plan.GIDs, plan.Holds.UIDHost = started.UIDs, started.GIDs, started.Holds.UIDHost // lent anew
	if diff := cmp.Diff(plan, started); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesThatCannotBe(t *testing.T) {
	dir := tempDir(t)
	testkit.Write(t, filepath.Join(dir, "file"), "", 0o644)
	for name, target := range map[string]string{"proc": "/proc", "sys": "/sys/kernel", "dev": "/dev"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Symlink("/", filepath.Join(dir, "root")), os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("gone", filepath.Join(dir, "dangling"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for source, says := range map[string]string{
		"missing": "no such file", "file": "not a directory", "file/below": "not a directory",
		"proc": "/proc belongs to the kernel", "sys": "/sys belongs to the kernel", "dev": "/dev belongs to the kernel",
		"root": "the root of the host's file system", "loop": "links", "dangling": "no such file",
	} {
		spec := policy.Spec{Workspace: policy.Workspace{Source: filepath.Join(dir, source)}}
		spec, err := spec.Resolve(policy.Base{Dir: "/", Home: "/"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = New().Plan(t.Context(), backend.Request{Spec: spec})
		var bad *policy.FieldError
		if !errors.As(err, &bad) || bad.Field != "workspace.source" || !strings.Contains(bad.Reason, says) {
			t.Errorf("%s: %v", source, err)
		}
	}
	// A line break would make a line of mountinfo two.
	if _, err := (policy.Spec{Workspace: policy.Workspace{Source: "/a\nb"}}).Resolve(policy.Base{Dir: "/", Home: "/"}); err == nil {
		t.Error("a line break in a path is accepted")
	}
}

// The plan has what is applied: the limits of the group in numbers, and by which rules
// the agent redacts.
func TestPlanOfLimitsAndRules(t *testing.T) {
	dir := t.TempDir()
	spec, err := policy.Spec{
		Workspace: policy.Workspace{Source: dir},
		Limits:    policy.Limits{Memory: 64 * policy.MiB, MemoryHigh: 32 * policy.MiB, Swap: policy.MiB, CPUs: 500, Processes: 100},
		Redaction: []policy.Redaction{{Type: "email"}}, AllowDegraded: []string{policy.DegradeMemory, policy.DegradeSwap, policy.DegradeCPUs},
	}.Resolve(policy.Base{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	req := backend.Request{Spec: spec, StateDir: t.TempDir(), Agent: "/usr/bin/true"}
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	swap := int64(policy.MiB)
	for name, tt := range map[string]struct {
		controllers []string
		want        confine.GroupLimits
		kept        string
	}{
		"all": {[]string{"cpu", "memory", "pids"}, confine.GroupLimits{MemoryMax: 64 << 20, MemoryHigh: 32 << 20, SwapMax: &swap, MilliCPUs: 500, Pids: 100},
			"memory.max=64MiB memory.swap.max=1MiB memory.high=32MiB"},
		"none": {nil, confine.GroupLimits{}, "RLIMIT_DATA=64MiB, of each process, advisory"},
	} {
		b, err := newPlan(req, identity{}, mounts, hierarchy{place: cgroup.Delegate{Dir: "/sys/fs/cgroup/x", Controllers: tt.controllers}, why: errors.New("none")}, "/sys/fs/cgroup/x/y")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(b.plan.GroupLimits, tt.want) || b.plan.Holds.Limits["memory"] != tt.kept {
			t.Errorf("%s: got %+v, %q", name, b.plan.GroupLimits, b.plan.Holds.Limits)
		}
		if want := []policy.Redaction{{Name: "email", Type: "email", Strategy: "redact"}}; !reflect.DeepEqual(b.plan.Redaction, want) {
			t.Errorf("%s: the rules are %v", name, b.plan.Redaction)
		}
	}
}

// The kernel refuses a process within the range that the result gives.
func TestProcessesWithoutController(t *testing.T) {
	const limit = 32
	box := launchBox(t, request(t, func(s *policy.Spec) { s.Limits.Processes = limit }))
	kept, most := box.Isolation().Limits["processes"], limit
	if kept != "pids.max=32" {
		var total, told, more int
		if _, err := fmt.Sscanf(kept, "RLIMIT_NPROC=%d, of the sandbox's user: %d and up to %d more, since", &total, &told, &more); err != nil || told != limit || total != limit+more {
			t.Fatalf("the result says %q: %v", kept, err)
		}
		most = limit + more
	}
	out, _ := sh(t, box, "n=1; while sleep 1000 & do n=$((n+1)); echo $n; done")
	lines := strings.Fields(strings.Split(out, "/bin/sh")[0]) // what it says about the one that was refused
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil || n < limit || n > most {
		t.Errorf("%d processes ran (%v), and the result says %q", n, err, kept)
	}
}
