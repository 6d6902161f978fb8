//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("BENCH_TEST_INHERITS") == "" {
		os.Exit(m.Run())
	}
	if err := closeInherited(); err != nil {
		panic(err)
	}
	out, err := exec.Command("grep", "FDSize", "/proc/self/status").CombinedOutput()
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(out)
}

// What the bench inherits does not make the tables of the programs that it measures large, whatever it
// is: a file, or a poller as the run-time's own.
func TestCloseInherited(t *testing.T) {
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{"a file": null, "a poller": os.NewFile(uintptr(poller), "poller")} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "BENCH_TEST_INHERITS=1")
		cmd.ExtraFiles = make([]*os.File, heldFD-2)
		cmd.ExtraFiles[heldFD-3] = f
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "FDSize:\t64" {
			t.Errorf("with %s: %q, %v; want a table of 64", name, out, err)
		}
		_ = f.Close()
	}
}

// Each run holds a descriptor: one that an earlier run has closed would measure the other case.
func TestHolding(t *testing.T) {
	dir := t.TempDir()
	b := &bench{paddock: filepath.Join(dir, "paddock")}
	if err := os.WriteFile(b.paddock, []byte("#!/bin/sh\n[ -e /proc/$$/fd/251 ] && echo held\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, out, err := finish(t.Context(), b.holding, "true"); err != nil || out != "held\n" {
			t.Errorf("it printed %q, %v; want that it holds 251", out, err)
		}
	}
}
