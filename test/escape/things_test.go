//go:build linux

package escape

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// listen accepts connections for the length of the test and gives the address.
func (h *host) listen(t *testing.T, network, addr string) string {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	openTo(t, addr)
	return ln.Addr().String()
}

// listenPackets is listen for sockets that need no connection.
func (h *host) listenPackets(t *testing.T, network, addr string) string {
	t.Helper()
	conn, err := net.ListenPacket(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	openTo(t, addr)
	return conn.LocalAddr().String()
}

// openTo lets everybody use a socket that has a path.
func openTo(t *testing.T, addr string) {
	t.Helper()
	if filepath.IsAbs(addr) {
		if err := os.Chmod(addr, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func ipcKey() int { return 0x5a000000 | os.Getpid()&0xffff<<8 | int(serial.Add(1)&0xff) }

func sharedMemory(t *testing.T) string {
	t.Helper()
	key := ipcKey()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return strconv.Itoa(key)
}

func semaphores(t *testing.T) string {
	t.Helper()
	key := ipcKey()
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(key), 1, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if errno != 0 {
		t.Fatalf("cannot make semaphores: %v", errno)
	}
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) })
	return strconv.Itoa(key)
}

func messageQueue(t *testing.T, name string) string {
	t.Helper()
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o666, 0, 0, 0)
	runtime.KeepAlive(p)
	if errno != 0 {
		t.Fatalf("cannot make a message queue: %v", errno)
	}
	t.Cleanup(func() {
		_ = unix.Close(int(fd))
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0)
	})
	return name
}

// sharedFile is POSIX shared memory.
func (h *host) sharedFile(t *testing.T) string {
	t.Helper()
	path := "/dev/shm/" + h.token
	testkit.Write(t, path, "shared", 0o666)
	t.Cleanup(func() { _ = os.Remove(path) })
	return path
}

// key adds a key that every process of the user can find.
func (h *host) key(t *testing.T) {
	t.Helper()
	id, err := unix.AddKey("user", h.token, []byte("secret"), unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	const everything = 0x3f3f3f3f // whoever sees it may use it
	if err := unix.KeyctlSetperm(id, everything); err != nil {
		t.Fatal(err)
	}
}

// victim is a process of the host's that anybody may do anything to. It is in
// a process group of its own. It gives the pid.
func (h *host) victim(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(h.program(), "hold", h.token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if h.Level == policy.LevelLandlock && h.Who == asRoot {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = said.Read(make([]byte, 16))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // at once, for its death to be seen
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// cgroupMount is where the host has its control groups.
func cgroupMount() string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4]
		}
	}
	return "/sys/fs/cgroup"
}
