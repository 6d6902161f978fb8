//go:build linux

package escape

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// host is what the attacks are after: things of the host's, each made for the
// test, and two copies of one workspace, one on either side of the wall.
type host struct {
	column
	dir     string // holds everything
	inside  string // becomes the workspace
	outside string // for the controls
	tools   string // holds the attacker
	state   string // Paddock's
	agent   string // its program
	token   string // occurs nowhere else

	programs string // where paddock and its agent are, for tests that run it
	values   []string

	box     *box // the attacker's
	sibling *box // another one of the same user's
}

// newHost makes all of it for one column of the grid.
func newHost(t *testing.T, c column) *host {
	t.Helper()
	requireWalls(t, c.Level)
	return hostFor(t, c)
}

func hostFor(t *testing.T, c column) *host {
	t.Helper()
	h := &host{column: c, dir: hostDir(t), programs: binDir, token: fmt.Sprintf("paddock-escape-%d-%d", os.Getpid(), time.Now().UnixNano())}
	h.inside, h.outside, h.tools = filepath.Join(h.dir, "inside"), filepath.Join(h.dir, "outside"), filepath.Join(h.dir, "tools")
	h.workspace(t, h.inside)
	h.workspace(t, h.outside)
	h.makeTools(t)
	passSmallNumbers(t)
	h.state, h.agent = filepath.Join(h.inside, "state"), h.inside+"/bin/paddock-agent"
	if c.Level != policy.LevelFull { // which alone can cover them
		// Apart, since everything in h.dir may be lent, and nobody else may own what is above the state.
		h.state, h.agent = filepath.Join(hostDir(t), "state"), filepath.Join(binDir, "paddock-agent")
		mkdir(t, h.state, 0o700)
		testkit.Write(t, h.state+"/secret", "of another sandbox", 0o600)
	}
	h.things(t)
	h.lend(t)
	return h
}

// passSmallNumbers goes on, where the host counts its processes from the
// beginning again, to numbers that no process inside has: an attack on a number
// must not meet one of its own kind. It gives up after a while, since it matters seldom.
func passSmallNumbers(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		cmd := exec.Command("true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid > 4096 {
			return
		}
	}
}

// things are what else of the host's can be attacked.
func (h *host) things(t *testing.T) {
	t.Helper()
	canary, theirs := filepath.Join(h.dir, "canary"), filepath.Join(h.dir, "program")
	testkit.Write(t, canary, "the host's", 0o644)
	testkit.Write(t, theirs, "#!/bin/sh\n", 0o755)
	abstract := "@" + h.token
	h.values = []string{
		"{canary}", canary, "{program}", theirs, "{hostdir}", h.dir, "{token}", h.token, "{up}", strings.Repeat("/..", 16),
		"{tools}", h.tools,
		"{tcp}", h.listen(t, "tcp", "127.0.0.1:0"),
		"{udp}", h.listenPackets(t, "udp", "127.0.0.1:0"),
		"{abstract}", strings.TrimPrefix(h.listen(t, "unix", abstract), "@"),
		"{socket}", h.listen(t, "unix", filepath.Join(h.dir, "host.sock")),
		"{packets}", h.listenPackets(t, "unixgram", filepath.Join(h.dir, "packets.sock")),
		"{abstract-packets}", h.listenPackets(t, "unixgram", abstract+"-packets"),
		"{shm}", sharedMemory(t), "{sem}", semaphores(t), "{mq}", messageQueue(t, h.token), "{devshm}", h.sharedFile(t),
		"{suid}", suidProgram(), "{cgroup}", cgroupMount(),
	}
	h.key(t)
	leakDirectory(t, h.dir)
	h.values = append(h.values, "{host}", h.victim(t))
}

