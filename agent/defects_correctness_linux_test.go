package agent_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var defectsOfCorrectness = []defect{
	{26, "cursor_of_changing_text", stableCursor},
	{27, "modes_lost", modesKept},
	{28, "refused_archives_half_applied", allOrNothing},
	{29, "special_files_break_listings", specialFilesListed},
	{30, "exports_that_cannot_come_back", exportsComeBack},
	{31, "tail_of_nothing", tailOfNothing},
	{32, "unknown_actions_run", unknownActions},
	{33, "errors_in_the_byte_stream", noTextInBytes},
	{34, "no_limits", limited},
}

// stableCursor reads, in pieces of every size, a text that becomes shorter
// once the end of a secret is there.
func stableCursor(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("s", `,"env":{"PS1":"","TERM":"dumb"},"redact_values":["correct-horse-battery","horse"]`), want: `{}`}})
	b.shellDo(t, "s", "stty -echo; echo rea''dy", "ready\r\n")
	at := numberOf(t, b.ask(t, map[string]any{"action": "read_shell", "shell_id": "s"}), "next_cursor")
	each(t, b, []call{{request: `{"action":"write_shell","shell_id":"s","input":"for part in '<1' 23 cor rect -ho rse -bat tery 4 corr ect-hors e-batter 5 hor se '>'; do printf %s $part; sleep 0.03; done"}`, want: `{}`}})
	var got strings.Builder
	eventually(t, "the text is whole", func() bool {
		part := b.ask(t, map[string]any{"action": "read_shell", "shell_id": "s", "cursor": at, "max_chars": 1 + got.Len()%7})
		if part["cursor"] != at {
			t.Fatalf("the cursor has moved from %v to %v", at, part["cursor"])
		}
		at = numberOf(t, part, "next_cursor")
		got.WriteString(textOf(t, part, "output"))
		return strings.Contains(got.String(), ">")
	})
	if want := "<123[REDACTED]4correct-[REDACTED]-batter5[REDACTED]>"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	b.closeShell(t, "s")
}

func modesKept(t *testing.T, b *bareAgent) {
	script := put(t, "old", b.workspace, "script")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	each(t, b, []call{
		{request: `{"action":"write_workspace_file","path":"script","text":"new"}`, want: `{}`},
		{request: `{"action":"write_workspace_file","path":"new","text":"new"}`, want: `{}`},
	})
	hasMode(t, 0o755, b.workspace, "script")
	hasMode(t, 0o644, b.workspace, "new")
	b.extract(t, ".", archive(member{name: "run", mode: 0o755}, member{name: "own", mode: 0o700}, member{name: "plain", mode: 0o600}, member{name: "root", mode: 0o6755},
		member{name: "d", kind: '5', mode: 0o7777}))
	for name, mode := range map[string]fs.FileMode{"run": 0o755, "own": 0o755, "plain": 0o644, "root": 0o755, "d": 0o755} {
		hasMode(t, mode, b.workspace, name)
	}
}

func allOrNothing(t *testing.T, b *bareAgent) {
	put(t, "old", b.workspace, "dest", "a")
	link(t, "old", b.workspace, "dest", "l")
	good := archive(file("a", "new"), symlink("l", "new"), dir("d"), file("d/e/f", "x"), file("last", "last"))
	bad := archive(file("a", "new"), symlink("l", "new"), dir("d"), file("d/e/f", "x"), member{name: "h", kind: '1', link: "a"})
	unchanged(t, b.workspace, func() {
		each(t, b, []call{
			{request: extraction("dest", bad), body: bad, err: "hard links are not allowed in workspace archives: h"},
			{request: extraction("made/by/it", bad), body: bad, err: "hard links are not allowed in workspace archives: h"},
			{request: extraction("dest", good[:2560]), body: good[:2560], err: anyError}, // ends within a member
		})
		got := answerOf(t, b.trickled(t, append([]byte(extraction("dest", good)+"\n"), good[:len(good)-1]...), 1<<20))
		if got["error"] != "unexpected EOF while reading archive payload" {
			t.Errorf("got %v", got)
		}
	})
	b.extract(t, "dest", good)
	holds(t, "new", b.workspace, "dest", "a")
}

