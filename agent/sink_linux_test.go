package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// passing starts a streamed command whose output goes to a pipe, and gives
// the pipe's reading end.
func (b *bareAgent) passing(t *testing.T, more string) (*net.UnixConn, *os.File) {
	t.Helper()
	conn := b.dial(t)
	r, w := blockingPipe(t)
	defer w.Close()
	line := `{"action":"exec","stream":true,"pass":["stdout"],` + more + "}\n"
	if _, _, err := conn.WriteMsgUnix([]byte(line), syscall.UnixRights(int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	return conn, r
}

// A pipe that nobody reads holds up neither the timeout nor what follows a
// client's going, also where its output passes the agent.
func TestUnreadPipe(t *testing.T) {
	b := bare(t)
	b.install(t, file("token", "PipeSecret123"))
	b.leaksNothing(t, func() {
		begun := time.Now()
		conn, r := b.passing(t, `"command":"yes","timeout_seconds":0.5`)
		answer, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil || !strings.Contains(string(answer), `"timed_out":true`) || time.Since(begun) > patience {
			t.Errorf("after %v: %.300q, %v", time.Since(begun), answer, err)
		}
		_ = conn.Close()
		gone, held := b.passing(t, `"command":"yes"`)
		eventually(t, "the command runs", func() bool { return len(b.runs(t)) == 1 })
		_ = gone.Close()
		eventually(t, "the agent has done with it", func() bool { return b.takes(t).connections == 1 })
		_, _ = r.Close(), held.Close()
	})
}

// A reader that is slow gets all of it, after the command's end as well.
func TestSlowPipe(t *testing.T) {
	b := bare(t)
	b.install(t, file("token", "PipeSecret123"))
	const lines = 20_000
	conn, r := b.passing(t, fmt.Sprintf(`"command":"yes PipeSecret123 | head -n %d","timeout_seconds":60`, lines))
	var text []byte
	part := make([]byte, 1<<10)
	eventually(t, "the command has ended", func() bool {
		if len(b.runs(t)) == 0 {
			return true
		}
		n, _ := r.Read(part) // pipes of a user who has many hold less than all of it
		text = append(text, part[:n]...)
		return false
	})
	rest, err := io.ReadAll(r)
	text = append(text, rest...)
	if want := strings.Repeat("[REDACTED]\n", lines); err != nil || string(text) != want {
		t.Errorf("got %d bytes of %d, %v", len(text), len(want), err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), `"exit_code":0`) {
		t.Errorf("%.300q, %v", answer, err)
	}
}
