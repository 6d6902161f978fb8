package namespace

import (
	"errors"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// running is a helper.
type running struct {
	cmd     *exec.Cmd
	control *os.File
	streams streams
	killed  bool // on the caller's behalf
}

func startHelper(c *Command, target int, g *group) (*running, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(pair[0], true) // so that a deadline works
	r := &running{control: os.NewFile(uintptr(pair[0]), "control")}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	defer null.Close()
	r.cmd = exec.Command("/proc/self/exe")
	r.cmd.Args = []string{helperName}
	r.cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	r.cmd.ExtraFiles = []*os.File{theirs, null, null}
	if target >= 0 {
		f, err := dup(target)
		if err != nil {
			return nil, errors.Join(err, r.control.Close())
		}
		defer f.Close()
		r.cmd.ExtraFiles[targetFD-controlFD] = f
	}
	if g != nil {
		f, err := dup(g.FD())
		if err != nil {
			return nil, errors.Join(err, r.control.Close())
		}
		defer f.Close()
		r.cmd.ExtraFiles[groupFD-controlFD] = f
	}
	defer r.streams.started()
	if err := r.streams.attach(r.cmd, c, null); err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	return r, nil
}

func dup(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), ""), nil
}
