package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// machine is a virtual machine, emulated: nothing of it needs KVM.
type machine struct {
	dir     string // of its sockets
	console console
	ended   chan struct{} // closed when QEMU has ended
	err     error         // how; to be read once ended
	cancel  context.CancelFunc
}

// machineConfig says what a machine is started with.
type machineConfig struct {
	kernel kernel
	root   string // the first root, as packRoot makes it
	disk   string // an empty file system, which is left as it is
	mode   string // what its init is to do
	limit  time.Duration
	order  order    // of one that runs suites
	ports  []string // names of virtio-serial ports
	dir    string
}

// cpu is without CMPXCHG16B, which QEMU 7.2 emulates in a way that spoils the
// flags: kernels that allocate memory with it crash now and then. Nor has it what
// costs a tenth of an emulated processor's time and is tested nowhere: a fifth
// level of page tables, and checks of the kernel's own accesses.
const cpu = "max,cx16=off,la57=off,smap=off"

// processors is how many a machine has. Machines of two kernels share this host;
// a second one made a machine slower by half, because processors that are
// emulated wait for each other, and because the kernel then trusts no clock
// that can be read without leaving the machine.
const processors = "1"

// boot starts a machine. At the end of ctx it is killed.
func boot(ctx context.Context, c machineConfig) (*machine, error) {
	args := []string{
		"-accel", "tcg,thread=multi", "-cpu", cpu, "-M", "pc", "-m", "2048", "-smp", processors, "-no-reboot", "-nodefaults", "-display", "none",
		"-serial", "stdio", "-device", "virtio-serial-pci",
		"-drive", "file=" + c.disk + ",if=virtio,format=raw,snapshot=on",
		"-kernel", c.kernel.image, "-initrd", c.root,
		// The kernel counts ticks of the emulated timer in a loop at its start, and panics where
		// this host gave the machine too little time for them.
		"-append", "console=ttyS0 quiet panic=-1 no_timer_check " + modeWord + c.mode,
	}
	for _, name := range c.ports {
		args = append(args, "-chardev", "socket,path="+filepath.Join(c.dir, name)+",server=on,wait=off,id="+name,
			"-device", "virtserialport,chardev="+name+",name="+name)
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &machine{dir: c.dir, ended: make(chan struct{}), cancel: cancel}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = &m.console, &m.console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the machine dies with the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			m.err = cmd.Wait()
			close(m.ended)
		}
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, fmt.Errorf("cannot start a machine: %w", err)
	}
	return m, nil
}

// kill ends the machine and waits for that.
func (m *machine) kill() {
	m.cancel()
	<-m.ended
}

// port opens the host's end of a port.
func (m *machine) port(ctx context.Context, name string) (net.Conn, error) {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.dir, name))
		if err == nil {
			return conn, nil
		}
		select { // QEMU says nowhere that its sockets are there
		case <-time.After(10 * time.Millisecond):
		case <-m.ended:
			return nil, m.state()
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot reach the machine: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// state says what became of the machine, for an error.
func (m *machine) state() error {
	how := "the machine still runs"
	select {
	case <-m.ended:
		how = "the machine has ended"
		if m.err != nil {
			how += ": " + m.err.Error()
		}
	default:
	}
	return fmt.Errorf("%s; its console's last lines:\n%s", how, m.console.last(40))
}

// console keeps the end of what a machine prints.
type console struct {
	mu   sync.Mutex
	text []byte
}

// Write takes what QEMU prints.
func (c *console) Write(b []byte) (int, error) {
	const most = 64 << 10
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	if n := len(c.text); n > most {
		c.text = append([]byte(nil), c.text[n-most/2:]...)
	}
	return len(b), nil
}

// last gives the last lines.
func (c *console) last(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(bytes.ToValidUTF8(c.text, nil)), "\r\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
