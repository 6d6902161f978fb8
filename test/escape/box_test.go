//go:build linux

package escape

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// box is a sandbox under attack.
type box struct {
	backend.Sandbox
	client    *wire.Client
	attacker  string // its path inside
	workspace string // its path inside
	agent     int    // pid on the host
	lost      []string
	names     []string // what placeholders stand for inside
}

const (
	attackerDir = "/mnt/attacker"
	spaceInside = "/workspace"
)

// spec is a sandbox over a workspace of the host's, in which commands find the
// attacker.
func (h *host) spec(workspace, network string) policy.Spec {
	spec := policy.Spec{
		Level:     h.Level,
		Workspace: policy.Workspace{Source: workspace},
		Mounts:    []policy.Mount{{Source: h.tools, Target: attackerDir}},
		Network:   policy.Network{Mode: network},
	}
	if h.Level == policy.LevelLandlock {
		spec.Mounts[0].Target = ""
	}
	return spec
}

// start starts a sandbox that ends with the test.
func (h *host) start(t *testing.T, spec policy.Spec) *box {
	t.Helper()
	b, err := h.tryStart(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (h *host) tryStart(t *testing.T, spec policy.Spec) (*box, error) {
	t.Helper()
	spec, err := spec.Resolve(policy.Base{Dir: h.dir, Home: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	before := agents()
	started, err := boxtest.Start(t.Context(), linux.New(), backend.Request{Spec: spec, Agent: h.agent, StateDir: h.state})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _, _ = started.Stop(context.Background(), 0) })
	b := &box{
		Sandbox: started, client: &wire.Client{Dial: started.Dial}, lost: started.Isolation().Lost,
		attacker: attackerDir + "/attacker", workspace: spaceInside,
	}
	if spec.Level == policy.LevelLandlock {
		b.attacker, b.workspace = h.program(), spec.Workspace.Source
	}
	for pid := range agents() {
		if !before[pid] {
			b.agent = pid
		}
	}
	init, tools := "1", attackerDir
	if spec.Level == policy.LevelLandlock {
		init, tools = strconv.Itoa(b.agent), h.tools
	}
	b.names = []string{"{ws}", b.workspace, "{prepare}", "no", "{init}", init, "{agent}", strconv.Itoa(b.agent), "{tools}", tools}
	return b, nil
}

// agents are the pids of this process's own children that are agents.
func agents() map[int]bool {
	found := map[int]bool{}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may be gone by now
		for _, field := range strings.Fields(string(text)) {
			name, _ := os.ReadFile("/proc/" + field + "/comm")
			if pid, err := strconv.Atoi(field); err == nil && strings.HasPrefix(string(name), "paddock-agent") {
				found[pid] = true
			}
		}
	}
	return found
}

// hold starts a victim in a persistent sandbox until the test's end, and
// gives its pid on the host.
func (h *host) hold(t *testing.T, b *box, args ...string) string {
	t.Helper()
	said := make(chan struct{}, 1)
	p, err := b.client.Start(t.Context(), wire.ExecRequest{Argv: append([]string{b.attacker, "hold"}, args...)},
		wire.Streams{Stdout: writerFunc(func(text []byte) (int, error) {
			select {
			case said <- struct{}{}:
			default:
			}
			return len(text), nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	select {
	case <-said:
	case <-time.After(patience):
		t.Fatal("the victim says nothing")
	}
	pids := carriers(args[0])
	if len(pids) != 1 {
		t.Fatalf("victims with that name: %v", pids)
	}
	return strconv.Itoa(pids[0])
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// carriers lists the processes of the host whose command line has a text.
func carriers(text string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file) // a process may be gone by now
		if err == nil && strings.Contains(string(line), text) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}
