package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Interface files that are used in more than one place.
const (
	controllersFile = "cgroup.controllers"
	eventsFile      = "cgroup.events"
	freezeFile      = "cgroup.freeze"
	killFile        = "cgroup.kill"
	procsFile       = "cgroup.procs"
	subtreeFile     = "cgroup.subtree_control"
	threadsFile     = "cgroup.threads"
)

// open opens an interface file.
func (g *Group) open(file string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(g.fd, file, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// read returns the content of an interface file.
func (g *Group) read(file string) (string, error) {
	fd, err := g.open(file, unix.O_RDONLY)
	if err != nil {
		return "", g.fail("read", file, err)
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 1024)
	for {
		text = slices.Grow(text, 512)
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", g.fail("read", file, err)
		case n == 0:
			return string(text), nil
		default:
			text = text[:len(text)+n]
		}
	}
}

// write writes to an interface file in one call.
func (g *Group) write(file, text string) error {
	fd, err := g.open(file, unix.O_WRONLY)
	if err != nil {
		return g.fail("write", file, err)
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Write(fd, []byte(text))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return g.fail("write "+strconv.Quote(text)+" to", file, err)
		}
	}
}

// Controllers returns the controllers that the group has, and can delegate to
// groups inside of it.
func (g *Group) Controllers() ([]string, error) {
	text, err := g.read(controllersFile)
	return strings.Fields(text), err
}

// Enable delegates the named controllers, as far as they are available, to the groups
// inside. It returns all controllers that are delegated afterwards.
func (g *Group) Enable(names ...string) ([]string, error) {
	available, err := g.Controllers()
	if err != nil {
		return nil, err
	}
	text, err := g.read(subtreeFile)
	if err != nil {
		return nil, err
	}
	enabled := strings.Fields(text)
	var failed error
	for _, name := range names {
		if slices.Contains(enabled, name) || !slices.Contains(available, name) {
			continue
		}
		// One by one, so that the failure of one does not affect the others.
		if err := g.write(subtreeFile, "+"+name); err != nil {
			failed = err
			continue
		}
		enabled = append(enabled, name)
	}
	return intersect(names, enabled), failed
}

// Procs lists the processes in the group itself, with their ids in this
// process's pid namespace; 0 stands for processes outside of it.
func (g *Group) Procs() ([]int, error) {
	text, err := g.read(procsFile)
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, g.malformed(procsFile, text)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Add moves a process, with all its threads, into the group; 0 is the caller's own.
func (g *Group) Add(pid int) error { return g.write(procsFile, strconv.Itoa(pid)) }

// malformed returns an error about a file that could not be parsed.
func (g *Group) malformed(file, text string) error {
	const enough = 100
	return g.fail("read", file, fmt.Errorf("unexpected content %q", text[:min(len(text), enough)]))
}

// keyed parses lines of a key and a number.
func keyed(text string) map[string]uint64 {
	values := map[string]uint64{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				values[f[0]] = n
			}
		}
	}
	return values
}

// Vacate moves the group's own processes into a group inside of it, which it
// makes if it does not exist, so that the group can delegate controllers. A
// scope that a service manager delegates has processes from the beginning.
func (g *Group) Vacate(name string) (*Group, error) {
	child, err := g.ensure(name)
	if err != nil {
		return nil, err
	}
	for {
		pids, err := g.Procs()
		if err == nil && len(pids) == 0 {
			return child, nil
		}
		for _, pid := range pids {
			if err == nil {
				err = child.move(pid)
			}
		}
		if err != nil {
			_ = child.Close()
			return nil, err
		}
	}
}

// move adds a process if it still lives. It cannot move one without an id here.
func (g *Group) move(pid int) error {
	if pid == 0 { // writing 0 would move the caller itself
		return g.fail("move a process into", "", errors.New("it is in a pid namespace that cannot be seen from here"))
	}
	err := g.Add(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// reader reads files and keeps the first error. A file that does not exist is
// not an error.
type reader struct {
	group *Group
	err   error
}

// read returns a file's content, and whether it could be read.
func (r *reader) read(file string) (string, bool) {
	text, err := r.group.read(file)
	switch {
	case err == nil:
		return text, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP): // pressure is disabled on the kernel's command line
	case r.err == nil:
		r.err = err
	}
	return "", false
}

// malformed keeps an error about a file that could not be parsed.
func (r *reader) malformed(file, text string) {
	if r.err == nil {
		r.err = r.group.malformed(file, text)
	}
}

// number reads a file that holds one number.
func (r *reader) number(file string) *uint64 {
	text, ok := r.read(file)
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		r.malformed(file, text)
		return nil
	}
	return &n
}

// size is number with a signed result.
func (r *reader) size(file string) *int64 {
	n := r.number(file)
	if n == nil {
		return nil
	}
	size := int64(min(*n, math.MaxInt64))
	return &size
}

// keyed reads a file of keys and numbers, of which some must be present.
func (r *reader) keyed(file string, must ...string) (map[string]uint64, bool) {
	text, ok := r.read(file)
	if !ok {
		return nil, false
	}
	values := keyed(text)
	for _, key := range must {
		if _, ok := values[key]; !ok {
			r.malformed(file, text)
			return nil, false
		}
	}
	return values, true
}

// optional returns the value of a key that not every kernel has, or nil.
func optional(values map[string]uint64, key string) *uint64 {
	if n, ok := values[key]; ok {
		return &n
	}
	return nil
}
