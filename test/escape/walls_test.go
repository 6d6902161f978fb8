//go:build linux

package escape

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/codex"
	"github.com/paddock-dev/paddock/backend/docker"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/wrapper"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// otherWall is a wall that the attacks of wallAttacks are tried on.
type otherWall struct {
	name string
	// open says how it is asked for, over a workspace, or why there is none
	// here. Its backend is nil where nothing is to be tried, since everything
	// is open.
	open func(t *testing.T, workspace string) (backend.Backend, policy.Spec, error)
}

func otherWalls() []otherWall {
	return []otherWall{
		{policy.BackendLinux, func(*testing.T, string) (backend.Backend, policy.Spec, error) {
			if boxtest.Wallless != "" {
				return nil, policy.Spec{}, errors.New(boxtest.Wallless)
			}
			return linux.New(), policy.Spec{}, nil
		}},
		{policy.BackendDocker, func(t *testing.T, _ string) (backend.Backend, policy.Spec, error) {
			return container(t, engines.Docker)
		}},
		{"podman", func(t *testing.T, _ string) (backend.Backend, policy.Spec, error) {
			return container(t, engines.Podman)
		}},
		{policy.BackendCodex, behindCodex},
		{"bwrap", func(_ *testing.T, dir string) (backend.Backend, policy.Spec, error) {
			return wrapped("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", dir, dir, "--unshare-all", "--die-with-parent", "--")
		}},
		{"firejail", func(_ *testing.T, dir string) (backend.Backend, policy.Spec, error) {
			return wrapped("firejail", "--quiet", "--noprofile", "--net=none", "--ipc-namespace", "--read-only=/", "--read-write="+dir, "--")
		}},
		{policy.BackendHost, func(*testing.T, string) (backend.Backend, policy.Spec, error) { return nil, policy.Spec{}, nil }},
	}
}

func container(t *testing.T, start func(context.Context) (*engines.Engine, error)) (backend.Backend, policy.Spec, error) {
	t.Helper()
	e, err := start(t.Context())
	if err != nil {
		return nil, policy.Spec{}, err
	}
	t.Cleanup(e.Close)
	for _, variable := range e.Env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return docker.New(), policy.Spec{Docker: &policy.Docker{Binary: e.Binary, Image: engines.Shell, ExtraRunArgs: e.RunArgs}}, nil
}

// installedCodex is where test/engines/codex.sh puts it.
const installedCodex = "../../.cache/engines/codex/node_modules/.bin/codex"

func behindCodex(*testing.T, string) (backend.Backend, policy.Spec, error) {
	path, err := filepath.Abs(installedCodex)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		return nil, policy.Spec{}, errors.New("codex is not installed here")
	}
	return codex.New(), policy.Spec{Codex: &policy.Codex{Binary: path}}, nil
}

// wrapped is a wall that is any command, by its arguments.
func wrapped(command ...string) (backend.Backend, policy.Spec, error) {
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, policy.Spec{}, errors.New(command[0] + " is not installed here")
	}
	return wrapper.New(), policy.Spec{Wrapper: &policy.Wrapper{Command: command}}, nil
}

// wallAttacks are those of the grid that mean the same behind every wall: what
// they are after is one thing of the host's.
func wallAttacks() []row {
	names := []string{
		"read a file of the host's", "read it by /proc/self/root", "truncate it", "append to it", "rename it into the workspace",
		"hard-link it into the workspace", "execute a program of the host's", "create a file beside it", "change its mode", "change its times",
		"climb out of every directory handle", "use an inherited descriptor", "open a file by its handle", "make a disk's node",
		"overwrite a git hook", "append to git's configuration", "swap .git for another", "read Paddock's state", "write Paddock's state",
		"append to the agent where it is installed",
		"plant a set-id file by fchmod", "plant a set-id file by fchmodat2", "plant a set-id file by openat2", "plant a set-id directory by mkdirat",
		"mount-tmpfs", "mount-bind", "fsopen", "chroot", "pivot",
		"unshare user", "unshare mnt", "clone3 a new user", "enter the host's mnt", "enter the host's net", "change the host name",
		"find a process of the host's", "trace a process of the host's", "read the memory of a process of the host's",
		"take a descriptor of a process of the host's", "open root of a process of the host's", "follow exe of a process of the host's",
		"kill a process of the host's with every signal", "signal a process of the host's by a pidfd", "pin a process of the host's to a processor",
		"limit the processor time of a process of the host's",
		"connect to a service on 127.0.0.1", "send to a service on 127.0.0.1", "see another interface than lo", "list the host's connections",
		"connect to an abstract socket", "connect to a socket with a path", "send from a pair to an abstract socket",
		"make a vsock socket", "make a packet socket", "make a raw IP socket",
		"type into a terminal", "find the host's key", "ask for the host's key", "see the host's key in /proc/keys", "add a key",
		"attach the host's shared memory", "use the host's semaphores", "open the host's message queue", "open the host's POSIX shared memory",
		"io_uring", "bpf", "perf_event_open", "userfaultfd", "read the kernel's log", "load a module", "move into another control group",
		"write /proc/sys/kernel/core_pattern", "open /dev/mem",
		"open 2000 files", "write a file of 40 MiB into the workspace",
	}
	all := slices.Concat(fileAttacks(), workspaceAttacks(), setIDAttacks(), mountAttacks(), namespaceAttacks(), processAttacks(), networkAttacks(), kernelAttacks(), bombs())
	var rows []row
	for _, name := range names {
		if i := slices.IndexFunc(all, func(r row) bool { return r.name == name }); i >= 0 {
			rows = append(rows, all[i])
		}
	}
	return rows
}