// pair starts the attacker's sandbox and another one of the same user's, with
// a victim in it.
func (h *host) pair(t *testing.T, network string) {
	t.Helper()
	other := filepath.Join(h.dir, "other")
	mkdir(t, other, 0o755)
	h.lend(t)
	h.sibling = h.start(t, h.spec(other, network))
	secret := "/tmp/" + h.token
	if h.Level == policy.LevelLandlock {
		secret = h.scratch(h.sibling) + "/tmp/secret"
	}
	shm := strconv.Itoa(ipcKey())
	passSmallNumbers(t)
	sibling := h.hold(t, h.sibling, h.token+"-inside", secret, shm)
	h.box = h.start(t, h.spec(h.inside, network))
	state := h.state
	if h.Level == policy.LevelFull {
		state = spaceInside + "/state"
	}
	socket := "/sandboxes/" + h.sibling.ID() + "/agent.sock"
	h.box.names = append(h.box.names, "{sibling}", sibling, "{secret}", secret, "{sibling-shm}", shm, "{state}", state, "{sibling-socket}", state+socket, "{agent-program}", h.agent)
	// The control's are its own, or what the sandbox's owner has of them.
	h.values = append(h.values, "{state}", h.outside+"/state", "{sibling-socket}", h.state+socket, "{secret}", h.own(t, "secret"), "{sibling-shm}", sharedMemory(t),
		"{agent-program}", h.outside+"/bin/paddock-agent")
}

// own is a file that the controls may read.
func (h *host) own(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(h.outside, name)
	testkit.Write(t, path, "the victim's", 0o600)
	return path
}

// scratch is where a sandbox of the landlock level keeps its private files.
func (h *host) scratch(b *box) string {
	if h.Who == asRoot {
		return filepath.Join(os.TempDir(), "paddock-"+b.ID())
	}
	return filepath.Join(h.state, "sandboxes", b.ID(), "scratch")
}

// hostDir is a directory that other identities can reach, as in a home.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "paddock-escape-") //nolint:usetesting // others must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lend gives everything to the identity that commands have at the landlock
// level where root starts it, so that nothing but the wall is in their way.
func (h *host) lend(t *testing.T) {
	t.Helper()
	if h.Level != policy.LevelLandlock || h.Who != asRoot {
		return
	}
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, ordinaryID, ordinaryID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// workspace makes a git repository that holds Paddock's state and agent, too,
// where they can be covered.
func (h *host) workspace(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{".git/hooks", ".git/objects", ".git/refs", "bin", "sub/.vscode"} {
		mkdir(t, filepath.Join(dir, d), 0o755)
	}
	testkit.Write(t, dir+"/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	testkit.Write(t, dir+"/.git/config", "[core]\n", 0o644)
	testkit.Write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
	testkit.Write(t, filepath.Join(dir, ".envrc"), "true\n", 0o644)
	testkit.Write(t, filepath.Join(dir, "own.txt"), "the workspace's", 0o644)
	if h.Level != policy.LevelFull && dir == h.inside {
		return
	}
	mkdir(t, filepath.Join(dir, "state"), 0o700)
	testkit.Write(t, dir+"/state/secret", "of another sandbox", 0o600)
	agent, err := os.ReadFile(filepath.Join(binDir, "paddock-agent"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Write(t, dir+"/bin/paddock-agent", string(agent), 0o755)
}

// makeTools makes a directory with the attacker.
func (h *host) makeTools(t *testing.T) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(binDir, "attacker"))
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, h.tools, 0o755)
	testkit.Write(t, h.program(), string(program), 0o755)
	testkit.Write(t, filepath.Join(h.tools, "data"), "mounted read-only", 0o666)
}

// program is the attacker's path on the host.
func (h *host) program() string { return filepath.Join(h.tools, "attacker") }

func mkdir(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(dir, mode); err != nil {
		t.Fatal(err)
	}
}

// leakDirectory opens a directory as careless programs do, for their children
// to inherit: whoever started Paddock may have such a handle.
func leakDirectory(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
}

// expand puts the values of one side into an attack's arguments.
func (h *host) expand(args []string, side ...string) []string {
	r := strings.NewReplacer(append(side, h.values...)...)
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = r.Replace(a)
	}
	return out
}
