package spawn

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// Sources of a peak, as results name them.
const (
	sourceRusage  = "ru_maxrss"
	sourceSampled = "vmhwm_sampled"
	SourceGroup   = "cgroup"
)

// PeakSampler samples a command's largest resident set while it runs, because
// its kernel counter is of no use until it exceeds the agent's own. For a
// command that ends before the first sample it costs only a timer.
type PeakSampler struct {
	trees *Trees
	pid   int

	mu       sync.Mutex
	timer    *time.Timer
	interval time.Duration // to the next sample
	peak     int64         // in bytes
	stopped  bool
}

const (
	// FirstSample is how long a command runs before its memory is read.
	FirstSample       = 4 * time.Millisecond
	maxSampleInterval = 250 * time.Millisecond
)

// SamplePeak begins to sample how much memory a command takes.
func (t *Trees) SamplePeak(p *Process) *PeakSampler {
	s := &PeakSampler{trees: t, pid: p.PID, interval: FirstSample}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(FirstSample, s.sample)
	return s
}

func (s *PeakSampler) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.peak = max(s.peak, s.trees.HighWater(s.pid))
	s.interval = min(2*s.interval, maxSampleInterval)
	s.timer.Reset(s.interval)
}

// Peak ends the sampling. It returns the largest resident set of one process of the
// command, in bytes, and its source; 0 and "" if the command was too short to be seen.
func (t *Trees) Peak(s *PeakSampler, p *Process) (int64, string) {
	s.mu.Lock()
	s.stopped = true
	s.timer.Stop()
	sampled := s.peak
	s.mu.Unlock()
	// A command's ru_maxrss begins with the agent's own peak, because a child borrows
	// the agent's memory until it executes its program, and the kernel counts both
	// roughly: only a value well above that peak is the command's. The agent's own
	// ru_maxrss cannot serve as that peak, since it begins with the value of the process
	// that started the agent. The agent's peak only grows, so the value that was read
	// last decides most cases.
	if peak := p.Usage.Maxrss << 10; peak > 2*t.ownPeak.Load() {
		t.ownPeak.Store(t.HighWater(os.Getpid()))
		if peak > 2*t.ownPeak.Load() {
			return peak, sourceRusage
		}
	}
	if sampled > 0 {
		return sampled, sourceSampled
	}
	return 0, ""
}

// HighWater returns VmHWM of a process in bytes, 0 if it has ended.
func (t *Trees) HighWater(pid int) int64 {
	fields := statusFields(t.proc, pid, "VmHWM")
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// Own returns the resources that the agent itself uses.
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
	fds, _ := listNumbers(t.proc, strconv.Itoa(os.Getpid())+"/fd")
	u.Descriptors = max(0, len(fds)-1) // one is that of the list itself
	return u
}

// Meter adds up the use of resources by the members of a tree. A process that ends
// meanwhile counts as 0, and the sum still as complete.
func (t *Trees) Meter(m Mark, u *wire.TreeUsage) {
	found, unknown, err := t.Members(m)
	u.Complete = err == nil && unknown == 0
	var user, system, resident uint64
	for _, p := range found {
		s, err := readStat(t.proc, p.PID)
		lived := lives(p.PIDFD) // else the number may be another's already
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

// InnerPID returns a process's pid in its own pid namespace, 0 if that is not known.
func (t *Trees) InnerPID(pid int) int {
	fields := statusFields(t.proc, pid, "NSpid") // from the outermost namespace to its own
	if len(fields) == 0 {
		return 0
	}
	inner, _ := strconv.Atoi(string(fields[len(fields)-1]))
	return inner
}
