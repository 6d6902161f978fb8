package cgroup

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a control group, by a handle of its directory.
type Group struct {
	fd   int
	name string
}

// Open opens a group by its directory.
func Open(dir string) (*Group, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: "open", Object: dir, Err: err}
	}
	var fs unix.Statfs_t
	if err = unix.Fstatfs(fd, &fs); err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC {
		err = errors.New("it is no cgroup2 directory")
	}
	if err != nil {
		unix.Close(fd)
		return nil, &Error{Op: "open", Object: dir, Err: err}
	}
	return &Group{fd, path.Base(dir)}, nil
}

// FromFD takes over a handle of a group's directory.
func FromFD(fd int) *Group { return &Group{fd, "."} }

// FD is the handle, for CLONE_INTO_CGROUP (clone(2)). It stays the group's.
func (g *Group) FD() int { return g.fd }

// Name is the last part of the group's path.
func (g *Group) Name() string { return g.name }

// Close gives up the handle. The group lives on.
func (g *Group) Close() error { return unix.Close(g.fd) }

// Create makes a group inside this one and opens it.
func (g *Group) Create(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, &Error{Op: "create", Object: name, Err: err}
	}
	if err := unix.Mkdirat(g.fd, name, 0o755); err != nil {
		return nil, &Error{Op: "create", Object: name, Err: err, Hint: createHint(err)}
	}
	child, err := g.Child(name)
	if err != nil {
		_ = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	}
	return child, err
}

func createHint(err error) string {
	if errors.Is(err, unix.EAGAIN) {
		return "raise cgroup.max.descendants or cgroup.max.depth of a group above"
	}
	return ""
}

// checkName refuses what would not be a group inside of this one.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, "cgroup.") {
		return errors.New("it is no name of a group")
	}
	return nil
}

// Child opens a group inside this one.
func (g *Group) Child(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, &Error{Op: "open", Object: name, Err: err}
	}
	fd, err := unix.Openat(g.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: "open", Object: name, Err: err}
	}
	return &Group{fd, name}, nil
}

// Remove removes a group inside this one, with the groups inside of that. One
// in which processes live is EBUSY; one that does not exist is no error.
func (g *Group) Remove(name string) error {
	if err := checkName(name); err != nil {
		return &Error{Op: "remove", Object: name, Err: err}
	}
	err := unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) {
		// Groups inside, or processes: only a look tells.
		if child, cerr := g.Child(name); cerr == nil {
			for _, inner := range child.Children() {
				_ = child.Remove(inner)
			}
			_ = child.Close()
			err = unix.Unlinkat(g.fd, name, unix.AT_REMOVEDIR)
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &Error{Op: "remove", Object: name, Err: err}
	}
	return nil
}

// Children lists the groups inside this one.
func (g *Group) Children() []string {
	fd, err := unix.Openat(g.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), g.name)
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Controllers are those that the group can hand on to groups inside of it.
func (g *Group) Controllers() ([]string, error) {
	text, err := g.read("cgroup.controllers")
	return strings.Fields(text), err
}

// Enable hands controllers on to the groups inside: those of the names that
// are available. It returns those that are handed on afterwards.
func (g *Group) Enable(names ...string) ([]string, error) {
	available, err := g.Controllers()
	if err != nil {
		return nil, err
	}
	text, err := g.read("cgroup.subtree_control")
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
		if err := g.write("cgroup.subtree_control", "+"+name); err != nil {
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
	text, err := g.read("cgroup.procs")
	var pids []int
	for _, field := range strings.Fields(text) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Add moves a process, with all its threads, into the group.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// Kill sends SIGKILL to every process in the group and in groups inside of
// it, those that are forked meanwhile included (cgroup.kill, Linux 5.14).
// [Group.WaitEmpty] tells when they are gone.
func (g *Group) Kill() error {
	err := g.write("cgroup.kill", "1")
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return g.killEach()
}

// killEach is for kernels without cgroup.kill. What is frozen forks no more,
// and SIGKILL reaches it.
func (g *Group) killEach() error {
	_ = g.write("cgroup.freeze", "1")
	pids, err := g.Procs()
	for _, pid := range pids {
		if pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	for _, name := range g.Children() {
		if child, cerr := g.Child(name); cerr == nil {
			_ = child.killEach()
			_ = child.Close()
		}
	}
	_ = g.write("cgroup.freeze", "0")
	return err
}

// Populated says whether a process lives in the group or in one inside of it.
func (g *Group) Populated() (bool, error) {
	text, err := g.read("cgroup.events")
	return keyed(text)["populated"] != 0, err
}

// WaitEmpty returns when no process lives in the group, nor in any inside of it.
func (g *Group) WaitEmpty(ctx context.Context) error { return g.await(ctx, "populated", 0) }

// Freeze stops every process in the group and in groups inside of it, and
// returns when they stand still. They can be killed all the same.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.write("cgroup.freeze", "1"); err != nil {
		return err
	}
	return g.await(ctx, "frozen", 1)
}

// Thaw lets them go on.
func (g *Group) Thaw(ctx context.Context) error {
	if err := g.write("cgroup.freeze", "0"); err != nil {
		return err
	}
	return g.await(ctx, "frozen", 0)
}

// await waits until a key of cgroup.events has a value. The kernel announces
// changes of that file as an exceptional condition (poll(2)).
func (g *Group) await(ctx context.Context, key string, want uint64) error {
	const file = "cgroup.events"
	fd, err := unix.Openat(g.fd, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return g.fail("read", file, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err != nil {
			return g.fail("read", file, err)
		}
		if keyed(string(buf[:n]))[key] == want {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return g.fail("await", key, err)
		}
		// The interval is for ctx alone, which has no descriptor.
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int((50 * time.Millisecond).Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return g.fail("await", key, err)
		}
	}
}

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

func (g *Group) read(file string) (string, error) {
	fd, err := unix.Openat(g.fd, file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", g.fail("read", file, err)
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", g.fail("read", file, err)
	}
	return string(text), nil
}

func (g *Group) write(file, text string) error {
	fd, err := unix.Openat(g.fd, file, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return g.fail("write", file, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return g.fail("write "+strconv.Quote(text)+" to", file, err)
	}
	return nil
}

func (g *Group) fail(op, file string, err error) error {
	return &Error{Op: op, Object: path.Join(g.name, file), Err: err}
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
