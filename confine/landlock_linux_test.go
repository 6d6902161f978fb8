package confine

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inDomain runs f on its own thread, in a Landlock domain that ends with it.
func inDomain(t *testing.T, s Step, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = restrict(&s)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func requireLandlock(t *testing.T, abi int) {
	t.Helper()
	if have := LandlockABI(); have < abi {
		t.Skipf("the kernel's Landlock ABI is %d, and this needs %d", have, abi)
	}
}

// Each kind of access grants what it says, and nothing else is granted.
func TestLandlockRules(t *testing.T) {
	requireLandlock(t, LandlockFilesABI)
	dir := t.TempDir()
	for _, name := range []string{"read", "exec", "use", "change", "all", "none"} {
		if err := os.Mkdir(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+"/f", []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+"/x", []byte("#!/nonexistent\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	trials := map[string]func(at string) error{
		"read":  func(at string) error { _, err := os.ReadFile(at + "/f"); return err },
		"list":  func(at string) error { _, err := os.ReadDir(at); return err },
		"write": func(at string) error { return os.WriteFile(at+"/f", []byte("#!/bin/sh\n"), 0o755) },
		"cut":   func(at string) error { return os.Truncate(at+"/f", 10) },
		"make":  func(at string) error { return errors.Join(os.WriteFile(at+"/new", nil, 0o644), os.Remove(at+"/new")) },
		"mkdir": func(at string) error { return errors.Join(os.Mkdir(at+"/d", 0o755), os.Remove(at+"/d")) },
		"link":  func(at string) error { return errors.Join(os.Symlink("x", at+"/l"), os.Remove(at+"/l")) },
		"fifo":  func(at string) error { return errors.Join(unix.Mkfifo(at+"/p", 0o644), os.Remove(at+"/p")) },
		// What may be executed is looked at, and found to lack its interpreter.
		"execute": func(at string) error {
			if err := unix.Exec(at+"/x", []string{"x"}, nil); !errors.Is(err, unix.ENOENT) {
				return err
			}
			return nil
		},
		"move": func(at string) error {
			return errors.Join(os.Mkdir(at+"/d", 0o755), os.Rename(at+"/f", at+"/d/f"), os.Rename(at+"/d/f", at+"/f"), os.Remove(at+"/d"))
		},
	}
	granted := map[string]string{"read": "read list", "exec": "read list execute", "use": "read list write cut", "none": "",
		"change": "read list write cut make mkdir link fifo move", "all": "read list write cut make mkdir link fifo move execute"}
	step := Step{Rules: []PathRule{{Path: dir + "/read", Access: AccessRead}, {Path: dir + "/exec", Access: AccessExec}, {Path: dir + "/use", Access: AccessUse}, {Path: dir + "/change", Access: AccessChange}, {Path: dir + "/all", Access: AccessAll}}}
	got := map[string]error{}
	inDomain(t, step, func() {
		for place := range granted {
			for name, try := range trials {
				got[place+" "+name] = try(dir + "/" + place)
			}
		}
		// /dev/null: the number 0:0 is no device, but a whiteout, which newer kernels let pass.
		got["device"] = unix.Mknod(dir+"/all/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	})
	for place, names := range granted {
		for name := range trials {
			may := strings.Contains(" "+names+" ", " "+name+" ")
			if err := got[place+" "+name]; may && err != nil || !may && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EXDEV) {
				if name == "cut" && LandlockABI() < 3 {
					continue // not bounded yet
				}
				t.Errorf("%s in %s: %v", name, place, err)
			}
		}
	}
	if err := got["device"]; !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		t.Errorf("a device is made: %v", err)
	}
	if _, err := os.ReadFile(dir + "/none/f"); err != nil {
		t.Errorf("another thread is in the domain: %v", err)
	}
}

// With the flag, no port can be bound or connected to.
func TestLandlockTCP(t *testing.T) {
	requireLandlock(t, 4)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	var bound, connected error
	inDomain(t, Step{Flags: []string{FlagTCP}}, func() {
		fd, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		defer unix.Close(fd)
		bound = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		connected = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
	})
	if !errors.Is(bound, unix.EACCES) || !errors.Is(connected, unix.EACCES) {
		t.Errorf("bind: %v; connect: %v", bound, connected)
	}
}

func TestLandlockThatCannotBe(t *testing.T) {
	requireLandlock(t, LandlockFilesABI)
	for says, s := range map[string]Step{
		"unknown scope":             {Flags: []string{"all"}},
		"unknown access":            {Rules: []PathRule{{Path: "/", Access: "most"}}},
		"no such file or directory": {Rules: []PathRule{{Path: "/nonexistent", Access: AccessRead}}},
	} {
		if err := restrict(&s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// With the kernel's right to resolve sockets, those that processes outside have made answer only where a
// rule says so, and own ones everywhere.
func TestLandlockSockets(t *testing.T) {
	if landlockAccess[AccessConnect] != 1<<16 { // include/uapi/linux/landlock.h
		t.Errorf("the right to resolve sockets is %#x", landlockAccess[AccessConnect])
	}
	requireLandlock(t, LandlockSocketsABI)
	dir := t.TempDir()
	for _, name := range []string{"closed", "open"} {
		if err := os.Mkdir(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", dir+"/"+name+"/s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	dial := func(at string) error {
		c, err := net.Dial("unix", at)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := errors.Join(dial(dir+"/closed/s"), dial(dir+"/open/s")); err != nil {
		t.Fatal(err)
	}
	step := Step{Flags: []string{FlagSockets}, Rules: []PathRule{{Path: dir, Access: AccessAll}, {Path: dir + "/open", Access: AccessConnect}}}
	var closed, open, own error
	inDomain(t, step, func() {
		closed, open = dial(dir+"/closed/s"), dial(dir+"/open/s")
		l, err := net.Listen("unix", dir+"/closed/own")
		if own = err; err == nil {
			own = dial(dir + "/closed/own")
			_ = l.Close()
		}
	})
	if !errors.Is(closed, unix.EACCES) || open != nil || own != nil {
		t.Errorf("closed: %v, open: %v, its own: %v", closed, open, own)
	}
}