const wallTitle = "the same attacks, behind every wall"

// TestWalls shows what each wall stops. What one is known to leave open stands
// in testdata/open.txt with its reason; anything else that succeeds is a hole.
func TestWalls(t *testing.T) {
	known := knownOpen(t)
	for _, wall := range otherWalls() {
		t.Run(wall.name, func(t *testing.T) {
			h := hostFor(t, column{Who: who(), Level: wall.name})
			defer known.check(t, wall.name)
			b, spec, err := wall.open(t, h.inside)
			if err != nil {
				t.Skip(strings.TrimPrefix(err.Error(), "no engine: "))
			}
			rows := wallAttacks()
			if b == nil {
				for _, r := range rows {
					gridOf(wallTitle).add(r.name, h.column, "", cell{"no wall", lost})
				}
				return
			}
			h.behind(t, b, spec)
			h.runOpenly(t, rows, known)
			healthy(t)
		})
	}
}

// behind starts the attacker's sandbox.
func (h *host) behind(t *testing.T, b backend.Backend, spec policy.Spec) {
	t.Helper()
	spec.Backend, spec.Workspace.Source = b.Name(), h.inside
	spec.Limits.OpenFiles, spec.Limits.FileSize = 1024, 32*policy.MiB
	spec, err := spec.Resolve(policy.Base{Dir: h.dir, Home: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(h.program())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, filepath.Join(h.inside, "attacker"), string(program), 0o755)
	s, err := boxtest.Start(t.Context(), b, backend.Request{Spec: spec, Agent: h.agent, StateDir: h.state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Stop(context.Background(), 0) })
	inside := h.inside
	if b.Name() == policy.BackendLinux {
		inside = spaceInside
	}
	h.box = &box{Sandbox: s, client: &wire.Client{Dial: s.Dial}, attacker: inside + "/attacker", workspace: inside}
	h.box.names = []string{"{ws}", inside, "{prepare}", "no", "{state}", h.state, "{agent-program}", h.agent}
	h.values = append(h.values, "{state}", h.outside+"/state", "{agent-program}", h.outside+"/bin/paddock-agent")
}

// runOpenly tries every row on both sides; what succeeds behind the wall must
// be known to.
func (h *host) runOpenly(t *testing.T, rows []row, known openings) {
	t.Helper()
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, "/", "."), func(t *testing.T) {
			without := h.without(t, r)
			if slices.Contains(r.args, "{host}") { // a new one each time: what one attack ends, the next cannot meet
				h.box.names = append([]string{"{host}", h.victim(t)}, h.box.names...)
				defer func() { h.box.names = h.box.names[2:] }()
			}
			unchanged := h.watchCopied(t, r)
			got, err := h.attack(t.Context(), h.box, r.args)
			if err != nil {
				t.Fatal(err)
			}
			within := cell{got, stopped}
			switch {
			case got == succeeded && unchanged():
				within = cell{"harmless", harmless}
			case got == succeeded:
				within = cell{"open", lost}
				if !known.take(h.Level, r.name) {
					within.Kind = hole
					t.Errorf("it succeeds behind %s, and testdata/open.txt does not say so", h.Level)
				}
			}
			gridOf(wallTitle).add(r.name, h.column, without, within)
		})
	}
}
