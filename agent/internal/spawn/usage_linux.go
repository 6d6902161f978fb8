package spawn

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// exceedsOwn reports whether a command's ru_maxrss says something about the
// command. It begins with the agent's own peak, because a child borrows the
// agent's memory until it executes its program, and the kernel counts both
// roughly: only what is well above that is the command's. The agent's own
// ru_maxrss would not do, since it begins with that of whoever started it.
func (t *Trees) exceedsOwn(peak int64) bool {
	if peak <= 2*t.ownPeak.Load() {
		return false // it only ever grows
	}
	t.ownPeak.Store(t.HighWater(os.Getpid()))
	return peak > 2*t.ownPeak.Load()
}

// Sources of a peak, as results name them.
const (
	sourceRusage  = "ru_maxrss"
	sourceSampled = "vmhwm_sampled"
	SourceGroup   = "cgroup"
)

// PeakSampler watches a command's largest resident set while it runs, because
// its kernel counter is of no use until it exceeds the agent's own. It costs a
// command that has ended before the first look no more than a timer.
type PeakSampler struct {
	trees *Trees
	pid   int

	mu       sync.Mutex
	timer    *time.Timer
	interval time.Duration // to the next look
	peak     int64         // in bytes
	stopped  bool
}

const (
	// FirstLook is how long a command runs before it is looked at.
	FirstLook    = 4 * time.Millisecond
	lookInterval = 250 * time.Millisecond // at the most
)

// SamplePeak begins to watch how much memory a command takes.
func (t *Trees) SamplePeak(p *Process) *PeakSampler {
	s := &PeakSampler{trees: t, pid: p.PID, interval: FirstLook}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(FirstLook, s.look)
	return s
}

func (s *PeakSampler) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.peak = max(s.peak, s.trees.HighWater(s.pid))
	s.interval = min(2*s.interval, lookInterval)
	s.timer.Reset(s.interval)
}

// stop ends the sampling and says what was seen.
func (s *PeakSampler) stop() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
	return s.peak
}

// Peak returns the largest resident set of one process of the command, in bytes,
// and how it is known; 0 and "" where the command was too short to be seen.
func (t *Trees) Peak(s *PeakSampler, p *Process) (int64, string) {
	sampled := s.stop()
	if peak := p.Usage.Maxrss << 10; t.exceedsOwn(peak) {
		return peak, sourceRusage
	}
	if sampled > 0 {
		return sampled, sourceSampled
	}
	return 0, ""
}

// HighWater reads VmHWM of a process, 0 where it has ended.
func (t *Trees) HighWater(pid int) int64 {
	fd, err := unix.Openat(t.proc, strconv.Itoa(pid)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	f := os.NewFile(uintptr(fd), "status")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(text, []byte("VmHWM:"))
	if !ok {
		return 0
	}
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// Own returns what the agent itself takes.
func (t *Trees) Own() wire.AgentUsage {
	var now unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &now)
	u := wire.AgentUsage{
		UserCPUMS:   now.Utime.Nano() / int64(time.Millisecond),
		SystemCPUMS: now.Stime.Nano() / int64(time.Millisecond),
		PeakBytes:   t.HighWater(os.Getpid()),
		Goroutines:  runtime.NumGoroutine(),
	}
	if s, err := readStat(t.proc, os.Getpid()); err == nil {
		u.MemoryBytes = pages(s.resident)
	}
	fds, _ := t.list(strconv.Itoa(os.Getpid()) + "/fd")
	u.Descriptors = max(0, len(fds)-1) // one is the look's own
	return u
}

// Meter adds up what the members of a tree take. A process that ends
// meanwhile counts with nothing, and the tree as complete all the same.
func (t *Trees) Meter(m Mark, u *wire.TreeUsage) {
	found, unknown, err := t.Members(m)
	u.Complete = err == nil && unknown == 0
	var user, system, resident uint64
	for _, p := range found {
		s, err := readStat(t.proc, p.PID)
		lived := lives(p.PIDFD) // or the number may be another's already
		unix.Close(p.PIDFD)
		if err != nil || !lived {
			continue
		}
		u.Processes++
		user, system, resident = user+s.user, system+s.system, resident+s.resident
	}
	u.UserCPUMS, u.SystemCPUMS = millis(user), millis(system)
	u.MemoryBytes = pages(resident)
}

// CPU returns the processor time of a process and of those that it has waited for,
// in milliseconds, and whether it could be read.
func (t *Trees) CPU(pid int) (user, system int64, ok bool) {
	s, err := readStat(t.proc, pid)
	return millis(s.user), millis(s.system), err == nil
}

func millis(ticks uint64) int64 { return int64(ticks * (1000 / ticksPerSecond)) }

func pages(n uint64) int64 { return int64(n) * int64(os.Getpagesize()) }

// InnerPID returns a process's pid as itself sees it, 0 where that is not known.
func (t *Trees) InnerPID(pid int) int {
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
