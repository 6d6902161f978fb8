package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// exceedsOwn reports whether a command's ru_maxrss says something about the
// command. It begins with the agent's own peak, because a child borrows the
// agent's memory until it executes its program, and the kernel counts both
// roughly: only what is well above that is the command's. The agent's own
// ru_maxrss would not do, since it begins with that of whoever started it.
func (t *trees) exceedsOwn(peak int64) bool {
	if peak <= 2*t.ownPeak.Load() {
		return false // it only ever grows
	}
	t.ownPeak.Store(t.highWater(os.Getpid()))
	return peak > 2*t.ownPeak.Load()
}

// Sources of a peak, as results name them.
const (
	sourceRusage  = "ru_maxrss"
	sourceSampled = "vmhwm_sampled"
	sourceGroup   = "cgroup"
)

// peakSampler watches a command's largest resident set while it runs, because
// its kernel counter is of no use until it exceeds the agent's own. It costs a
// command that has ended before the first look no more than a timer.
type peakSampler struct {
	trees *trees
	pid   int

	mu       sync.Mutex
	timer    *time.Timer
	interval time.Duration // to the next look
	peak     int64         // in bytes
	stopped  bool
}

const (
	firstLook    = 4 * time.Millisecond
	lookInterval = 250 * time.Millisecond // at the most
)

func (t *trees) samplePeak(p *process) *peakSampler {
	s := &peakSampler{trees: t, pid: p.pid, interval: firstLook}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(firstLook, s.look)
	return s
}

func (s *peakSampler) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.peak = max(s.peak, s.trees.highWater(s.pid))
	s.interval = min(2*s.interval, lookInterval)
	s.timer.Reset(s.interval)
}

// stop ends the sampling and says what was seen.
func (s *peakSampler) stop() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.timer.Stop()
	return s.peak
}

// peak is the largest resident set of one process of the command, in bytes,
// and how it is known; 0 and "" where the command was too short to be seen.
func (t *trees) peak(s *peakSampler, p *process) (int64, string) {
	sampled := s.stop()
	if peak := p.usage.Maxrss << 10; t.exceedsOwn(peak) {
		return peak, sourceRusage
	}
	if sampled > 0 {
		return sampled, sourceSampled
	}
	return 0, ""
}

// highWater reads VmHWM of a process, 0 where it has ended.
func (t *trees) highWater(pid int) int64 {
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
