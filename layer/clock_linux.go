package layer

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the present instant by this host's clocks. It reads them again where too much time passed
// in between: on a busy host the one would seem to be set back against the other.
func Now() (now Began, err error) {
	best := time.Duration(math.MaxInt64)
	for n := 0; n < 100 && best > tick/10; n++ {
		before, err := boottime()
		if err != nil {
			return Began{}, err
		}
		realtime := time.Now().Round(0)
		after, err := boottime()
		if err != nil {
			return Began{}, err
		}
		if took := after - before; took < best {
			best, now = took, Began{Realtime: realtime, Boottime: before}
		}
	}
	return now, nil
}

// boottime returns how long the host has been running.
func boottime() (time.Duration, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0, fmt.Errorf("cannot read the clock: %w", err)
	}
	return time.Duration(boot.Nano()), nil
}

// Precedes reports whether a later instant is later by the clock for files, too: whether that was
// not set back between them. A clock that began anew, at a boot, says nothing.
func (b Began) Precedes(later Began) bool {
	return !later.Realtime.Before(b.Realtime) && !later.Realtime.Add(-later.Boottime).Before(b.Realtime.Add(-b.Boottime).Add(-tick))
}

// steppedBack reports whether the clock was set back since the layer began.
func (c *commit) steppedBack() (bool, error) {
	clock := c.opt.Clock
	if clock == nil {
		clock = Now
	}
	now, err := clock()
	if err != nil {
		return false, err
	}
	last := c.latest()
	return !c.Began.Precedes(last) || !last.Precedes(now), nil
}
