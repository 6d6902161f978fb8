//go:build linux

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Calls that newer architectures do not have, and other ways into the kernel.
var _ = register(map[string]attack{
	"setid-chmod": only(func([]string) error {
		return plant(func(p string) error { return errors.Join(touch(p), second(call(unix.SYS_CHMOD, cstring(p), 0o6755))) })
	}),
	"setid-open": only(func([]string) error {
		return plant(func(p string) error {
			return second(call(unix.SYS_OPEN, cstring(p), unix.O_CREAT|unix.O_WRONLY, 0o6755))
		})
	}),
	"setid-creat": only(func([]string) error {
		return plant(func(p string) error { return second(call(unix.SYS_CREAT, cstring(p), 0o6755)) })
	}),
	"setid-mkdir": only(func([]string) error {
		return plant(func(p string) error { return second(call(unix.SYS_MKDIR, cstring(p), 0o6755)) })
	}),
	"setid-mknod": only(func([]string) error {
		return plant(func(p string) error { return second(call(unix.SYS_MKNOD, cstring(p), unix.S_IFREG|0o6755, 0)) })
	}),
	"x32":   raw(0x40000000 | unix.SYS_GETPID),
	"int80": int80,
	"iopl":  raw(unix.SYS_IOPL, 0),
})

// int80Getpid asks the 32-bit table for a process id. Kernels without one
// answer with a fault, which ends the program.
func int80Getpid() int32

func int80([]string) (string, error) {
	if pid := int80Getpid(); pid < 0 {
		return "", unix.Errno(-pid)
	}
	return "the 32-bit table answers", nil
}
