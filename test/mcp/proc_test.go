//go:build linux

package mcp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// patience is how long something that must happen may take on a slow machine.
const patience = testkit.Patience

func itoa(n int) string { return strconv.Itoa(n) }

var marks int

// newMark is a text that occurs nowhere else on the host.
func newMark() string {
	marks++
	return fmt.Sprintf("%d.%d", 400_000_000+os.Getpid(), 100+marks)
}

// marked are the processes of the host with this text in their arguments.
func marked(mark string) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if cmdline, err := os.ReadFile(path); err == nil && bytes.Contains(cmdline, []byte(mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status is a number of /proc/PID/status; memory is in KiB there.
func status(t *testing.T, pid int, name string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if key, value, ok := bytes.Cut(line, []byte{':'}); ok && string(key) == name {
			n, err := strconv.Atoi(string(bytes.Fields(value)[0]))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", data, name)
	return 0
}
