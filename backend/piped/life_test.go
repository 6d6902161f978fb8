//go:build linux

package piped

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/descent"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/wire"
)

// leave makes what a clean-up command removes.
func leave(t *testing.T, root string, cleanup *[][]string) (made string) {
	t.Helper()
	made = filepath.Join(root, "codex", "sandbox-x")
	if err := os.MkdirAll(made, 0o700); err != nil {
		t.Fatal(err)
	}
	*cleanup = [][]string{{"rm", "-rf", "--", made}}
	return made
}

// Everything that was left behind ends with the sandbox, and that is proved.
func TestEndOfAll(t *testing.T) {
	req := request(t)
	tag := boxtest.Token()
	w := plain(t)
	made := leave(t, req.StateDir, &w.Cleanup)
	box := open(t, req, w)
	client := wire.Client{Dial: box.Dial}
	_, err := client.Exec(t.Context(), wire.ExecRequest{Detach: true, Argv: []string{"/bin/sh", "-c",
		`(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1000; done' "$0" >/dev/null 2>&1 &) ; sleep 0.1`, tag}})
	if err != nil {
		t.Fatal(err)
	}
	if len(boxtest.Carriers(tag)) == 0 {
		t.Fatal("the control does not survive its command")
	}
	death, err := box.Stop(t.Context(), 0)
	if err != nil || !death.Proved {
		t.Errorf("%+v, %v", death, err)
	}
	if left := boxtest.Carriers(tag); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
	if state.Exists(made) {
		t.Error("the clean-up command was not run")
	}
	select {
	case <-box.Done():
	default:
		t.Error("it is not done")
	}
	if _, err := box.Dial(t.Context()); !errors.Is(err, backend.ErrGone) {
		t.Errorf("Dial: %v", err)
	}
}

// A wall that still copies when its agent has ended is read to its end, so that its status says how
// the agent has ended: no SIGPIPE kills it.
func TestLastWords(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t, "/bin/sh", "-c", `"$@"; status=$?; sleep 0.1; echo "the last words" || exit 9; exit $status`, "sh"))
	if _, err := box.Stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if e := box.(*sandbox).ended; e == nil || !e.Exited || e.Status != 0 || e.Killed > 0 {
		t.Errorf("it ended as %+v", e)
	}
}

// ownerEnv holds the order of a process that owns a sandbox and is killed.
const ownerEnv = "PADDOCK_TEST_OWNER"

type ownerOrder struct {
	Agent, State, Workspace, Tag string
	Argv                         []string
	Cleanup                      [][]string
}

// own opens a sandbox, tells who keeps it, and has it work until it is killed.
func own(order string) {
	var o ownerOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		panic(err)
	}
	box, err := Start(context.Background(), backend.Request{Agent: o.Agent, StateDir: o.State},
		Wall{Backend: "test", Argv: o.Argv, Agent: o.Agent, Cleanup: o.Cleanup, Guest: wire.Guest{Workspace: osstring.String(o.Workspace)}})
	if err != nil {
		panic(err)
	}
	client := wire.Client{Dial: box.Dial}
	for range 8 {
		go func() {
			for {
				_, _ = client.Exec(context.Background(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000; :' \"$0\" &); sleep 0.02", o.Tag}})
			}
		}()
	}
	fmt.Println("keeper", box.(*sandbox).cmd.Process.Pid)
	select {}
}

// Whoever is killed, whenever: nothing keeps running, and the next start finds
// nothing to do but to remove a directory.
func TestKills(t *testing.T) {
	victims := map[string]func(owner, keeper int) int{
		"owner":  func(owner, _ int) int { return owner },
		"keeper": func(_, keeper int) int { return keeper },
		"wall": func(_, keeper int) int {
			for _, p := range descent.Below(keeper) {
				if p.Parent == keeper {
					return p.PID
				}
			}
			return 0
		},
	}
	for name, choose := range victims {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				kill(t, choose, "/bin/sh", "-c", `trap "" TERM; "$@"; :`)
			}
			if _, err := exec.LookPath("bwrap"); err == nil { // which does not die with its parent here
				kill(t, choose, "bwrap", "--unshare-all", "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "env")
			}
		})
	}
}

func kill(t *testing.T, choose func(owner, keeper int) int, argv ...string) {
	t.Helper()
	req, tag := request(t), boxtest.Token()
	var cleanup [][]string
	made := leave(t, req.StateDir, &cleanup)
	if argv[0] == "/bin/sh" {
		argv = append(argv, tag)
	}
	order, _ := json.Marshal(ownerOrder{Agent: req.Agent, State: req.StateDir, Workspace: t.TempDir(), Tag: tag, Argv: argv, Cleanup: cleanup})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"="+string(order))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, _ := bufio.NewReader(out).ReadString('\n')
	keeper, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "keeper ")))
	if err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%s%s", line, rest)
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // at any moment
	if err := syscall.Kill(choose(cmd.Process.Pid, keeper), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The owner's own process has the tag in no argument.
	boxtest.AwaitNone(t, tag)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	dir, err := state.New(req.StateDir, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir.Remove(nil)
	if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if state.Exists(made) {
		t.Error("nobody has cleaned up")
	}
}

// A wall that breaks fails every call at once.
func TestBrokenWall(t *testing.T) {
	req := request(t)
	tag := boxtest.Token()
	box := open(t, req, plain(t, "/bin/sh", "-c", `"$@"; :`, tag))
	client := wire.Client{Dial: box.Dial}
	var calls sync.WaitGroup
	errs := make(chan error, 20)
	for range cap(errs) {
		calls.Go(func() {
			_, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"sleep", "1000"}})
			errs <- err
		})
	}
	for boxtest.Sh(t, box, "pgrep -x -c sleep || true"); len(descent.Below(box.(*sandbox).cmd.Process.Pid)) < cap(errs)+2; time.Sleep(5 * time.Millisecond) {
	}
	began := time.Now()
	for _, p := range descent.Below(box.(*sandbox).cmd.Process.Pid) {
		if p.Parent == box.(*sandbox).cmd.Process.Pid {
			p.Signal(unix.SIGKILL)
		}
	}
	calls.Wait()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for range cap(errs) {
		var e *wire.Error
		if err := <-errs; !errors.As(err, &e) || e.Code != wire.CodeGone {
			t.Errorf("a call ended with %v", err)
		}
	}
	<-box.Done()
}

