package agent_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var defectsOfSecurity = []defect{
	{1, "dot_dot", dotDot},
	{2, "symlinked_parents", symlinkedParents},
	{3, "check_then_use", checkThenUse},
	{4, "dangling_link", danglingLink},
	{5, "shell_id_in_file_names", shellIDs},
	{6, "unredacted_output", unredactedOutput},
	{7, "split_secret", splitSecret},
	{8, "secrets_unprotected", secretsUnprotected},
	{9, "agents_own_environment", agentsEnvironment},
}

// outside makes files beside the workspace, where nothing may get.
func outside(t *testing.T, b *bareAgent) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(b.workspace), "outside")
	put(t, "precious", dir, "file")
	put(t, "precious", dir, "sub", "file")
	return dir
}

func dotDot(t *testing.T, b *bareAgent) {
	out := outside(t, b)
	body := archive(file("file", "overwritten"))
	const refused = "destination must stay inside /workspace"
	unchanged(t, out, func() {
		for _, path := range []string{"/workspace/../outside/file", "../outside/file", "a/../../outside/file"} {
			each(t, b, []call{
				{request: `{"action":"read_workspace_file","path":"` + path + `"}`, err: refused},
				{request: `{"action":"write_workspace_file","path":"` + path + `","text":"x"}`, err: refused},
				{request: `{"action":"delete_workspace_path","path":"` + path + `"}`, err: refused},
				{request: `{"action":"list_workspace","path":"` + path + `"}`, err: refused},
				{request: `{"action":"export_archive","path":"` + path + `"}`, err: refused},
				{request: extraction(filepath.Dir(path), body), body: body, err: refused},
				{request: open("s", `,"cwd":"`+filepath.Dir(path)+`"`), err: refused},
				{request: service("s", "true", `,"cwd":"`+filepath.Dir(path)+`"`), err: refused},
				{request: service("s", "true", `,"readiness":{"type":"file","path":"`+path+`"}`), err: refused},
			})
		}
	})
}

func symlinkedParents(t *testing.T, b *bareAgent) {
	out := outside(t, b)
	link(t, out, b.workspace, "absolute")
	link(t, "../outside", b.workspace, "relative")
	link(t, ".", b.workspace, "inside")
	put(t, "x", b.workspace, "file")
	body := archive(file("file", "overwritten"), file("new", "x"))
	unchanged(t, out, func() {
		for _, parent := range []string{"absolute", "relative", "inside"} {
			each(t, b, []call{
				{request: `{"action":"read_workspace_file","path":"` + parent + `/file"}`, err: anyError},
				{request: `{"action":"list_workspace","path":"` + parent + `/file"}`, err: anyError},
				{request: `{"action":"list_workspace","path":"` + parent + `/sub"}`, err: anyError},
				{request: `{"action":"delete_workspace_path","path":"` + parent + `/file"}`, err: anyError},
				{request: `{"action":"export_archive","path":"` + parent + `/file"}`, err: anyError},
				{request: `{"action":"write_workspace_file","path":"` + parent + `/file","text":"x"}`,
					err: "workspace path would traverse through a symlinked parent: /workspace/" + parent + "/file"},
				{request: extraction(parent, body), body: body, err: anyError},
				{request: extraction(parent+"/sub", body), body: body, err: anyError},
				{request: open("s", `,"cwd":"`+parent+`/sub"`), err: anyError},
				{request: service("s", "true", `,"cwd":"`+parent+`/sub"`), err: anyError},
			})
		}
	})
	holds(t, "x", b.workspace, "file")
}

// checkThenUse swaps a directory for a link all the while.
func checkThenUse(t *testing.T, b *bareAgent) {
	out := outside(t, b)
	put(t, "plain", b.workspace, "d", "file")
	link(t, out, b.workspace, "l")
	d, l := filepath.Join(b.workspace, "d"), filepath.Join(b.workspace, "l")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond): // or the agent waits for the directory all the time
				if err := unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	body := archive(file("new", "x"), file("sub/file", "overwritten"))
	unchanged(t, out, func() {
		for until := time.Now().Add(time.Second); time.Now().Before(until); {
			for _, request := range []string{
				`{"action":"write_workspace_file","path":"d/file","text":"plain"}`,
				`{"action":"write_workspace_file","path":"d/new/er","text":"plain"}`,
				`{"action":"delete_workspace_path","path":"d/sub/file"}`,
				`{"action":"read_workspace_file","path":"d/sub/file"}`,
				`{"action":"export_archive","path":"d/sub"}`,
			} {
				if got := b.exchange(t, []byte(request+"\n")); bytes.Contains(got, []byte("precious")) || bytes.Contains(got, []byte("cHJlY2lvdXM=")) {
					t.Errorf("%s: got %q", request, got)
				}
			}
			b.exchange(t, append([]byte(extraction("d", body)+"\n"), body...))
		}
		close(stop)
		swapping.Wait()
	})
}

func danglingLink(t *testing.T, b *bareAgent) {
	out := outside(t, b)
	link(t, filepath.Join(out, "new"), b.workspace, "l")
	body := archive(file("l", "x"))
	each(t, b, []call{
		{request: extraction("", body), body: body, err: "destination must not be empty"},
		{request: extraction(".", body), body: body, err: "file conflicts with existing path: l"},
		{request: `{"action":"write_workspace_file","path":"l","text":"x"}`, err: "workspace file write only supports regular file targets"},
	})
	absent(t, out, "new")
}

