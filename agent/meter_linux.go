package agent

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// usage says what runs now, and what that and the agent take.
func (a *Agent) usage(*wire.UsageRequest) (*wire.UsageResult, error) {
	res := &wire.UsageResult{Trees: []wire.TreeUsage{}, Agent: a.trees.own(), Sandbox: a.spawner.usage()}
	res.Agent.Connections = a.connections.count()
	for _, e := range a.running.all() {
		e.with(func(p *process) {
			t := wire.TreeUsage{ID: e.id, Kind: e.kind, Name: e.name, PID: a.trees.innerPID(p.pid),
				StartedAt: unixTime(p.started)}
			a.trees.meter(p.mark, &t)
			res.Trees = append(res.Trees, t)
		})
	}
	return res, nil
}

// own returns what the agent itself takes.
func (t *trees) own() wire.AgentUsage {
	var now unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &now)
	u := wire.AgentUsage{
		UserCPUMS:   now.Utime.Nano() / int64(time.Millisecond),
		SystemCPUMS: now.Stime.Nano() / int64(time.Millisecond),
		PeakBytes:   t.highWater(os.Getpid()),
		Goroutines:  runtime.NumGoroutine(),
	}
	if s, err := readStat(t.proc, os.Getpid()); err == nil {
		u.MemoryBytes = pages(s.resident)
	}
	fds, _ := t.list(strconv.Itoa(os.Getpid()) + "/fd")
	u.Descriptors = max(0, len(fds)-1) // one is the look's own
	return u
}

// meter adds up what the members of a tree take. A process that ends
// meanwhile counts with nothing, and the tree as complete all the same.
func (t *trees) meter(m mark, u *wire.TreeUsage) {
	found, unknown, err := t.members(m)
	u.Complete = err == nil && unknown == 0
	var user, system, resident uint64
	for _, p := range found {
		s, err := readStat(t.proc, p.pid)
		lived := lives(p.pidfd) // or the number may be another's already
		unix.Close(p.pidfd)
		if err != nil || !lived {
			continue
		}
		u.Processes++
		user, system, resident = user+s.user, system+s.system, resident+s.resident
	}
	u.UserCPUMS, u.SystemCPUMS = millis(user), millis(system)
	u.MemoryBytes = pages(resident)
}

// cpu returns the processor time of a process and of those that it has waited for,
// in milliseconds, and whether it could be read.
func (t *trees) cpu(pid int) (user, system int64, ok bool) {
	s, err := readStat(t.proc, pid)
	return millis(s.user), millis(s.system), err == nil
}

func millis(ticks uint64) int64 { return int64(ticks * (1000 / ticksPerSecond)) }

func pages(n uint64) int64 { return int64(n) * int64(os.Getpagesize()) }

// innerPID is a process's pid as itself sees it, 0 where that is not known.
func (t *trees) innerPID(pid int) int {
	text, err := readFileAt(t.proc, strconv.Itoa(pid)+"/status", 64<<10)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line) // from the outermost namespace to its own
	if len(fields) == 0 {
		return 0
	}
	inner, _ := strconv.Atoi(string(fields[len(fields)-1]))
	return inner
}
