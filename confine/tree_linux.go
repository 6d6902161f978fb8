package confine

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// The new root's own tree: it is made by plain system calls on paths below
// the working directory, since nobody else can reach it yet.

// parents makes the directories above a path.
func (a *Applier) parents(target string) error {
	dir := path.Dir(path.Clean(target)[1:])
	if a.made[dir] {
		return nil
	}
	if err := a.parents("/" + dir); err != nil {
		return err
	}
	return a.mkdir(dir)
}

func (a *Applier) mkdir(dir string) error {
	err := unix.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	a.made[dir] = true
	return nil
}

// mountPoint makes the directory or the empty file that a mount covers.
func (a *Applier) mountPoint(target string, isDir bool) error {
	if err := a.parents(target); err != nil {
		return err
	}
	name := path.Clean(target)[1:]
	if isDir {
		return a.mkdir(name)
	}
	err := unix.Mknod(name, unix.S_IFREG|0o444, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (a *Applier) makeDir(s *Step) error {
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	return unix.Chmod(relative(s.Target), s.Mode&0o777)
}

func (a *Applier) makeFile(s *Step) error {
	if err := a.parents(s.Target); err != nil {
		return err
	}
	fd, err := unix.Open(relative(s.Target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, s.Mode&0o777)
	if err != nil {
		return err
	}
	for data := s.Data; len(data) > 0 && err == nil; {
		var n int
		n, err = unix.Write(fd, data)
		data = data[max(n, 0):]
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

func (a *Applier) makeSymlink(s *Step) error {
	if err := a.parents(s.Target); err != nil {
		return err
	}
	return unix.Symlink(s.Source, relative(s.Target))
}
