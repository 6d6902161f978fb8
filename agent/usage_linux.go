package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ownPeak is the agent's own largest resident set, in bytes. A child's
// ru_maxrss begins with it, since it borrows the agent's memory until it
// executes its program.
func ownPeak() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}

// Sources of a peak, as results name them.
const (
	sourceRusage  = "ru_maxrss"
	sourceSampled = "vmhwm_sampled"
)

// peakSampler watches a command's largest resident set while it runs, because
// its kernel counter is of no use until it exceeds the agent's own.
type peakSampler struct {
	stop chan struct{}
	peak chan int64
}

func (t *trees) samplePeak(p *process) *peakSampler {
	s := &peakSampler{stop: make(chan struct{}), peak: make(chan int64, 1)}
	go func() {
		var peak int64
		interval := 4 * time.Millisecond
		for {
			select {
			case <-s.stop:
				s.peak <- peak
				return
			case <-time.After(interval):
				peak = max(peak, t.highWater(p.pid))
				interval = min(2*interval, 250*time.Millisecond)
			}
		}
	}()
	return s
}

// result is the largest resident set of one process of the command, in bytes,
// and how it is known; 0 and "" where the command was too short to be seen.
func (s *peakSampler) result(p *process) (int64, string) {
	close(s.stop)
	sampled := <-s.peak
	if peak := p.usage.Maxrss << 10; peak > p.rss {
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
