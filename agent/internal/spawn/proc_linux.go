package spawn

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// rawReader reads a blocking descriptor by plain system calls.
type rawReader int

func (r rawReader) Read(p []byte) (int, error) {
	for {
		switch n, err := unix.Read(int(r), p); {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// stat holds the fields of a process's stat file that the agent needs.
type stat struct {
	pid                  int
	state                byte
	ppid, group, session int
	born                 uint64 // in clock ticks since boot
	user, system         uint64 // in ticks, including children that were waited for
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

// statusFields returns the fields of one line of a process's status file, none if the
// process has ended.
func statusFields(proc, pid int, name string) [][]byte {
	text, err := readFileAt(proc, strconv.Itoa(pid)+"/status", 64<<10)
	if err != nil {
		return nil
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.Fields(line)
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

// namespaceOf returns the number of a task's UTS namespace.
func namespaceOf(proc int, task string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(proc, task+"/ns/uts", &st, 0); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// listNumbers returns the numeric entries of a directory below proc.
func listNumbers(proc int, dir string) ([]int, error) {
	fd, err := unix.Openat(proc, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	numbers := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
