//go:build linux

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// smallDisk is a server whose directory of state is a file system of its own, of 4 MiB,
// that no other process sees.
func smallDisk(t *testing.T, s setup, flags ...string) (c *client, disk string, beside func(args ...string) (string, error)) {
	t.Helper()
	own, enter := []string{"--mount"}, []string{"--mount"}
	if os.Geteuid() != 0 {
		own = append(own, "--map-current-user", "--keep-caps")
		enter = append(enter, "--user", "--preserve-credentials")
	}
	for _, program := range []string{"unshare", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed here", program)
		}
	}
	script := `mount -t tmpfs -o size=4m,mode=700 tmpfs "$1" && shift && exec "$@"`
	if os.Geteuid() != 0 {
		script = `mount -t tmpfs -o size=4m,mode=700 tmpfs "$1" && shift && exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"`
	}
	server := s.program(append([]string{"--workspace", s.workspace}, flags...)...)
	cmd := exec.Command("unshare", append(append(own, "sh", "-c", script, "sh", s.state), server.Args...)...)
	cmd.Env = server.Env
	log := &notes{}
	cmd.Stderr = log
	session, err := newClient(clientOptions).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatalf("cannot connect: %v\n%s", err, log)
	}
	t.Cleanup(func() { _ = session.Close() })
	pid := fmt.Sprint(cmd.Process.Pid)
	return &client{session: session, pid: cmd.Process.Pid, log: log}, "/proc/" + pid + "/root" + s.state, func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "nsenter", append(append(enter, "-t", pid, filepath.Join(binDir, "paddock")), args...)...)
		cmd.Env = s.env()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// fillUp uses up a file system, and gives what gives it back.
func fillUp(t *testing.T, disk string) (free func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: what cannot be put on record is not done, what ends something is, and
// once there is room again all of it goes on, with a record that is whole.
func TestFullDisk(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	c, disk, beside := smallDisk(t, s)
	begun := c.call(t, "exec", map[string]any{"command": "sleep 1000", "background": true})
	c.call(t, "session_open", map[string]any{"session_id": "s"})
	c.call(t, "shell_open", map[string]any{"shell_id": "s"})
	c.call(t, "service_start", map[string]any{"name": "s", "command": "exec sleep 1000"})
	c.call(t, "sandbox_create", map[string]any{"name": "second"})
	free := fillUp(t, disk)
	exec := func(i int) *sdk.CallToolResult {
		return c.try(t, "exec", map[string]any{"command": fmt.Sprintf("touch made-%d", i)})
	}
	made := func(i int) bool {
		_, err := os.Stat(filepath.Join(s.workspace, fmt.Sprintf("made-%d", i)))
		return err == nil
	}
	refused := 0
	for i := 0; refused < 3; i++ { // the last page of the log has room for some
		r := exec(i)
		if r.IsError == made(i) {
			t.Fatalf("answer %q, and it was done: %v", textOf(r), made(i))
		}
		if r.IsError {
			refused++
			if said := textOf(r); !strings.Contains(said, "cannot do exec: it cannot be recorded: ") || !strings.Contains(said, "no space left on device") {
				t.Fatalf("it says %q", said)
			}
		}
		if i > 100 {
			t.Fatal("on a full disk everything goes on")
		}
	}
	if said := c.log.String(); !strings.Contains(said, "cannot be recorded") {
		t.Errorf("the operator is told %q", said)
	}
	for _, tool := range []string{"run", "session_run", "file_write", "shell_write", "sandbox_create"} {
		args := map[string]map[string]any{
			"run": {"argv": []string{"true"}}, "session_run": {"session_id": "s", "command": "touch made-session"}, "file_write": {"path": "made-file", "content": "x"},
			"shell_write": {"shell_id": "s", "text": "touch made-shell"}, "sandbox_create": {"name": "third"},
		}[tool]
		if said := c.refused(t, tool, args); !strings.Contains(said, "cannot be recorded") {
			t.Errorf("%s: %s", tool, said)
		}
	}
	// What reads, ends or frees is done.
	c.call(t, "sandbox_list", nil)
	c.call(t, "exec_kill", map[string]any{"exec": begun["exec"]})
	c.call(t, "shell_signal", map[string]any{"shell_id": "s"})
	c.call(t, "shell_close", map[string]any{"shell_id": "s"})
	c.call(t, "service_stop", map[string]any{"name": "s"})
	c.call(t, "session_close", map[string]any{"session_id": "s"})
	c.call(t, "sandbox_delete", map[string]any{"sandbox": "second"})
	if left, _ := filepath.Glob(filepath.Join(s.workspace, "made-[a-z]*")); len(left) > 0 {
		t.Errorf("without a record %v were made", left)
	}
	free()
	if r := exec(1000); r.IsError || !made(1000) {
		t.Errorf("with room again: %s", textOf(r))
	}
	out, err := beside("audit", "verify")
	if err != nil || !strings.Contains(out, "\nok: nothing was changed\n") {
		t.Errorf("the record: %v\n%s", err, out)
	}
}

// TestFullDiskBestEffort: who wants it so has everything go on, and is told.
func TestFullDiskBestEffort(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	c, disk, _ := smallDisk(t, s, "--audit", "best-effort")
	c.call(t, "exec", map[string]any{"command": "true"})
	free := fillUp(t, disk)
	defer free()
	for range 30 {
		c.call(t, "exec", map[string]any{"command": "true"})
	}
	if said := c.log.String(); !strings.Contains(said, "cannot write to the audit log") {
		t.Errorf("the operator is told %q", said)
	}
}
