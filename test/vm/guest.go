package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// modeWord begins the word of the kernel's command line that says what the
// machine is for. Where there is none, this is no machine of ours.
const modeWord = "paddock.vm="

// What a machine is for.
const (
	modeSuites = "suites" // run the tests of the packages
	modeAgent  = "agent"  // be an agent as process 1
)

// asInit is process 1 of a machine. It does nothing unless it is sure of that:
// on a host it would mount over the host's directories.
func asInit() {
	mode, err := findMode()
	if err == nil {
		err = loadModules()
	}
	switch {
	case err != nil:
	case mode == modeSuites:
		err = serveSuites()
	case mode == modeAgent:
		err = becomeAgent()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// refuse is the end of an init that is none: nothing is mounted, nothing is
// switched off.
func refuse(why string) {
	fmt.Fprintln(os.Stderr, "init: this is no machine that test-vm has made:", why)
	os.Exit(1)
}

// findMode makes sure that this is a machine of ours, and tells what it is for.
func findMode() (string, error) {
	var root unix.Statfs_t
	if err := unix.Statfs("/", &root); err != nil || root.Type != unix.TMPFS_MAGIC && root.Type != unix.RAMFS_MAGIC {
		refuse("its root is on a disk")
	}
	line, err := os.ReadFile("/proc/cmdline")
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/modules"); err != nil {
			refuse("it brings no modules")
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return "", fmt.Errorf("cannot mount /proc: %w", err)
		}
		line, err = os.ReadFile("/proc/cmdline")
	}
	if err != nil {
		refuse(err.Error())
	}
	for _, mode := range []string{modeSuites, modeAgent} {
		if slices.Contains(strings.Fields(string(line)), modeWord+mode) {
			return mode, nil
		}
	}
	refuse("the kernel's command line does not say " + modeWord)
	return "", nil
}

// loadModules loads what was packed for this kernel.
func loadModules() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	dir := "/modules/" + unix.ByteSliceToString(name.Release[:])
	for _, module := range wanted {
		files, _ := filepath.Glob(dir + "/" + module + ".ko*")
		for _, file := range files {
			if err := loadModule(file); err != nil {
				return fmt.Errorf("cannot load %s: %w", module, err)
			}
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// becomeAgent makes the agent process 1, of a root where nothing is mounted.
func becomeAgent() error {
	if err := unix.Unmount("/proc", 0); err != nil {
		return err
	}
	args := append([]string{"/usr/bin/paddock-agent", "--init"}, agentFlags...)
	return unix.Exec(args[0], args, []string{"PATH=/usr/bin"})
}
