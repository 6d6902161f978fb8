//go:build linux

package escape

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Whatever a command does to every process that it can name, the next command runs.
func TestKillEverything(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		bystander := h.victim(t)
		for _, text := range []string{
			"kill -9 -1; kill -9 1", "kill -STOP -1; kill -STOP 1", "kill -9 1; exec /bin/true",
			"kill -9 $PPID; kill -9 -$PPID; kill -STOP $PPID", "trap '' TERM INT HUP; kill -9 -1 & wait", "renice -n 19 -u $(id -u); kill -TERM -1",
		} {
			limit := patience.Seconds()
			if _, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: osstring.String(text), TimeoutSeconds: &limit}); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			res, err := b.client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"echo", "alive"}})
			if err != nil || strings.TrimSpace(res.Stdout) != "alive" {
				t.Fatalf("after %q: %+v, %v", text, res, err)
			}
		}
		if len(carriers(h.token)) < 2 {
			t.Errorf("the host's process %s was hit, too", bystander)
		}
	})
}

// ways to outlive the command that one was started by.
var ways = []string{"child", "double", "sibling", "chain"}

// lives says whether a daemon does. A chain of processes is hard to meet: it
// leaves a trace in the workspace that grows.
func (h *host) lives(token, way string) bool {
	if way != "chain" {
		return len(carriers(token)) > 0
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(h.inside, token))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	first := size()
	for range 20 {
		if size() > first {
			return true
		}
		time.Sleep(10 * time.Millisecond) // nothing announces the next link, and none may come
	}
	return false
}

// leave lets a command leave a daemon behind.
func (h *host) leave(t *testing.T, b *box, token, way string, detach bool) wire.ExecResult {
	t.Helper()
	limit := patience.Seconds()
	res, err := b.client.Exec(t.Context(), wire.ExecRequest{Argv: []string{b.attacker, "daemon", token, way}, TimeoutSeconds: &limit, Detach: detach})
	if err != nil || outcome([]byte(res.Stdout), "") != succeeded {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

// What a command leaves behind ends with it, however it goes about it.
func TestDaemons(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		for _, way := range ways {
			t.Run(way, func(t *testing.T) {
				token := h.token + "-" + way
				if res := h.leave(t, b, token, way, false); !res.DeathProved || res.SurvivorsKilled == 0 {
					t.Errorf("%+v", res)
				}
				if h.lives(token, way) {
					t.Error("it has outlived its command")
				}
			})
		}
	})
}

// Daemons that may stay end with the sandbox. While they are there, others
// can hide among them at the landlock level, and are not said to be dead.
func TestDetachedDaemons(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		for _, way := range ways {
			h.leave(t, b, h.token+"-detached-"+way, way, true)
		}
		for _, way := range ways {
			if !h.lives(h.token+"-detached-"+way, way) {
				t.Fatalf("%s: it has ended, and proves nothing", way)
			}
		}
		for _, way := range ways {
			token := h.token + "-attached-" + way
			res := h.leave(t, b, token, way, false)
			if h.lives(token, way) && (c.Level == policy.LevelFull || res.DeathProved) {
				t.Errorf("%s: it has outlived its command: %+v", way, res)
			}
		}
		death, err := b.Stop(t.Context(), 0)
		if err != nil || !death.Proved {
			t.Errorf("%+v, %v", death, err)
		}
		if left := carriers(h.token + "-"); len(left) > 0 || h.lives(h.token+"-detached-chain", "chain") {
			t.Errorf("processes have outlived their sandbox, %v among them", left)
		}
	})
}

// A tree that has stopped itself ends within its timeout.
func TestStoppedTree(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		limit := 0.3
		began := time.Now()
		res, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: "sleep 1000 & setsid sleep 1000 & kill -STOP -1; kill -STOP $$; sleep 1000", TimeoutSeconds: &limit})
		if err != nil || !res.TimedOut || !res.DeathProved || time.Since(began) > time.Minute {
			t.Errorf("after %v: %+v, %v", time.Since(began), res, err)
		}
	})
}

// open starts a sandbox through the library, whose watchdog stands behind the
// agent's timeouts.
func (h *host) open(t *testing.T) (*paddock.Sandbox, int) {
	t.Helper()
	before := agents()
	s, err := paddock.Open(t.Context(), h.spec(h.inside, "none"), paddock.Options{Agent: h.agent, StateDir: h.state, Dir: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for pid := range agents() {
		if !before[pid] {
			return s, pid
		}
	}
	t.Fatal("there is no agent")
	return nil, 0
}

// An agent that is stopped, or that is starved, keeps nobody past the timeout.
func TestStoppedAgent(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		// On a slow machine the time may be up before the command has begun.
		for timeout := 200 * time.Millisecond; !h.stopAgent(t, timeout); timeout *= 4 {
			if timeout > patience {
				t.Fatal("no command begins in time")
			}
		}
	})
}

// stopAgent stops the agent while a command runs, and says whether it came to that.
func (h *host) stopAgent(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	s, agent := h.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout+patience)
	defer cancel()
	started, ended := make(chan struct{}), make(chan error, 1)
	cmd := s.Command(ctx, "/bin/sh", "-c", "echo up; exec sleep 1000")
	cmd.Timeout = timeout
	cmd.Stdout = writerFunc(func(b []byte) (int, error) {
		close(started)
		return len(b), nil
	})
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	select {
	case <-started:
	case err := <-ended:
		if !errors.Is(err, paddock.ErrTimeout) {
			t.Fatalf("Wait() = %v", err)
		}
		_ = s.Close()
		return false
	}
	if err := syscall.Kill(agent, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, paddock.ErrTimeout) {
		t.Errorf("Wait() = %v", err)
	}
	<-s.Done()
	took := time.Since(began) - timeout
	r := cmd.Result()
	if took > paddock.Grace+time.Minute || r == nil || !r.DeathProved {
		t.Errorf("%v after its time: %+v", took, r)
	}
	t.Logf("the sandbox ended %v after the command's time", took)
	return true
}

func TestStarvedAgent(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		b := h.start(t, h.spec(h.inside, "none"))
		limit := 0.5
		began := time.Now()
		res, err := b.client.Exec(t.Context(), wire.ExecRequest{
			Command: "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (while :; do :; done) & done; wait", TimeoutSeconds: &limit,
		})
		if err != nil || !res.TimedOut || !res.DeathProved || time.Since(began) > time.Minute {
			t.Errorf("after %v: %+v, %v", time.Since(began), res, err)
		}
	})
}

// Refusals that nobody tells of any more are refusals all the same, and others
// are not held up meanwhile.
func TestFloodOfRefusals(t *testing.T) {
	requireWalls(t, policy.LevelFull)
	h := newHost(t, column{who(), policy.LevelFull})
	b := h.start(t, h.spec(h.inside, "none"))
	ended := make(chan string)
	go func() {
		got, err := h.attack(t.Context(), b, []string{"setid-flood"})
		if err != nil {
			got = err.Error()
		}
		ended <- got
	}()
	for n := 0; ; n++ {
		select {
		case got := <-ended:
			if !oneOf(got, "EPERM|ENOSYS") || n == 0 {
				t.Errorf("%s, while %d commands ran", got, n)
			}
			if got, err := h.attack(t.Context(), b, []string{"setid-fchmod"}); err != nil || !oneOf(got, "EPERM|ENOSYS") {
				t.Errorf("afterwards: %s, %v", got, err)
			}
			return
		default:
			if res, err := b.client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil || res.ExitCode != 0 {
				t.Fatalf("%+v, %v", res, err)
			}
		}
	}
}
