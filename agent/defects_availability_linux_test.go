package agent_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var defectsOfAvailability = []defect{
	{10, "one_at_a_time", oneAtATime},
	{11, "client_gone_before_its_answer", goneClients},
	{12, "unbounded_input", unboundedInput},
	{13, "fifo_in_the_way", fifoInTheWay},
	{14, "unbounded_memory", unboundedMemory},
}

// serves fails unless the agent serves a command at once.
func (b *bareAgent) serves(t *testing.T) {
	t.Helper()
	begun := time.Now()
	each(t, b, []call{{request: `{"command":"echo x"}`, want: `{"stdout":"x\n"}`}})
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("a command took %v", d)
	}
}

func oneAtATime(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("s", ""), want: `{}`}})
	b.shellDo(t, "s", "stty raw -echo; echo rea''dy; sleep 60", "ready")
	for _, c := range []struct{ name, sent string }{
		{"idle", ""},
		{"half a line", `{"command":`},
		{"half a body", `{"action":"extract_archive","archive_size":10240}` + "\nx"},
		{"a long command", `{"command":"sleep 60"}` + "\n"},
		{"a wait for readiness", service("s", "sleep 60", `,"readiness":{"type":"file","path":"nonesuch"}`) + "\n"},
		{"a full terminal", `{"action":"write_shell","shell_id":"s","input":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"},
	} {
		for range 3 {
			conn := b.dial(t)
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		b.serves(t)
	}
	each(t, b, []call{{request: `{"action":"list_workspace"}`, want: `{}`}, {request: open("other", ""), want: `{}`}})
	b.shellRead(t, "other", "$ ")
	b.closeShell(t, "other")
}

func goneClients(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("kept", ""), want: `{}`}})
	put(t, strings.Repeat("x", 1<<20), b.workspace, "large")
	body := archive(file("a", "x"))
	for _, sent := range []string{
		"", "{", `{"command":"echo x"}`, `{"command":"echo x"}` + "\n", `{"action":"read_workspace_file","path":"large"}` + "\n",
		`{"action":"export_archive"}` + "\n", extraction("x", body) + "\n", extraction("x", body) + "\n" + string(body[:600]),
		extraction("x", body) + "\n" + string(body), `{"action":"read_shell","shell_id":"kept"}` + "\n", "\n", "null\n",
	} {
		for range 10 {
			conn := b.dial(t)
			_, _ = io.WriteString(conn, sent)
			conn.Close()
		}
	}
	b.serves(t)
	b.shellDo(t, "kept", "echo still''here", "stillhere")
	b.closeShell(t, "kept")
}

// peakMemory is the largest resident set that a process has had, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(status(string(text), "VmHWM"), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// bomb is a gzip stream of so many MiB of zeros after some bytes.
func bomb(first []byte, mib int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = z.Write(first)
	zeros := make([]byte, 1<<20)
	for range mib {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return out.Bytes()
}

func unboundedInput(t *testing.T, b *bareAgent) {
	long := append([]byte(`{"command":"`), bytes.Repeat([]byte("x"), 17<<20)...)
	each(t, b, []call{{request: string(long), err: anyError}})
	for _, size := range []string{"9223372036854775807", "1e300", "99999999999999999999999999"} {
		for _, action := range []string{"extract_archive", "install_secrets"} {
			got := b.trickled(t, []byte(`{"action":"`+action+`","archive_size":`+size+"}\nx"), 1<<20)
			if answer := answerOf(t, got); answer["error"] == nil {
				t.Errorf("%s of %s bytes: got %v", action, size, answer)
			}
		}
	}
	// A header that promises an exabyte; a name of 64 MiB; nothing but zeros.
	giant := member{name: "g"}.header(1 << 32)
	name := append(member{name: "././@LongLink", kind: 'L'}.header(64<<20), bytes.Repeat([]byte("n"), 64<<20)...)
	for what, body := range map[string][]byte{
		"a long name": bomb(name, 0), "a long extended header": bomb(append(member{name: "x", kind: 'x'}.header(64<<20), name[512:]...), 0),
		"a large secret": nil, "zeros": bomb(nil, 64),
	} {
		request := extraction("bomb", body)
		if body == nil {
			body = bomb(giant, 64)
			request = installation(body)
		}
		answer := answerOf(t, b.exchange(t, append([]byte(request+"\n"), body...)))
		if answer["error"] == nil && what != "zeros" {
			t.Errorf("%s: got %v", what, answer)
		}
	}
	if mib := peakMemory(t, b.pid); mib > 64 {
		t.Errorf("the agent took %d MiB", mib)
	}
	b.serves(t)
}

func fifoInTheWay(t *testing.T, b *bareAgent) {
	special(t, b.workspace)
	begun := time.Now()
	for _, name := range []string{"fifo", "socket"} {
		body := archive(file(name, "x"))
		each(t, b, []call{
			{request: extraction(".", body), body: body, err: "file conflicts with existing path: " + name},
			{request: `{"action":"read_workspace_file","path":"` + name + `"}`, err: "unsupported workspace path type: /workspace/" + name},
			{request: `{"action":"write_workspace_file","path":"` + name + `","text":"x"}`, err: anyError},
		})
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

func unboundedMemory(t *testing.T, b *bareAgent) {
	const flood = "head -c 200000000 /dev/zero | tr '\\\\0' x; echo; echo end"
	answer := answerOf(t, b.exchange(t, []byte(`{"command":"`+flood+`"}`+"\n")))
	text, _ := answer["stdout"].(string)
	if len(text) == 0 || len(text) > 16<<20 || !strings.HasPrefix(text, "xxx") || !strings.HasSuffix(text, "\nend\n") || answer["stdout_truncated"] != true {
		t.Errorf("got %d bytes, truncated %v", len(text), answer["stdout_truncated"])
	}
	each(t, b, []call{{request: open("s", `,"redact_values":["a-secret-value"]`), want: `{}`}})
	b.shellDo(t, "s", "stty -echo; echo rea''dy", "ready\r\n")
	each(t, b, []call{{request: `{"action":"write_shell","shell_id":"s","input":"head -c 50000000 /dev/zero | tr '\\0' x; echo; echo en''d"}`, want: `{}`}})
	cursor, dropped, last := 0.0, false, ""
	eventually(t, "the shell's flood ends", func() bool {
		part := b.ask(t, map[string]any{"action": "read_shell", "shell_id": "s", "cursor": cursor, "max_chars": 1 << 20})
		if at := numberOf(t, part, "cursor"); at > cursor {
			dropped = true
		}
		cursor = numberOf(t, part, "next_cursor")
		last += textOf(t, part, "output")
		last = last[max(0, len(last)-64):] // a reading can end within the word
		return strings.Contains(last, "end\r\n")
	})
	if cursor < 50_000_000 && !dropped {
		t.Errorf("the cursor is %v", cursor)
	}
	b.closeShell(t, "s")
	if err := os.Truncate(put(t, "", b.workspace, "sparse"), 8<<30); err != nil {
		t.Fatal(err)
	}
	each(t, b, []call{{request: `{"action":"read_workspace_file","path":"sparse"}`, err: "workspace file exceeds the maximum supported size of 1048576 bytes"}})
	each(t, b, []call{{request: service("flood", strings.ReplaceAll(flood, `\\`, `\`), ""), want: `{}`}})
	b.serviceEnds(t, "flood")
	answer = b.ask(t, map[string]any{"action": "logs_service", "service_name": "flood", "tail_lines": 1})
	if answer["stdout"] != "end\n" || answer["truncated"] != true {
		t.Errorf("got %.100v", answer)
	}
	var kept int64
	_ = filepath.WalkDir(b.services, func(_ string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err == nil {
			kept += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if kept > 128<<20 {
		t.Errorf("the service's log has %d MiB", kept>>20)
	}
	if mib := peakMemory(t, b.pid); mib > 64 {
		t.Errorf("the agent took %d MiB", mib)
	}
}
