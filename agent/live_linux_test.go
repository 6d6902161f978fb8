package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// patience bounds what a test waits for; it passes only where a test fails.
const patience = testkit.Patience

// eventually waits for what nothing announces.
var eventually = testkit.Eventually

// helper is where the program of testdata/helper is inside.
const helper = "/mnt/helper/helper"

// The programs under test, built once.
var agentPath, helperDir string

// wallless says why no sandbox can be made here, empty where one can.
var wallless string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "paddock-agent-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	agentPath, helperDir = filepath.Join(dir, "paddock-agent"), filepath.Join(dir, "helper")
	for out, pkg := range map[string]string{agentPath: "../cmd/paddock-agent", filepath.Join(helperDir, "helper"): "./testdata/helper"} {
		build := exec.Command("go", "build", "-o", out, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build %s: %v\n%s", pkg, err, text)
			return 1
		}
	}
	wallless = probe()
	code := m.Run()
	if faults := checkConformance("CONFORMANCE.md"); wholeRun() && code == 0 && len(faults) > 0 {
		fmt.Fprintf(os.Stderr, "CONFORMANCE.md:\n%s\n", strings.Join(faults, "\n"))
		code = 1
	}
	return code
}

// probe looks for user namespaces alone: whatever else is missing must fail.
func probe() string {
	for _, f := range linux.New().Probe(context.Background()).Features {
		if f.Name == "user namespaces" && !f.OK {
			return "user namespaces are forbidden here: " + f.Detail
		}
	}
	return ""
}

var marks atomic.Int64

// newMark is a text that no other process of the host carries.
func newMark() string {
	return fmt.Sprintf("paddock-agent-mark-%d-%d.", os.Getpid(), marks.Add(1))
}

// carrying lists the processes of the host with text in their command line. It
// asks every thread: a main thread that has exited has no command line.
func carrying(text string) []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		files, _ := filepath.Glob(process + "/task/*/cmdline")
		if slices.ContainsFunc(files, func(file string) bool {
			line, err := os.ReadFile(file) // a process may be gone by now
			return err == nil && bytes.Contains(line, []byte(text))
		}) {
			found = append(found, filepath.Base(process))
		}
	}
	return found
}

// box is a sandbox and its agent.
type box struct {
	t         *testing.T
	sandbox   backend.Sandbox
	client    *wire.Client
	pid       int // of the agent, on the host
	workspace string
}

// start makes a sandbox for one test. At its end the agent must not have
// written a word on its standard error.
func start(t *testing.T) *box {
	t.Helper()
	return startIn(t, t.TempDir())
}

// startIn is start for a workspace that is there.
func startIn(t *testing.T, workspace string, rules ...policy.Redaction) *box {
	t.Helper()
	if wallless != "" {
		t.Skip(wallless)
	}
	b := &box{t: t, workspace: workspace}
	spec, err := policy.Spec{
		Workspace: policy.Workspace{Source: b.workspace},
		Mounts:    []policy.Mount{{Source: helperDir, Target: filepath.Dir(helper)}},
		Redaction: rules,
	}.Resolve(policy.Base{Dir: "/", Home: "/"})
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	b.sandbox, err = boxtest.Start(b.context(), linux.New(), backend.Request{Spec: spec, Agent: agentPath, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	b.client = &wire.Client{Dial: b.dial}
	t.Cleanup(func() {
		death, err := b.sandbox.Stop(context.Background(), 0)
		if err != nil || !death.Proved || death.Log != "" && b.pid != 0 {
			t.Errorf("the sandbox's end: %+v, %v", death, err)
		}
	})
	b.pid = agentPID(t, filepath.Join(state, "sandboxes", b.sandbox.ID(), "state.json"))
	return b
}

// dial tries again where too many wait to be accepted: how many may is the
// backend's matter.
func (b *box) dial(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := b.sandbox.Dial(ctx)
		if !errors.Is(err, syscall.EAGAIN) || ctx.Err() != nil {
			return conn, err
		}
		time.Sleep(time.Millisecond)
	}
}

func agentPID(t *testing.T, file string) int {
	t.Helper()
	var state struct{ PID int }
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil || state.PID == 0 {
		t.Fatalf("cannot find the agent: %q, %v", text, err)
	}
	return state.PID
}

func (b *box) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// run runs a command to its end.
func (b *box) run(q wire.ExecRequest) wire.ExecResult {
	b.t.Helper()
	res, err := b.client.Exec(b.context(), q)
	if err != nil {
		b.t.Fatalf("cannot run %q%q: %v", q.Command, q.Argv, err)
	}
	return res
}

// sh runs a script, with arguments from $0 on.
func (b *box) sh(script string, args ...string) wire.ExecResult {
	b.t.Helper()
	return b.run(wire.ExecRequest{Argv: append([]string{"/bin/sh", "-c", script}, args...)})
}

// wantError runs what cannot be started.
func (b *box) wantError(q wire.ExecRequest, code wire.Code, object string) {
	b.t.Helper()
	res, err := b.client.Exec(b.context(), q)
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code || e.Object != object {
		b.t.Errorf("got %+v, %+v, want %s about %q", res, err, code, object)
	}
}

// works fails unless the agent still runs commands.
func (b *box) works() {
	b.t.Helper()
	if res := b.sh("echo works"); res.Stdout != "works\n" || res.ExitCode != 0 || !res.DeathProved {
		b.t.Errorf("a later command: %+v", res)
	}
}

// held is what the agent holds of the kernel's resources.
type held struct{ descriptors, children int }

// held counts in fdinfo, which the owner of the agent's user namespace may read.
func (b *box) held() held {
	b.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fdinfo", b.pid))
	if err != nil {
		b.t.Fatal(err)
	}
	h := held{descriptors: len(files)}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		h.children += len(strings.Fields(string(text)))
	}
	return h
}

// leaksNothing runs do, once to warm up and once to compare: the agent must
// come back to what it held.
func (b *box) leaksNothing(do func()) {
	b.t.Helper()
	do()
	b.works()
	before := b.settled()
	do()
	b.works()
	eventually(b.t, fmt.Sprintf("the agent holds %+v again, and not %+v", before, b.held()), func() bool { return b.held() == before })
}

// settled is what an agent holds that has nothing to do: connections and
// outputs that were just closed are given time to be noticed.
func (b *box) settled() held {
	last, since := b.held(), time.Now()
	for time.Since(since) < 200*time.Millisecond {
		time.Sleep(5 * time.Millisecond)
		if now := b.held(); now != last {
			last, since = now, time.Now()
		}
	}
	return last
}

// goroutines ends the agent and counts those it had.
func (b *box) goroutines() int {
	b.t.Helper()
	b.pid, _ = 0, syscall.Kill(b.pid, syscall.SIGQUIT)
	<-b.sandbox.Done()
	death, _ := b.sandbox.Stop(context.Background(), 0)
	n := strings.Count(death.Log, "\ngoroutine ")
	if n == 0 {
		b.t.Fatalf("the agent did not say what it does:\n%s", death.Log)
	}
	return n
}

// status is a value of a text like that of /proc/self/status.
func status(text, key string) string {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(line, ":"); name == key {
			return strings.TrimSpace(value)
		}
	}
	return "?" + strconv.Quote(key)
}

func seconds(n float64) *float64 { return &n }
