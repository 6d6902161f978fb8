package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// treeVariable is in the environment of commands whose trees have no mark that
// the kernel keeps.
const treeVariable = "PADDOCK_TREE"

// maxEnvironment bounds the search for treeVariable, in bytes. The kernel
// takes no more by default.
const maxEnvironment = 6 << 20

// begin makes the lineage of a command that is about to be cloned.
func (f *family) begin(ino uint64, env []string, id uint64) *lineage {
	l := &lineage{family: f, ino: ino, born: ticksSinceBoot()}
	for i, v := range env {
		if v == treeVariable+"=" { // a placeholder, which a request may lack
			l.token = f.prefix + strconv.FormatUint(id, 10)
			env[i] += l.token
		}
	}
	return l
}

// attribute says whose an orphan is or, where nothing tells, whose it may be.
// The young come first: numbers of the dead are used again.
func (f *family) attribute(o stat) (owner *lineage, maybe []*lineage) {
	for i := len(f.open) - 1; i >= 0; i-- {
		if l := f.open[i]; l.pid == o.session || l.pid == o.group {
			return l, nil
		}
	}
	if l := f.marked(o.pid); l != nil {
		return l, nil
	}
	for _, l := range f.open {
		if l.born <= o.born {
			maybe = append(maybe, l)
		}
	}
	if len(maybe) == 1 && !f.strangers {
		return maybe[0], nil // nobody else was there to make it
	}
	return nil, maybe
}

// marked finds a lineage by what a process inherits whatever it does, short of
// hiding on purpose.
func (f *family) marked(pid int) *lineage {
	base := strconv.Itoa(pid)
	ino, err := namespaceOf(f.proc, base)
	if err != nil {
		ino = 0
	}
	env := environment(f.proc, base)
	for i := len(f.open) - 1; i >= 0; i-- {
		l := f.open[i]
		if l.ino != 0 && l.ino == ino || l.token != "" && bytes.Contains(env, []byte("\x00"+treeVariable+"="+l.token+"\x00")) {
			return l
		}
	}
	return nil
}

// environment reads what a process began with, between NUL bytes; none where
// that is not allowed.
func environment(proc int, base string) []byte {
	text, err := readFileAt(proc, base+"/environ", maxEnvironment)
	if err != nil {
		return nil
	}
	return append([]byte{0}, text...)
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
