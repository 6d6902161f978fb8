//go:build linux

package engines

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ownNamespace asks for a session and a mount namespace; Go makes all mounts of
// the new one private.
func ownNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS}
}

// Kill ends the daemon at once, as a crash would, and waits for its end.
func (e *Engine) Kill() {
	_ = e.daemon.Process.Kill()
	<-e.ended
}

// Close ends what was started and removes what was made.
func (e *Engine) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if e.dir == "" || e.daemon == nil {
		for _, name := range e.own {
			_, _ = e.Run(ctx, nil, "rmi", "--force", name)
		}
	}
	if e.dir == "" {
		return
	}
	e.stopDaemon()
	e.endRest()
	_ = os.RemoveAll(e.dir)
	e.removeGroups()
}

// stopDaemon ends the daemon in an orderly way, and by force after 15 s.
func (e *Engine) stopDaemon() {
	if e.daemon == nil {
		return
	}
	_ = e.daemon.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(15 * time.Second):
		e.Kill()
	}
	_ = os.Remove(e.dir + "/pid")
}

// endRest kills what a daemon or podman has left behind: every process whose
// command line names this engine's own directory, which is nobody else's.
func (e *Engine) endRest() {
	for range 100 {
		pids := e.processes()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (e *Engine) processes() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(e.dir+"/")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeGroups removes the control groups below which the engine made its own.
// Only empty ones can be removed.
func (e *Engine) removeGroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + e.groups)
		for _, dir := range found {
			removeGroup(dir)
		}
	}
}

func removeGroup(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			removeGroup(filepath.Join(dir, entry.Name()))
		}
	}
	_ = syscall.Rmdir(dir)
}
