package audit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// childEnv makes the test program append records instead of testing.
const childEnv = "PADDOCK_AUDIT_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		child(strings.Fields(job))
		return
	}
	os.Exit(m.Run())
}

// child is "append DIR COUNT SIZE", "begin DIR", "full DIR", or "killed DIR".
func child(job []string) {
	log := At(job[1], Options{MaxSize: minSize, Keep: 4})
	switch job[0] {
	case "append":
		count, _ := strconv.Atoi(job[2])
		size, _ := strconv.Atoi(job[3])
		for range count {
			r, err := log.AppendSync(context.Background(), call(size))
			if err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Println(r.Seq, r.Hash)
		}
	case "begin":
		r, err := log.Append(context.Background(), Record{Kind: KindBegin, Principal: "local:me", Op: "run"})
		fmt.Println(r.Seq, err)
		time.Sleep(time.Hour) // until it is killed
	case "full", "killed":
		if job[0] == "killed" {
			dieAtLimit()
		}
		limit := syscall.Rlimit{Cur: 1000, Max: 1000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, err := log.Append(context.Background(), call(2000))
		fmt.Println(err)
	}
}

// start runs a child; its lines come through the scanner.
func start(t *testing.T, job ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(job, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// call is a record with arguments of a size.
func call(size int) Record {
	args := `{"argv":["` + strings.Repeat("x", size) + `"]}`
	return Record{Kind: KindCall, Principal: "local:me", Op: "run", Args: []byte(args), Outcome: OutcomeOK}
}

// newLog has n small records in it.
func newLog(t *testing.T, n int) (*Log, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	log := At(dir, Options{MaxSize: minSize, Keep: 4})
	t.Cleanup(func() { _ = log.Close() })
	add(t, log, n, 10)
	return log, dir
}

func add(t *testing.T, log *Log, n, size int) Record {
	t.Helper()
	var last Record
	for range n {
		var err error
		if last, err = log.Append(t.Context(), call(size)); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func verify(t *testing.T, dir, head string) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, head)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dieAtLimit has the kernel end this process where a file would become too
// large, which the runtime makes an error otherwise.
func dieAtLimit() {
	var fallback [4]uint64 // a struct sigaction that asks for the default
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGXFSZ), uintptr(unsafe.Pointer(&fallback)), 0, 8, 0, 0)
	if errno != 0 {
		fmt.Println(errno)
	}
}

func read(t *testing.T, dir string, number int) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, fileName(number)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, dir string, number int, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, fileName(number)), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
