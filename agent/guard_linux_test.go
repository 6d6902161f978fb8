package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// Nothing that a command does to its init, or to what it takes for the agent,
// reaches either.
func TestAgentIsOutOfReach(t *testing.T) {
	b := start(t)
	for name, argv := range map[string][]string{
		"kill everything": {"sh", "-c", "kill -9 -1; kill -9 1; kill -TERM 1; kill -STOP 1; kill -QUIT 1"},
		"forged signals":  {helper, "forge"},
		"limits":          {helper, "throttle"},
		"its proc":        {"sh", "-c", "echo 1000 > /proc/1/oom_score_adj; echo x > /proc/1/mem; echo x > /proc/1/comm"},
	} {
		res := b.run(wire.ExecRequest{Argv: argv})
		if name == "forged signals" && res.Stdout != "forged\n" || name == "limits" && strings.Contains(res.Stdout, "true") {
			t.Errorf("%s: %+v", name, res)
		}
		b.works()
	}
	for _, file := range []string{"/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd/0", "/proc/1/root/etc/passwd", "/proc/1/exe"} {
		if res := b.sh(`head -c 1 "$0"`, file); res.ExitCode == 0 {
			t.Errorf("a command can read %s: %q", file, res.Stdout)
		}
	}
	text := b.sh("cat /proc/1/status").Stdout
	if got := status(text, "Name"); !strings.Contains(got, "paddock-init") {
		t.Errorf("pid 1 inside is %q", got)
	}
	if res := b.sh("ls -d /proc/[0-9]*"); len(strings.Fields(res.Stdout)) != 2 { // the init and sh
		t.Errorf("a command sees %q", res.Stdout)
	}
	if err := syscall.Kill(b.pid, 0); err != nil {
		t.Errorf("the agent: %v", err)
	}
}

// The end of the commands' init is the end of the sandbox.
func TestEndOfTheInnerInit(t *testing.T) {
	b := start(t)
	mark := newMark()
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", `echo ready; "$0" wait "$1"`, helper, mark}})
	s.says("ready")
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if status(string(text), "PPid") == strconv.Itoa(b.pid) && strings.Contains(status(string(text), "Name"), "paddock-init") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	b.pid = 0 // its last words are expected
	select {
	case <-b.sandbox.Done():
	case <-time.After(patience):
		t.Fatal("the sandbox lives on")
	}
	if found := carrying(mark); len(found) > 0 {
		t.Errorf("processes %v are left", found)
	}
}
