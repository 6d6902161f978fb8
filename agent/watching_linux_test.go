package agent_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// Commands that make inotify instances until they get no more leave some to
// the user who started the sandbox.
func TestWatchesLeft(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Fatal(err)
	}
	host, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	b := start(t)
	s := b.stream(wire.ExecRequest{Argv: []string{helper, "watch"}})
	s.says(fmt.Sprintf("%d too many open files\n", min(64, host/2)))
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Errorf("outside: %v", err)
	}
	unix.Close(fd)

	// In a user namespace without a limit of its own there are as many as the
	// user may have, who has none left then.
	if first := watching(t, "unshare", "--user"); first == "0 too many open files\n" || first == "" {
		t.Errorf("without the limit: %q", first)
	}
	if second := watching(t, "env"); second != "0 too many open files\n" {
		t.Errorf("outside, without the limit: %q", second)
	}
}

// watching has the helper keep all inotify instances that it gets, as a user of
// its own where that can be, until the test ends.
func watching(t *testing.T, before ...string) string {
	t.Helper()
	cmd := exec.Command(before[0], append(before[1:], helperDir+"/helper", "watch")...)
	if os.Geteuid() == 0 {
		for _, dir := range []string{helperDir, filepath.Dir(helperDir)} {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54329, Gid: 54329}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	return line
}
