package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Interface files of more than one use.
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

// read gives the whole of an interface file.
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

// write writes to an interface file, in one call.
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

// Controllers are those that the group has, and can hand on to groups inside of it.
func (g *Group) Controllers() ([]string, error) {
	text, err := g.read(controllersFile)
	return strings.Fields(text), err
}

// Enable hands controllers on to the groups inside: those of the names that
// are available. It returns those that are handed on afterwards.
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
		// One by one: a controller that cannot be had does not cost the others.
		if err := g.write(subtreeFile, "+"+name); err != nil {
			failed = err
			continue
		}
		enabled = append(enabled, name)
	}
	var got []string
	for _, name := range names {
		if slices.Contains(enabled, name) {
			got = append(got, name)
		}
	}
	return got, failed
}

// Procs lists the processes in the group itself, as this process's pid
// namespace numbers them; 0 stands for those that it cannot name.
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

func (g *Group) malformed(file, text string) error {
	const enough = 100
	return g.fail("read", file, fmt.Errorf("it is not as expected: %q", text[:min(len(text), enough)]))
}

// keyed reads lines of a key and a number.
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