func shellIDs(t *testing.T, b *bareAgent) {
	root := filepath.Dir(b.shells)
	for _, id := range []string{"../x", "..", ".", "a/b", "/tmp/x", ".hidden", "a\x00b", "a\nb", strings.Repeat("x", 65), "é"} {
		each(t, b, []call{{request: open(id, ""), err: anyError}})
	}
	if found, _ := filepath.Glob(filepath.Join(root, "x*")); len(found) > 0 {
		t.Errorf("there is %q", found)
	}
	if found, _ := filepath.Glob(filepath.Join(b.shells, "*")); len(found) > 0 {
		t.Errorf("there is %q", found)
	}
}

// unredactedOutput looks for a secret in all that an agent says and keeps.
func unredactedOutput(t *testing.T, b *bareAgent) {
	const secret = "correct-horse-battery"
	b.install(t, file("token", secret), file("lines", secret+"-2\n"))
	said := func(what string, got []byte) {
		if bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s: got %q", what, got)
		}
	}
	shout := "echo $(cat " + b.secrets + "/token) $TOKEN; cat " + b.secrets + "/lines >&2"
	got := b.exchange(t, []byte(`{"command":`+quoted(shout)+"}\n"))
	said("exec", got)
	contains(t, answerOf(t, got), `{"stdout":"[REDACTED]\n","stderr":"[REDACTED]\n"}`)
	more := `,"env":{"TOKEN":"` + secret + `"},"redact_values":["` + secret + `"]`
	said("start_service", b.exchange(t, []byte(service("s", shout+"; : "+secret, more)+"\n")))
	b.serviceEnds(t, "s")
	for _, action := range []string{"status", "logs", "stop"} {
		said(action, b.exchange(t, []byte(aboutService(action, "s")+"\n")))
	}
	said("open_shell", b.exchange(t, []byte(open("s", more)+"\n")))
	b.shellDo(t, "s", shout+"; echo do''ne", "done\r\n")
	said("read_shell", b.exchange(t, []byte(`{"action":"read_shell","shell_id":"s"}`+"\n")))
	said("an error", b.exchange(t, []byte(`{"action":"read_workspace_file","path":"`+secret+`"}`+"\n")))
	for _, root := range []string{b.shells, b.services} {
		hasMode(t, 0o700, root)
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return nil
			}
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", path, info.Mode())
			}
			if text, err := os.ReadFile(path); err == nil {
				said(path, text)
			}
			return nil
		})
	}
	b.closeShell(t, "s")
}

func splitSecret(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("s", `,"env":{"PS1":""},"redact_values":["correct-horse-battery"]`), want: `{}`}})
	b.shellDo(t, "s", "stty -echo; echo rea''dy", "ready\r\n")
	each(t, b, []call{{request: `{"action":"write_shell","shell_id":"s","input":"printf '<correct-'; touch half; until test -e go; do sleep 0.1; done; printf 'horse-battery>'; printf '<correct-horse>\\n'"}`, want: `{}`}})
	eventually(t, "the first half is written", func() bool { _, err := os.Stat(filepath.Join(b.workspace, "half")); return err == nil })
	half := b.ask(t, map[string]any{"action": "read_shell", "shell_id": "s"})
	if strings.Contains(textOf(t, half, "output"), "correct") {
		t.Errorf("the first half is told: %q", half["output"])
	}
	put(t, "", b.workspace, "go")
	if whole := b.shellRead(t, "s", "horse>\r\n"); !strings.Contains(whole, "<[REDACTED]><correct-horse>") {
		t.Errorf("got %q", whole)
	}
	b.closeShell(t, "s")
}

// secretsUnprotected looks at the disk while an archive is on its way.
func secretsUnprotected(t *testing.T, b *bareAgent) {
	hasMode(t, 0o700, b.secrets)
	b.install(t, file("d/token", "good"))
	body := archive(file("d/token", strings.Repeat("x", 300_000)), file("last", strings.Repeat("y", 300_000)))
	conn := b.dial(t)
	fmt.Fprintln(conn, installation(body))
	if _, err := conn.Write(body[:400_000]); err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(b.secrets)
	guarded := func() {
		holds(t, "good", b.secrets, "d", "token")
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == root || path == b.workspace || d.Type() == fs.ModeSocket {
				return nil //nolint:nilerr // what has gone meanwhile holds no secret
			}
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", path, info.Mode())
			}
			return nil
		})
	}
	guarded()
	conn.Close() // the set is incomplete
	for _, bad := range [][]byte{archive(file("d/token", "bad"), symlink("l", "x")), []byte("no archive"), body[:5000]} {
		each(t, b, []call{{request: installation(bad), body: bad, err: anyError}})
		guarded()
	}
	eventually(t, "nothing is left of the bad sets", func() bool {
		found, _ := filepath.Glob(filepath.Join(root, "*secret*"))
		inside, _ := filepath.Glob(filepath.Join(b.secrets, "*"))
		return len(found) == 1 && len(inside) == 1
	})
}

func agentsEnvironment(t *testing.T, _ *bareAgent) {
	b := bareCommand(t, func(cmd *exec.Cmd, _ string) { cmd.Env = append(os.Environ(), "OF_THE_AGENT=private") })
	each(t, b, []call{
		{request: `{"command":"env; cat /proc/self/environ"}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
			if strings.Contains(textOf(t, answer, "stdout"), "private") {
				t.Errorf("got %q", answer["stdout"])
			}
		}},
		{request: service("s", "env", ""), want: `{}`},
		{request: open("s", ""), want: `{}`},
	})
	b.serviceEnds(t, "s")
	if logs := b.ask(t, map[string]any{"action": "logs_service", "service_name": "s"}); strings.Contains(textOf(t, logs, "stdout"), "private") || logs["stdout"] == "" {
		t.Errorf("got %v", logs)
	}
	if got := b.shellDo(t, "s", "env; echo do''ne", "done\r\n"); strings.Contains(got, "private") {
		t.Errorf("got %q", got)
	}
	b.closeShell(t, "s")
}
