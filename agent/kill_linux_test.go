package agent_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// killAll ends what a detached command left, by way of the sandbox.
func (b *box) killAll(mark string) {
	b.t.Helper()
	if len(carrying(mark)) > 0 {
		b.sh("kill -9 -1")
		eventually(b.t, "what was detached is killed", func() bool { return len(carrying(mark)) == 0 })
	}
}

// daemons are ways to outlive a command. Each script has the helper as $0 and
// the mark as $1, and ends when its daemon cannot be mistaken for it any more.
var daemons = map[string]string{
	"a background job":           `"$0" wait "$1" &`,
	"of another session":         `setsid "$0" wait "$1" &`,
	"forked twice":               `(setsid sh -c '"$0" wait "$1" &' "$0" "$1" &)`,
	"forked again and again":     `(setsid sh -c '(setsid sh -c '\''(setsid "$0" wait "$1" &)'\'' "$0" "$1" &)' "$0" "$1" &)`,
	"without descriptors":        `(setsid "$0" wait "$1" <&- >&- 2>&- &)`,
	"under nohup":                `nohup "$0" wait "$1" >/dev/null 2>&1 &`,
	"deaf to signals":            `(setsid "$0" deaf "$1" &); while ! test -e ready; do sleep 0.1; done`,
	"without a main thread":      `(setsid "$0" threads "$1" &); while ! test -e ready; do sleep 0.1; done`,
	"stopped":                    `(setsid sh -c 'kill -STOP $$; "$0" wait "$1"' "$0" "$1" &)`,
	"of a program nobody reads":  `cp "$0" secret; chmod 111 secret; (setsid ./secret wait "$1" &)`,
	"of a program that is gone":  `cp "$0" gone; (setsid ./gone deaf "$1" &); while ! test -e ready; do sleep 0.1; done; rm gone`,
	"deaf, and without a parent": `(setsid sh -c '"$0" deaf "$1" & while ! test -e ready; do sleep 0.1; done; kill -9 $$' "$0" "$1" &); while ! test -e ready; do sleep 0.1; done`,
}

func TestDaemonsAreKilledAndCounted(t *testing.T) {
	for name, script := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			mark := newMark()
			began := time.Now()
			res := b.sh(script+"\nexit 4", helper, mark)
			if found := carrying(mark); len(found) > 0 {
				t.Errorf("processes %v are left", found)
			}
			if res.ExitCode != 4 || !res.DeathProved || res.Survivors < 1 || res.SurvivorsKilled != res.Survivors {
				t.Errorf("got %+v", res)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("it took %v", took)
			}
			b.works()
		})
	}
}

func TestDaemonsDieAtATimeout(t *testing.T) {
	for name, script := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			mark := newMark()
			res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", script + "\nsleep 1000", helper, mark}, TimeoutSeconds: seconds(1)})
			if found := carrying(mark); len(found) > 0 {
				t.Errorf("processes %v are left", found)
			}
			if !res.TimedOut || res.ExitCode != 124 || !res.DeathProved || res.SurvivorsKilled < 2 {
				t.Errorf("got %+v", res)
			}
			b.works()
		})
	}
}

func TestDetachKeepsDaemons(t *testing.T) {
	for name, script := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			mark := newMark()
			res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", script, helper, mark}, Detach: true})
			if res.ExitCode != 0 || res.DeathProved || res.Survivors < 1 || res.SurvivorsKilled != 0 {
				t.Errorf("got %+v", res)
			}
			eventually(t, "the daemon runs", func() bool { return len(carrying(mark)) > 0 })
			b.works() // another command's end is not the daemon's
			if len(carrying(mark)) == 0 {
				t.Error("the daemon is gone")
			}
			if _, err := b.sandbox.Stop(b.context(), 0); err != nil {
				t.Error(err)
			}
			if found := carrying(mark); len(found) > 0 {
				t.Errorf("processes %v outlive the sandbox", found)
			}
		})
	}
}

// A tree is its own command's: the end of one leaves the other alone.
func TestTreesAreKeptApart(t *testing.T) {
	b := start(t)
	mark := newMark()
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", `(setsid "$0" wait "$1" &); echo ready; cat`, helper, mark}})
	s.says("ready")
	eventually(t, "the daemon runs", func() bool { return len(carrying(mark)) == 2 })
	for range 5 {
		if res := b.sh("sleep 1000 & exit 0"); res.SurvivorsKilled != 1 {
			t.Errorf("got %+v", res)
		}
	}
	if found := carrying(mark); len(found) != 2 {
		t.Errorf("of another tree %v are left", found)
	}
	s.control(wire.Control{Type: "close_stdin"})
	if res := s.exit(); res.SurvivorsKilled != 1 || len(carrying(mark)) > 0 {
		t.Errorf("got %+v", res)
	}
}

