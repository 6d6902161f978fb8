//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Attacks that need the right moment. Each tries for as long as args[0] says.
var _ = register(map[string]attack{
	"exec-start": execStart,
	"swap":       swap,
})

// execStart looks for a process that is another program than those that are
// known, the own one and the files args[1:]: one that was just cloned from the
// agent, and has not yet executed its program.
func execStart(args []string) (string, error) {
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	known := map[[2]uint64]bool{}
	for _, path := range append(args[1:], "/proc/self/exe") {
		if id, err := identity(path); err == nil {
			known[id] = true
		}
	}
	last := errors.New("no other program was seen")
	for began := time.Now(); time.Since(began) < limit; {
		links, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return "", err
		}
		for _, link := range links {
			id, err := identity(link)
			if err != nil || known[id] {
				continue
			}
			if f, err := os.Open(link); err == nil {
				return "opened " + link, f.Close()
			}
			if f, err := os.OpenFile(filepath.Dir(link)+"/mem", os.O_RDWR, 0); err == nil {
				return "opened the memory of " + link, f.Close()
			}
		}
	}
	return "", last
}

func identity(path string) ([2]uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return [2]uint64{st.Dev, st.Ino}, err
}

// swap exchanges two names, args[1] and args[2], again and again.
func swap(args []string) (string, error) {
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	fmt.Println("swapping")
	for began := time.Now(); time.Since(began) < limit; {
		if err := unix.Renameat2(unix.AT_FDCWD, args[1], unix.AT_FDCWD, args[2], unix.RENAME_EXCHANGE); err != nil {
			return "", err
		}
	}
	return "", nil
}
