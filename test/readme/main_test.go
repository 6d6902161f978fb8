//go:build linux

// Package readme runs the README and the pages of docs as somebody who has just met
// Paddock would: every command in them, literally, in a new Debian with what the
// README asks for, as an ordinary user with the official Go. What the commands must
// do is in one table (rows_test.go), which also says why some are not run: a command
// without a row fails, and so does a row without a command. "make readme-deps" makes the Debian, "make test-readme" runs this.
//
// The Debian is entered by pivot_root, from new mount, pid, ipc and network
// namespaces that the machine's own user namespace owns: so /proc is whole, and
// an ordinary user may make user namespaces there. The network is the loopback
// alone, where the README's example.com is served. All of it ends with the test,
// however that ends; .cache/readme/run is removed by it, or by the next one.
package readme

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stage is how far this process is on its way into the Debian.
const stage = "PADDOCK_README_STAGE"

// wanted is set where nothing may be skipped.
var wanted = os.Getenv("PADDOCK_TEST_README") != ""

// inside is set in the Debian.
var inside = os.Getenv(stage) == "inside"

func TestMain(m *testing.M) {
	var status int
	var err error
	switch {
	case os.Getenv(stage) == "init":
		status, err = initialize()
	case wanted && !inside:
		status, err = enter()
	default:
		status = m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// enter runs this test again, as the first process of new namespaces.
func enter() (int, error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("the README cannot be run: pivot_root needs root")
	}
	cache, err := filepath.Abs("../../.cache/readme")
	if err != nil {
		return 1, err
	}
	if _, err := os.Stat(filepath.Join(cache, "go", "bin", "go")); err != nil {
		return 1, fmt.Errorf("the README cannot be run: there is no Debian for it (%w): make readme-deps", err)
	}
	lock, err := os.Create(filepath.Join(cache, "lock"))
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return 1, fmt.Errorf("the README is being run already: %w", err)
	}
	run := filepath.Join(cache, "run")
	if err := os.RemoveAll(run); err != nil {
		return 1, err
	}
	defer os.RemoveAll(run)
	if err := furnish(cache, run); err != nil {
		return 1, err
	}
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return 1, err
	}
	cmd := again("init")
	cmd.Env = append(cmd.Env, "README_ROOT="+run, "README_GO="+filepath.Join(cache, "go"), "README_BUILD="+filepath.Join(cache, "build"),
		"README_MODULES="+filepath.Join(strings.TrimSpace(string(modules)), "cache", "download"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	return status(cmd.Run())
}

// again is this program with the same arguments, at another stage. What is left
// out is of the go command's, and names a file of the machine.
func again(next string) *exec.Cmd {
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile=") })
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), stage+"="+next)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

func status(err error) (int, error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// furnish copies the Debian to a directory, with the tree as a clone in the home
// of its user, and whatever is changed in the tree.
func furnish(cache, root string) error {
	home := filepath.Join(root, home)
	clone := filepath.Join(home, "paddock")
	for _, args := range [][]string{
		{"make", "modules"},
		{"cp", "-a", "--reflink=auto", filepath.Join(cache, "root"), root},
		{"git", "-c", "safe.directory=*", "clone", "--quiet", "--no-local", ".", clone}, // --no-local: no file is shared with the tree
		{"sh", "-c", `git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || echo "$f"; done' sh | tar -cf - -T - | tar -xf - -C "$0"`, clone},
		{"env", "GOWORK=off", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
			"go", "-C", "release", "run", ".", "-proxy", "-version", "v0.9.9", "-out", root + "/srv/paddock"},
		{"mkdir", "-p", root + "/usr/local/go", root + "/srv/modules", home + "/.cache/go-build", cache + "/build"},
		// What this machine has compiled serves the same Go there. Links where the file
		// system has them: the directories are the user's, the files stay root's.
		{"sh", "-c", `[ -n "$(ls "$0")" ] || cp -al "$(go env GOCACHE)/." "$0" 2>/dev/null || cp -r "$(go env GOCACHE)/." "$0"`, cache + "/build"},
		{"find", cache + "/build", "-type", "d", "-exec", "chown", "1000:1000", "{}", "+"},
		{"chown", "-R", "1000:1000", home},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot furnish %s: %s: %w\n%s", root, args[0], err, out)
		}
	}
	return nil
}

// initialize makes the Debian the root of these namespaces, and is their first
// process until the test in it has ended: it awaits what has lost its parent.
func initialize() (int, error) {
	if err := pivot(os.Getenv("README_ROOT")); err != nil {
		return 1, fmt.Errorf("cannot enter the Debian: %w", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("cannot bring the loopback up: %w\n%s", err, out)
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	cmd := again("inside")
	cmd.Env = append(cmd.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	for {
		var ended syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ended, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 1, err
		case pid == cmd.Process.Pid && ended.Exited():
			return ended.ExitStatus(), nil
		case pid == cmd.Process.Pid:
			return 1, fmt.Errorf("the test ended by signal %v", ended.Signal())
		}
	}
}

// pivot makes a directory the root, with the file systems that a machine has.
func pivot(root string) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		options              string
	}
	for _, m := range []mount{
		{target: "/", flags: unix.MS_REC | unix.MS_PRIVATE},
		{source: root, target: root, flags: unix.MS_BIND},
		{source: os.Getenv("README_GO"), target: root + "/usr/local/go", flags: unix.MS_BIND},
		{source: os.Getenv("README_MODULES"), target: root + "/srv/modules", flags: unix.MS_BIND},
		{source: os.Getenv("README_BUILD"), target: root + home + "/.cache/go-build", flags: unix.MS_BIND}, // compiled by the last run
		{target: root + "/usr/local/go", flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		{target: root + "/srv/modules", flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		{"proc", root + "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", root + "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"cgroup2", root + "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", root + "/dev", "tmpfs", unix.MS_NOSUID, "mode=755"},
		{"tmpfs", root + "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", root + "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	unix.Umask(0)
	defer unix.Umask(0o022)
	for name, number := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod(root+"/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, number))); err != nil {
			return fmt.Errorf("mknod %s: %w", name, err)
		}
	}
	if err := unix.Mknod(root+"/dev/tty", unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))); err != nil {
		return fmt.Errorf("mknod tty: %w", err)
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, root+"/dev/"+name); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"devpts", root + "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,gid=5,mode=620,ptmxmode=666"},
		{"tmpfs", root + "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := os.Mkdir(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	return unix.Chdir("/")
}