func TestForkBombIsKilled(t *testing.T) {
	b := start(t)
	for _, processes := range []uint64{64, 500} {
		mark := newMark()
		res := b.run(wire.ExecRequest{
			Argv:           []string{"sh", "-c", `b() { b & b & b; }; b 2>/dev/null & exec sleep 1000`, mark},
			TimeoutSeconds: seconds(0.5),
			Limits:         &wire.Limits{Processes: processes},
		})
		if found := carrying(mark); len(found) > 0 {
			t.Errorf("with %d: processes %v are left", processes, found)
		}
		if !res.DeathProved || !res.TimedOut || res.SurvivorsKilled < 10 {
			t.Errorf("with %d: %+v", processes, res)
		}
		b.works()
	}
}

func TestStoppedTreeDiesAtATimeout(t *testing.T) {
	b := start(t)
	mark := newMark()
	res := b.run(wire.ExecRequest{
		Argv:           []string{"sh", "-c", `"$0" wait "$1" & "$0" wait "$1" & kill -STOP -$$`, helper, mark},
		TimeoutSeconds: seconds(0.5),
	})
	if found := carrying(mark); len(found) > 0 || !res.DeathProved || !res.TimedOut || res.SurvivorsKilled < 3 {
		t.Errorf("processes %v are left: %+v", found, res)
	}
}

// The last writer of a pipeline may end shortly after its command. On a busy machine it may also end
// after the grace, which says nothing.
func TestOutputGrace(t *testing.T) {
	b := start(t)
	soon := func(argv []string, wanted func(wire.ExecResult) bool) {
		t.Helper()
		var res wire.ExecResult
		for range 50 {
			if res = b.run(wire.ExecRequest{Argv: argv}); wanted(res) {
				return
			}
		}
		t.Errorf("50 times: got %+v", res)
	}
	soon([]string{"sh", "-c", `(sleep 0.03; echo late) & echo early`}, func(res wire.ExecResult) bool {
		return res.Stdout == "early\nlate\n" && res.Survivors == 0
	})
	if _, err := os.Stat("/bin/bash"); err == nil {
		for range 5 {
			soon([]string{"bash", "-c", "seq 1 1000 | tee >(tail -n 1 >&2) >/dev/null"}, func(res wire.ExecResult) bool { return res.Stderr == "1000\n" })
		}
	}
}

// A daemon that keeps the output open delays the result by the grace alone.
func TestHeldOutputDelaysNothing(t *testing.T) {
	b := start(t)
	for name, detach := range map[string]bool{"killed": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			mark := newMark()
			began := time.Now()
			res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", `echo out; setsid "$0" wait "$1" &`, helper, mark}, Detach: detach})
			if took := time.Since(began); took > 20*time.Second || res.DurationMS > 20_000 {
				t.Errorf("it took %v, and is said to have taken %d ms", took, res.DurationMS)
			}
			if res.Stdout != "out\n" || res.Survivors != 1 {
				t.Errorf("got %+v", res)
			}
			b.killAll(mark)
		})
	}
}

// Nor does one that never stops printing.
func TestEndlessOutputOfADaemonDelaysNothing(t *testing.T) {
	b := start(t)
	for name, detach := range map[string]bool{"killed": false, "detached": true} {
		q := wire.ExecRequest{Argv: []string{"sh", "-c", `yes "$0" & sleep 0.1`, newMark()}, Detach: detach}
		t.Run(name+", captured", func(t *testing.T) {
			res := b.run(q)
			if res.ExitCode != 0 || res.Survivors != 1 || !strings.HasPrefix(res.Stdout, q.Argv[3]) {
				t.Errorf("got %.1000v", res)
			}
			b.killAll(q.Argv[3])
		})
		t.Run(name+", streamed", func(t *testing.T) {
			s := b.stream(q)
			s.t = t
			if res := s.exit(); res.ExitCode != 0 || res.Survivors != 1 || !strings.HasPrefix(s.stdout.String(), q.Argv[3]) {
				t.Errorf("got %+v", res)
			}
			b.killAll(q.Argv[3])
		})
	}
}
