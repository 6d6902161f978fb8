//go:build linux

package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

var update = flag.Bool("update", false, "write the table of capabilities anew, for the walls that are run")

// ownerEnv makes the test program an owner that waits to be killed.
const ownerEnv = "PADDOCK_BACKENDTEST_OWNER"

// Main runs a test program that uses this package, and returns its exit status.
// The programs of tests are to be two directories below the repository's top.
// The backends are those that such a program makes as an owner to be killed.
func Main(m *testing.M, backends ...backend.Backend) int {
	if text := os.Getenv(ownerEnv); text != "" {
		boxtest.Usual(os.Getenv("XDG_STATE_HOME"))
		return own(text, backends)
	}
	flag.Parse()
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs.dir)
	status := m.Run()
	if *update {
		if err := grid.write(filepath.Join("..", "..", "test", "backendtest", "capabilities.txt")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if text := grid.report(); text != "" { // told whole by "make test", which looks for these marks
		fmt.Printf("--- report: what sandboxes can do, by backend\n%s--- end of report\n", text)
	}
	return status
}

// order is what an owner is told.
type order struct {
	Dir, State, Outside, Agent, Probe, Mark string
	Spec                                    policy.Spec
	Backend                                 string
	Remote                                  bool
}

// own opens a sandbox, starts a marked process in it, says so, and waits.
func own(text string, backends []backend.Backend) int {
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.obey(context.Background(), backends)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent ends
	return 0
}

func (o order) obey(ctx context.Context, backends []backend.Backend) error {
	programs.agent, programs.probe = o.Agent, o.Probe
	h := &host{dir: o.Dir, state: o.State, outside: o.Outside, Config: Config{Spec: o.Spec, Remote: o.Remote}}
	for _, be := range backends {
		if be.Name() == o.Backend {
			h.Backend = be
		}
	}
	if h.Backend == nil {
		return errors.New("there is no backend " + o.Backend)
	}
	b, err := h.open(ctx, nil)
	if err != nil {
		return err
	}
	if err := b.s.Command(ctx, "./probe", "sleep", o.Mark).Start(); err != nil {
		return err
	}
	fmt.Println("ready", b.s.ID())
	return nil
}

// startOwner starts another process that owns a sandbox with a marked process.
func (h *host) startOwner(ctx context.Context, mark string) (owner *exec.Cmd, err error) {
	text, err := json.Marshal(order{
		Dir: h.dir, State: h.state, Outside: h.outside, Agent: programs.agent, Probe: programs.probe, Mark: mark,
		Spec: h.Spec, Backend: h.Backend.Name(), Remote: h.Remote,
	})
	if err != nil {
		return nil, err
	}
	owner = exec.CommandContext(ctx, "/proc/self/exe")
	owner.Env = append(os.Environ(), ownerEnv+"="+string(text))
	in, err := owner.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := owner.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := owner.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || len(line) < 6 || line[:6] != "ready " {
		_ = in.Close()
		_ = owner.Wait()
		return nil, fmt.Errorf("the owner says %q", line)
	}
	return owner, nil
}
