package descent

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is also the subreaper of the test, which the kernel asks of a whole
// process.
func TestMain(m *testing.M) {
	if os.Getenv("DESCENT_TEST") == "" {
		os.Exit(m.Run())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", os.Args[1]}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		panic(err)
	}
	_, _ = unix.Wait4(pid, nil, 0, nil)
	alone := make(chan bool)
	go func() {
		defer close(alone)
		for {
			if _, err := unix.Wait4(-1, nil, unix.WALL, nil); err == unix.ECHILD {
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	proved := End(ctx, alone, func() []Process { return Below(os.Getpid()) })
	cancel()
	os.Stdout.WriteString("proved " + strconv.FormatBool(proved) + "\n")
	os.Exit(0)
}

// Whatever was left behind, by whichever way, is found and ended.
func TestEnd(t *testing.T) {
	token := "descent-" + strconv.Itoa(os.Getpid())
	for _, script := range []string{
		":",
		"sleep 1000 " + token + " & :",
		"setsid sh -c 'trap \"\" TERM HUP; sleep 1000; :' " + token + " & sleep 0.1",
		"(setsid sh -c 'while :; do sleep 1000 & sleep 0.01; done' " + token + " &) & wait",
	} {
		cmd := exec.Command(os.Args[0], strings.ReplaceAll(script, "sleep 1000 "+token, "sh -c 'sleep 1000; :' "+token))
		cmd.Env = append(os.Environ(), "DESCENT_TEST=1")
		out, err := cmd.Output()
		if err != nil || !bytes.Contains(out, []byte("proved true")) {
			t.Errorf("%s: %q, %v", script, out, err)
		}
		for _, p := range Below(1) {
			if text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline"); bytes.Contains(text, []byte(token)) {
				t.Errorf("%s: %q still runs", script, text)
			}
		}
	}
}

func TestSignalSparesStrangers(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	Process{PID: cmd.Process.Pid, Born: "1"}.Signal(unix.SIGKILL)
	found := Below(os.Getpid())
	if len(found) != 1 || found[0].Ended() || found[0].PID != cmd.Process.Pid {
		t.Errorf("%+v", found)
	}
}