// What comes through the pipe is what was sent, both ways and side by side.
func TestBulk(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t))
	client := wire.Client{Dial: box.Dial}
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			text := bytes.Repeat([]byte{byte('a' + i), '\n'}, 4<<20)
			var out bytes.Buffer
			p, err := client.Start(t.Context(), wire.ExecRequest{Argv: []string{"cat"}}, wire.Streams{Stdin: bytes.NewReader(text), Stdout: &out})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			if r, err := p.Wait(); err != nil || r.ExitCode != 0 || !bytes.Equal(out.Bytes(), text) {
				t.Errorf("%+v, %v, %d of %d bytes", r, err, out.Len(), len(text))
			}
		})
	}
	calls.Wait()
}

// A client that has only finished sending gets its answer, also where the end
// ends its request line; one that is gone has its command killed.
func TestHalfClose(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t))
	conn, err := box.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, `{"action":"exec","command":"sleep 0.2; echo late"}`)
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answer, []byte("late")) {
		t.Errorf("%s, %v", answer, err)
	}
	tag := boxtest.Token()
	conn, err = box.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, `{"action":"exec","argv":["sh","-c","sleep 1000; :","%s"]}`+"\n", tag)
	testkit.Eventually(t, "the command runs", func() bool { return len(boxtest.Carriers(tag)) > 0 })
	_ = conn.Close()
	boxtest.AwaitNone(t, tag)
}

// The socket is its owner's alone, and what connects to it dials the agent.
func TestSocketMode(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t))
	path := filepath.Join(req.StateDir, "sandboxes", box.ID(), state.SocketName)
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r, err := state.Read(filepath.Dir(path))
	if err != nil || r.Isolation == nil || r.Backend != "test" || !r.Kept || !state.Alive(r.PID, r.Start) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Where the keeper itself was killed, nothing is proved, and what it would have
// done is done all the same.
func TestKeeperKilled(t *testing.T) {
	req := request(t)
	w := plain(t)
	made := leave(t, req.StateDir, &w.Cleanup)
	box, err := Start(t.Context(), req, w)
	if err != nil {
		t.Fatal(err)
	}
	_ = box.(*sandbox).cmd.Process.Kill()
	<-box.Done()
	if death, err := box.Stop(t.Context(), 0); err != nil || death.Proved {
		t.Errorf("%+v, %v", death, err)
	}
	if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 || state.Exists(made) {
		t.Errorf("%q is left, or not cleaned up", left)
	}
}

// What was opened is executed and sent, and its path may lead elsewhere by
// then. The wall's command gets no descriptor of it.
func TestReplacedAgent(t *testing.T) {
	dir := t.TempDir()
	program, err := os.ReadFile(boxtest.Agent)
	if err != nil {
		t.Fatal(err)
	}
	path, opened := filepath.Join(dir, "paddock-agent"), filepath.Join(dir, "opened")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	agent, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	touched := filepath.Join(dir, "touched")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("#!/bin/sh\ntouch "+touched+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	w := plain(t, "/bin/sh", "-c", `for fd in /proc/self/fd/*; do readlink "$fd"; done >"$0"; exec "$@"`, opened)
	w.Upload = true
	req := request(t)
	box, err := w.start(t.Context(), req, agent)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { boxtest.Stop(t, req, box) })
	if r := boxtest.Sh(t, box, "echo it runs"); r.Stdout != "it runs\n" {
		t.Errorf("%+v", r)
	}
	if text, err := os.ReadFile(opened); err != nil || strings.Contains(string(text), path) {
		t.Errorf("the wall's command has open: %s, %v", text, err)
	}
	if state.Exists(touched) {
		t.Error("what took the agent's path was executed")
	}
}

// A keeper that somebody has stopped ends all the same.
func TestKeeperStopped(t *testing.T) {
	req := request(t)
	box := open(t, req, plain(t))
	_ = box.(*sandbox).cmd.Process.Signal(unix.SIGSTOP)
	began := time.Now()
	if death, err := box.Stop(t.Context(), 0); err != nil || !death.Proved || time.Since(began) > endTime {
		t.Errorf("%+v, %v, after %v", death, err, time.Since(began))
	}
}

// A start that is cancelled tells its keeper to stop right behind the order. The keeper
// ends by that, and is not killed once its time is over.
func TestStopRightBehindTheOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		req := request(t)
		began := time.Now()
		if _, err := Start(ctx, req, plain(t)); !errors.Is(err, context.Canceled) || time.Since(began) > endTime {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		if left, _ := filepath.Glob(req.StateDir + "/sandboxes/*"); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	}
}
