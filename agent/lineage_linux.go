package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// begin makes the lineage of a command that is about to be cloned.
func (f *family) begin(ino uint64, c *clone.Command, number uint64) *lineage {
	l := &lineage{family: f, ino: ino, born: ticksSinceBoot()}
	if f.brand.put(c, number) {
		l.number = number
	}
	return l
}

// attribute says whose an orphan is, whose end it must not outlive, and of
// which other trees it may be all the same: while it lives, none of those is
// proved to be dead. Whatever a process can choose by itself proves nothing.
func (f *family) attribute(o stat) (owner *lineage, doubt []*lineage) {
	if l := ofSession(f.open, o); l != nil && f.leads(l) {
		return l, nil // the number is in use: no other's
	}
	may, sure := f.candidates(o)
	owner = ofSession(may, o)
	if owner == nil && len(may) == 1 && (sure || !f.strangers) {
		owner = may[0] // nobody else was there to make it
	}
	named := f.named(o.pid)
	switch {
	case owner == nil && f.brand.locks == 0 && named != nil:
		return named, nil // there is nothing surer
	case owner == nil:
		return named, may
	case named != nil && named != owner:
		doubt = append(doubt, named) // one of the two is forged
	}
	return owner, doubt
}

// candidates gives the lineages that an orphan may be of, by its birth and its
// brand; sure says that the brand has had its say.
func (f *family) candidates(o stat) (may []*lineage, sure bool) {
	first, last, sure := f.brand.read(f.proc, o.pid)
	var older []*lineage
	for _, l := range f.open {
		if l.born > o.born {
			continue
		}
		older = append(older, l)
		if l.number == 0 || first <= l.number && l.number <= last {
			may = append(may, l)
		}
	}
	if !sure || len(may) == 0 { // the brand says nothing, or what cannot be
		return older, false
	}
	return may, true
}

// ofSession finds the one whose command has made the orphan's session or
// group. The young come first: numbers of the dead are used again.
func ofSession(may []*lineage, o stat) *lineage {
	for i := len(may) - 1; i >= 0; i-- {
		if l := may[i]; l.pid == o.session || l.pid == o.group {
			return l
		}
	}
	return nil
}

// leads says whether the command of a lineage has not ended.
func (f *family) leads(l *lineage) bool {
	p := f.reaper.procs[l.pid]
	return p != nil && p.mark.lineage == l
}

// named finds the lineage whose namespace a process is in. It takes privilege
// to leave that, or to enter another's.
func (f *family) named(pid int) *lineage {
	ino, err := namespaceOf(f.proc, strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	for i := len(f.open) - 1; i >= 0; i-- {
		if l := f.open[i]; l.ino != 0 && l.ino == ino {
			return l
		}
	}
	return nil
}

// stat is what the family needs of a process's stat file.
type stat struct {
	pid                  int
	state                byte
	ppid, group, session int
	born                 uint64 // in clock ticks since boot
	user, system         uint64 // ticks, with those of children that were waited for
	resident             uint64 // pages
}

var errStat = errors.New("cannot read /proc/PID/stat: unknown format")

func readStat(proc, pid int) (stat, error) {
	text, err := readFileAt(proc, strconv.Itoa(pid)+"/stat", 4096)
	if err != nil {
		return stat{}, err
	}
	// The name, in brackets, may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return stat{}, errStat
	}
	number := func(field int) uint64 { // numbered as in proc(5), where the state is field 3
		n, _ := strconv.ParseUint(string(fields[field-3]), 10, 64)
		return n
	}
	return stat{
		pid: pid, state: fields[0][0],
		ppid: int(number(4)), group: int(number(5)), session: int(number(6)),
		born: number(22), resident: number(24),
		user: number(14) + number(16), system: number(15) + number(17),
	}, nil
}

// readChildren reads the list of a thread's children.
func readChildren(proc int, task string) ([]int, error) {
	text, err := readFileAt(proc, task+"/children", 1<<20)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range bytes.Fields(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// readFileAt reads a file of proc, at most limit bytes.
func readFileAt(proc int, path string, limit int64) ([]byte, error) {
	fd, err := unix.Openat(proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return io.ReadAll(io.LimitReader(rawReader(fd), limit))
}

// ticksPerSecond is the unit of times in proc: the same on every
// architecture that this runs on.
const ticksPerSecond = 100

func ticksSinceBoot() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return uint64(now.Nano()) / (1e9 / ticksPerSecond)
}