func specialFilesListed(t *testing.T, b *bareAgent) {
	special(t, filepath.Join(b.workspace, "d"))
	put(t, "x", b.workspace, "d", "x")
	each(t, b, []call{
		{request: `{"action":"list_workspace","path":"d"}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
			if text := fmt.Sprint(answer["entries"]); !strings.Contains(text, "/workspace/d/x") {
				t.Errorf("got %v", answer)
			}
		}},
		{request: `{"action":"list_workspace","recursive":true}`, want: `{"artifact_type":"directory"}`},
	})
}

func exportsComeBack(t *testing.T, b *bareAgent) {
	first := put(t, "abc", b.workspace, "d", "first")
	if err := os.Link(first, filepath.Join(b.workspace, "d", "second")); err != nil {
		t.Fatal(err)
	}
	special(t, filepath.Join(b.workspace, "d"))
	header, body := b.export(t, "d")
	contains(t, header, `{"bytes_written":6}`)
	for _, m := range membersOf(t, body) {
		if m.Uname != "" || m.Gname != "" || m.Typeflag == tar.TypeLink {
			t.Errorf("got %+v", m.Header)
		}
	}
	b.extract(t, "again", body)
	holds(t, "abc", b.workspace, "again", "first")
	holds(t, "abc", b.workspace, "again", "second")
}

func tailOfNothing(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: service("s", "echo a; echo b", ""), want: `{}`}})
	b.serviceEnds(t, "s")
	each(t, b, []call{
		{request: `{"action":"logs_service","service_name":"s","tail_lines":0}`, want: `{"stdout":"","stderr":"","tail_lines":0,"truncated":true}`},
		{request: `{"action":"logs_service","service_name":"s","tail_lines":-1}`, err: anyError},
		{request: `{"action":"logs_service","service_name":"s","tail_lines":"-5"}`, err: anyError},
	})
}

func unknownActions(t *testing.T, b *bareAgent) {
	for _, action := range []string{"nonesuch", "", "EXEC", "exec ", "handlers"} {
		each(t, b, []call{{request: `{"action":` + quoted(action) + `,"command":"touch ran"}`, err: "unknown action: " + action}})
	}
	absent(t, b.workspace, "ran")
}

// noTextInBytes takes away what is being exported.
func noTextInBytes(t *testing.T, b *bareAgent) {
	const size = 32 << 20
	big := put(t, strings.Repeat("x", size), b.workspace, "d", "big")
	put(t, "abc", b.workspace, "d", "last")
	conn := b.dial(t)
	fmt.Fprintln(conn, `{"action":"export_archive","path":"d"}`)
	var line []byte
	for c := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, c[0]) {
		if _, err := conn.Read(c); err != nil {
			t.Fatal(err)
		}
	}
	announced := int(numberOf(t, answerOf(t, line), "archive_size"))
	if err := os.Truncate(big, 1000); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(conn)
	if bytes.Contains(got, []byte("error")) || len(got) > announced {
		t.Errorf("%d of %d bytes have come, with an error among them", len(got), announced)
	}
	if len(got) == announced {
		if members := membersOf(t, got); len(members) != 2 || len(members[0].body) != size {
			t.Errorf("got %d members", len(members))
		}
	}
	// What is written is whole or not there, and nothing is left beside it.
	b = bareCommand(t, func(cmd *exec.Cmd, _ string) {
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `ulimit -f 100; exec "$0" "$@"`, agentPath}, cmd.Args[1:]...)
	})
	each(t, b, []call{
		{request: `{"action":"write_workspace_file","path":"a","text":"old"}`, want: `{}`},
		{request: `{"action":"write_workspace_file","path":"a","text":"` + strings.Repeat("x", 900_000) + `"}`, err: anyError},
		{request: `{"action":"list_workspace"}`, want: `{"entries":[{"path":"/workspace/a","size_bytes":3}]}`},
	})
	holds(t, "old", b.workspace, "a")
}

func limited(t *testing.T, b *bareAgent) {
	const look = "grep 'core file size' /proc/self/limits; ulimit -S -n"
	const want = "Max core file size 0 0 bytes 1024"
	tidy := func(text any) string { return strings.Join(strings.Fields(fmt.Sprint(text)), " ") }
	if got := tidy(b.ask(t, map[string]any{"command": look})["stdout"]); got != want {
		t.Errorf("exec: got %s", got)
	}
	each(t, b, []call{{request: service("s", look, ""), want: `{}`}, {request: open("s", `,"cols":300`), want: `{}`}})
	b.serviceEnds(t, "s")
	if got := tidy(b.ask(t, map[string]any{"action": "logs_service", "service_name": "s"})["stdout"]); got != want {
		t.Errorf("service: got %s", got)
	}
	if got := tidy(b.shellDo(t, "s", look+"; echo do''ne", "done\r\n")); !strings.Contains(got, want) {
		t.Errorf("shell: got %s", got)
	}
	b.closeShell(t, "s")
	each(t, b, []call{{request: `{"command":"ulimit -n; ulimit -f","limits":{"open_files":77,"file_size_bytes":51200}}`, want: `{"stdout":"77\n100\n"}`}})
}
