//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fact is something about the machine that numbers depend on.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func machine(b *bench) []fact {
	user := "an ordinary user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	return []fact{
		{"kernel", kernel()},
		{"cpus", fmt.Sprintf("%d × %s", runtime.NumCPU(), cpuModel())},
		{"load before", firstWords("/proc/loadavg", 3)},
		{"go", runtime.Version() + " " + runtime.GOARCH},
		{"run as", user},
		{"paddock", versionOf(b.paddock, "version")},
		{"bubblewrap", versionOf("bwrap", "--version")},
		{"crun", versionOf("crun", "--version")},
		{"runc", versionOf("runc", "--version")},
		{"inherited", "no descriptor above 2: further ones were closed before"},
	}
}

// closeInherited closes the descriptors above 2 that this process was started with: those without
// close-on-exec, which all of its own have. With a high one among them every program that it starts
// would have a large table of descriptors from the beginning, and what one spends on making it larger
// would not be measured. To mark them close-on-exec would not do: a table stays large.
func closeInherited() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot close inherited descriptors: %w", err)
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

func printFacts(w io.Writer, facts []fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "%-12s %s\n", f.Name, f.Value)
	}
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstWords(path string, n int) string {
	data, _ := os.ReadFile(path)
	words := strings.Fields(string(data))
	return strings.Join(words[:min(n, len(words))], " ")
}

// versionOf is the first line that a program prints about itself.
func versionOf(program, arg string) string {
	out, err := exec.Command(program, arg).Output()
	if err != nil {
		return "not there"
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}
