//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/text"
)

const (
	// settle is how long a directory whose lock is free may belong to a process
	// that has not taken the lock yet.
	settle = 10 * time.Second
	// cleanupTime is how long each clean-up command may take.
	cleanupTime = 10 * time.Second
	// cleanupPause is how long a sandbox is left alone if its clean-up commands
	// could not be run, so that not every start waits for them.
	cleanupPause = time.Minute
)

// Sweeper removes the resources of a sandbox, whose owner is dead, outside of its directory.
// path is the directory, and r its record, nil if that was not written. It reports
// whether the directory can be removed.
type Sweeper func(path string, r *Record) bool

// swept is how many sandboxes a sweep looks at, and how many lent ids.
const swept = 24

// Sweep removes the sandboxes of killed processes below root, and frees the host ids of those
// that are gone: of many, a part ([Some]). It ends sandboxes with a
// keeper itself; sweeper ends the others, which stay if it is nil. Directories that
// no backend has made stay too: see [Refused].
func Sweep(root string, sweeper Sweeper) {
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return // New refuses to start
	}
	defer dir.Close()
	for _, id := range Some(dir, swept) {
		path := Path(root, id)
		if !IsID(id) {
			continue
		}
		if Exists(filepath.Join(path, recordName)) {
			if owned(path) {
				continue
			}
		} else if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) < settle || !halfMade(path) {
			continue
		}
		lock, err := takeLock(path)
		if err != nil {
			continue
		}
		if endAbandoned(root, path, sweeper) {
			_ = dir.RemoveAll(id) // follows no link
		}
		_ = lock.Close()
	}
	sweepIDs(root)
}

// owned reports whether a process has the lock of a sandbox's directory. It is the quick check of
// what takeLock finds out with care.
func owned(path string) bool {
	fd, err := unix.Open(filepath.Join(path, lockName), unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// EndOne does what Sweep does with the sandbox of this id alone, and at once. It reports whether
// nothing is left of it.
func EndOne(root, id string, sweeper Sweeper) bool {
	path := Path(root, id)
	if !Exists(path) {
		return true
	}
	lock, err := takeLock(path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer lock.Close()
	if !endAbandoned(root, path, sweeper) {
		return false
	}
	dir, err := OpenDir(root, sandboxesDir)
	if err != nil {
		return false
	}
	defer dir.Close()
	return dir.RemoveAll(id) == nil
}

// endAbandoned ends the rest of a sandbox, and reports whether nothing is left of it.
func endAbandoned(root, path string, sweeper Sweeper) bool {
	r, err := Read(path)
	switch {
	case err == nil && r.Kept:
		return EndProcess(r.PID, r.Start) && cleanUp(root, path, r.Cleanup)
	case sweeper == nil:
		return false
	case errors.Is(err, os.ErrNotExist) && halfMade(path), errors.Is(err, errDamaged):
		r = nil
	case err != nil:
		return false // Refused reports it
	}
	return sweeper(path, r)
}

// Exists reports whether something exists at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// EndProcess kills the process with this pid and start time, waits up to 2 s for its
// end, and reports whether it has ended. It leaves another process that has the same
// pid by now alone.
func EndProcess(pid int, start uint64) (ended bool) {
	if pid <= 1 || start == 0 {
		return true
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if now, err := StartTime(pid); err != nil || now != start {
		return true
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 2000)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}

// EngineVariables are the caller's variables that the command line of a container engine
// gets, to find its engine. It gets no others, because the engine might pass them on.
var EngineVariables = []string{
	"PATH", "HOME", "USER", "TMPDIR", "LANG",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
	"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE",
	"CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "STORAGE_DRIVER", "STORAGE_OPTS",
	"CONTAINERD_ADDRESS", "CONTAINERD_NAMESPACE", "NERDCTL_TOML",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
}

// engineCleanup matches the arguments of an engine's clean-up command.
var engineCleanup = lazyregexp.New(`^(stop -t 0|rm --force --volumes|volume rm --force) paddock-[a-z0-9]+$|^rm --force paddock-[a-z0-9]+-load$`)

// cleanUp runs the clean-up commands of a killed keeper, and reports whether all could be
// run. It ignores their status: most find nothing to do.
func cleanUp(root, path string, commands [][]string) bool {
	tried := filepath.Join(path, "tried") // made when an attempt has failed
	if info, err := os.Lstat(tried); err == nil && time.Since(info.ModTime()) < cleanupPause {
		return false
	}
	for _, argv := range commands {
		if checkCleanup(root, argv) != nil {
			return false // Refused reports it
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		failed := ctx.Err() != nil
		cancel()
		var exit *exec.ExitError
		if failed || err != nil && !errors.As(err, &exit) {
			_ = hostpath.Replace(tried, 0o600, nil)
			return false
		}
	}
	return true
}

// checkCleanup refuses a command that no backend writes into a record. Otherwise
// somebody who could once write a record could have any command run. Backends write
//
//	/usr/bin/rm -rf -- STATE/codex/sandbox-NAME
//	/usr/bin/env -i NAME=VALUE… ENGINE stop -t 0 paddock-ID, and the like
//
// with programs that no sandbox could have written.
func checkCleanup(root string, argv []string) error {
	if len(argv) == 4 && filepath.Base(argv[0]) == "rm" && argv[1] == "-rf" && argv[2] == "--" {
		name, ok := strings.CutPrefix(argv[3], filepath.Join(root, HomesDir, "sandbox-"))
		if !ok || strings.Contains(name, "/") {
			return fmt.Errorf("%s is not the directory of a sandbox", argv[3])
		}
		if dir, err := OpenDir(root, HomesDir); err == nil {
			_ = dir.Close()
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return trusted(root, argv[0])
	}
	if len(argv) > 2 && filepath.Base(argv[0]) == "env" && argv[1] == "-i" {
		if err := trusted(root, argv[0]); err != nil {
			return err
		}
		for argv = argv[2:]; len(argv) > 0; argv = argv[1:] {
			name, _, assigned := strings.Cut(argv[0], "=")
			if !assigned || strings.Contains(name, "/") {
				break
			}
			if !slices.Contains(EngineVariables, name) {
				return fmt.Errorf("the variable %s does not belong to an engine", name)
			}
		}
	}
	if len(argv) < 2 || !engineCleanup().MatchString(strings.Join(argv[1:], " ")) {
		return fmt.Errorf("no backend writes %q", argv)
	}
	return trusted(root, argv[0])
}

// trusted refuses a program that commands of a sandbox could have written.
func trusted(root, program string) error {
	if !filepath.IsAbs(program) {
		return fmt.Errorf("%s is not an absolute path", program)
	}
	if e := (*backend.StartError)(nil); errors.As(hostpath.Program("state", root, program, program, nil), &e) {
		return fmt.Errorf("cannot execute %s: %s", e.Object, e.Cause)
	}
	return nil
}

// Refused returns, for each directory below root that Sweep leaves alone, why: its record
// names clean-up commands that no backend writes, or is not a regular file.
func Refused(root string) []string {
	var told []string
	for _, path := range paths(root) {
		r, err := Read(path)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDamaged) {
				told = append(told, text.Escape(path+": "+recordName+": "+hostpath.Reason(err)))
			}
			continue
		}
		if !r.Kept {
			continue
		}
		for _, argv := range r.Cleanup {
			if err := checkCleanup(root, argv); err != nil {
				told = append(told, text.Escape(path+": "+err.Error()))
				break
			}
		}
	}
	return told
}
