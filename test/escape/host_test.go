//go:build linux

package escape

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// host is what the attacks are after: things of the host's, each made for the
// test, and two copies of one workspace, one on either side of the wall.
type host struct {
	dir     string // holds everything
	inside  string // becomes /workspace
	outside string // for the controls
	token   string // occurs nowhere else
	values  []string
}

const (
	attackerDir = "/mnt/attacker"
	spaceInside = "/workspace"
)

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{dir: hostDir(t), token: fmt.Sprintf("paddock-escape-%d-%d", os.Getpid(), time.Now().UnixNano())}
	h.inside, h.outside = filepath.Join(h.dir, "inside"), filepath.Join(h.dir, "outside")
	h.workspace(t, h.inside)
	h.workspace(t, h.outside)
	canary := filepath.Join(h.dir, "canary")
	write(t, canary, "the host's", 0o644)
	h.values = []string{
		"{canary}", canary,
		"{hostdir}", h.dir,
		"{token}", h.token,
		"{tcp}", h.listen(t, "tcp", "127.0.0.1:0"),
		"{abstract}", strings.TrimPrefix(h.listen(t, "unix", "@"+h.token), "@"),
		"{socket}", h.listen(t, "unix", filepath.Join(h.dir, "host.sock")),
		"{shm}", sharedMemory(t),
		"{mq}", messageQueue(t, h.token),
	}
	h.key(t)
	leakDirectory(t, h.dir)
	h.victim(t)
	return h
}

// hostDir is a directory that other identities can reach, as in a home.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "paddock-escape-") //nolint:usetesting // others must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// workspace makes a git repository that holds Paddock's state and agent, too.
func (h *host) workspace(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{".git/hooks", ".git/objects", ".git/refs", "bin", "sub/.vscode"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/.git/HEAD", "ref: refs/heads/main\n", 0o644)
	write(t, dir+"/.git/config", "[core]\n", 0o644)
	write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, ".envrc"), "true\n", 0o644)
	write(t, dir+"/state/secret", "of another sandbox", 0o600)
	write(t, filepath.Join(dir, "own.txt"), "the workspace's", 0o644)
	agent, err := os.ReadFile(filepath.Join(binDir, "paddock-agent"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/bin/paddock-agent", string(agent), 0o755)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

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
	if network == "unix" && addr[0] == '/' {
		if err := os.Chmod(addr, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return ln.Addr().String()
}

func sharedMemory(t *testing.T) string {
	t.Helper()
	key := 0x5a000000 | os.Getpid()&0xffffff
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
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

// victim is a process of the host's that anybody may do anything to. It gives
// the pid.
func (h *host) victim(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(binDir, "attacker"), "hold", h.token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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

// leakDirectory opens a directory as careless programs do, for their children
// to inherit: whoever started Paddock may have such a handle.
func leakDirectory(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
}

// sandbox starts one over the inside workspace.
func (h *host) sandbox(t *testing.T, network string) *wire.Client {
	t.Helper()
	spec, err := policy.Spec{
		Workspace: policy.Workspace{Source: h.inside},
		Mounts:    []policy.Mount{{Source: binDir, Target: attackerDir}},
		Network:   network,
	}.Resolve(policy.Base{Dir: h.dir, Home: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	box, err := linux.New().Start(t.Context(), backend.Request{
		Spec: spec, Agent: h.inside + "/bin/paddock-agent", StateDir: filepath.Join(h.inside, "state"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = box.Stop(context.Background(), 0) })
	return &wire.Client{Dial: box.Dial}
}

// expand puts the values of one side into an attack's arguments.
func (h *host) expand(args []string, side ...string) []string {
	r := strings.NewReplacer(append(side, h.values...)...)
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = r.Replace(a)
	}
	return out
}

// control is the attacker on the host's side; private gives it namespaces of
// its own to break.
func (h *host) control(ctx context.Context, args []string, private bool, init string) *exec.Cmd {
	args = h.expand(args, "{ws}", h.outside, "{init}", init, "{prepare}", "prepare")
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "attacker"), args...)
	cmd.Dir = h.outside
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if private {
		own := cmd.SysProcAttr
		own.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
		if os.Geteuid() != 0 {
			own.Cloneflags |= unix.CLONE_NEWUSER
			own.UidMappings = oneID(os.Getuid())
			own.GidMappings = oneID(os.Getgid())
		}
		own.Unshareflags = unix.CLONE_NEWNS // makes the mounts private
	}
	// The leaked directory reaches the control as it would any program.
	if leaked, err := os.Open(h.dir); err == nil {
		cmd.ExtraFiles = []*os.File{leaked}
	}
	return cmd
}
