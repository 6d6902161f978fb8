//go:build linux

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ways to outlive the command that one was started by. args[0] is for the
// daemon to be found by; args[1], where there is one, is a way.
var _ = register(map[string]attack{
	"daemon": only(func(args []string) error { return daemon(args[0], args[1]) }),
	"linger": linger,
	"chain":  chain,
})

// daemon starts one and says when it is there.
func daemon(token, way string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	c := exec.Command(self, "linger", token)
	c.Env = []string{} // an environment may be a mark
	c.ExtraFiles = []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch way {
	case "child":
	case "double": // a parent in between, which ends
		c.Args = []string{self, "daemon", token, "child"}
	case "sibling": // a child of the own parent's
		c.SysProcAttr.Cloneflags = unix.CLONE_PARENT
	case "chain": // another process every moment
		c.Args = []string{self, "chain", token}
	}
	if err := c.Start(); err != nil {
		return err
	}
	if way == "double" {
		return c.Wait()
	}
	_ = w.Close()
	_, err = r.Read(make([]byte, 1))
	return err
}

// linger ignores whatever can be ignored and stays.
func linger([]string) (string, error) {
	signal.Ignore()
	ready := os.NewFile(3, "ready")
	_, _ = ready.Write([]byte("x"))
	_ = ready.Close()
	time.Sleep(time.Hour)
	return "", nil
}

// chain starts itself again and again, and each ends when the next is there.
// The first says so. No look at the processes is sure to meet one, so each
// also makes a file longer, named like the token.
func chain(args []string) (string, error) {
	signal.Ignore()
	ready := os.NewFile(3, "ready")
	_, _ = ready.Write([]byte("x"))
	_ = ready.Close()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if trace, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		_, _ = trace.Write([]byte("x"))
		_ = trace.Close()
	}
	_, err = os.StartProcess(self, []string{self, "chain", args[0]}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nil, nil, nil}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return "", err
}
