package script

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// bulk is how much a command prints here, in bytes.
const bulk = 300 << 20

// memoryBound is what the program and its agent may use meanwhile, in bytes.
const memoryBound = 32 << 20

// randomFile makes a file of bulk bytes and gives their checksum.
func randomFile(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, sum), rand.NewChaCha8([32]byte{2}), bulk); err != nil {
		t.Fatal(err)
	}
	return sum.Sum(nil)
}

// memoryPeak is the most memory that a process has used, 0 where it is gone.
func memoryPeak(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	value, _, _ := strings.Cut(after, " kB")
	kilobytes, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	return kilobytes << 10
}

// agentOf finds the agent of a program that runs.
func agentOf(pid int) int {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			name, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if strings.Contains(string(name), "paddock-agent") {
				return child
			}
		}
	}
	return 0
}

func TestBulkOutputIsWhole(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := paddockCommand(t, "run", "--", "cat", "big")
	want := randomFile(t, filepath.Join(cmd.Dir, "big"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, out, bulk/2); err != nil {
		t.Fatal(err)
	}
	// The command cannot go on before we do, so both live.
	agent := agentOf(cmd.Process.Pid)
	for name, used := range map[string]int64{"paddock": memoryPeak(cmd.Process.Pid), "the agent": memoryPeak(agent)} {
		if used == 0 || used > memoryBound {
			t.Errorf("%s has used %d bytes", name, used)
		}
	}
	if _, err := io.Copy(sum, out); err != nil {
		t.Fatal(err)
	}
	if status := waitStatus(t, cmd); status != 0 || !bytes.Equal(sum.Sum(nil), want) {
		t.Errorf("exit status %d, or other bytes came than were printed", status)
	}
}

// Where both streams go into one pipe, what was printed first comes first.
func TestOneStreamForBothKeepsTheOrder(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := paddockCommand(t, "run", "--", "sh", "-c", `i=0; while [ $i -lt 2000 ]; do echo $i; echo $((i+1)) >&2; i=$((i+2)); done; exit 6`)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out // one pipe, as 2>&1 makes it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if status := waitStatus(t, cmd); status != 6 {
		t.Errorf("exit status %d", status)
	}
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintln(&want, i)
	}
	if out.String() != want.String() {
		t.Errorf("another order: %.400q", out.String())
	}
}

// A command can open its own output by name, and the caller's pipe not at all.
func TestOutputByName(t *testing.T) {
	boxtest.RequireWalls(t)
	cmd := exec.Command("sh", "-c", `cd "$1" && { "$0" run -- sh -c "echo out >/dev/stdout; echo err >/dev/stderr; stat -Lc %i /proc/self/fd/1"; stat -Lc %i /proc/self/fd/1; } 2>&1 | cat`,
		binDir+"/paddock", t.TempDir())
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+stateDir)
	out, err := cmd.CombinedOutput()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 4 || lines[0] != "out" || lines[1] != "err" || lines[2] == lines[3] {
		t.Errorf("got %q, %v", out, err)
	}
}
