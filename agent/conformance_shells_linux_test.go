package agent_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// shellRead reads a shell until its output holds text, and gives all of it.
func (b *bareAgent) shellRead(t *testing.T, id, text string) string {
	t.Helper()
	var all strings.Builder
	cursor := 0.0
	deadline := time.Now().Add(patience)
	for {
		answer := b.ask(t, map[string]any{"action": "read_shell", "shell_id": id, "cursor": cursor})
		output, ok := answer["output"].(string)
		if !ok {
			t.Fatalf("cannot read: %v", answer)
		}
		if all.WriteString(output); strings.Contains(all.String(), text) {
			return all.String()
		}
		cursor = numberOf(t, answer, "next_cursor")
		if time.Now().After(deadline) {
			t.Fatalf("shell %s never said %q, but %q", id, text, &all)
		}
		time.Sleep(5 * time.Millisecond) // a client of the contract can only ask again
	}
}

// shellDo types a line and waits for a text that it prints.
func (b *bareAgent) shellDo(t *testing.T, id, line, text string) string {
	t.Helper()
	each(t, b, []call{{request: `{"action":"write_shell","shell_id":` + quoted(id) + `,"input":` + quoted(line) + `}`, want: `{"state":"running"}`}})
	return b.shellRead(t, id, text)
}

// shellEnds waits until a shell has stopped.
func (b *bareAgent) shellEnds(t *testing.T, id string) map[string]any {
	t.Helper()
	var answer map[string]any
	eventually(t, "the shell stops", func() bool {
		answer = b.ask(t, map[string]any{"action": "read_shell", "shell_id": id})
		return answer["state"] == "stopped"
	})
	return answer
}

func open(id, more string) string {
	return `{"action":"open_shell","shell_id":` + quoted(id) + more + `}`
}

// closeShell ends a shell.
func (b *bareAgent) closeShell(t *testing.T, id string) map[string]any {
	t.Helper()
	return b.ask(t, map[string]any{"action": "close_shell", "shell_id": id})
}

// Contract 001.10: ids and errors.
func TestConformShellErrors(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	const need = "shell_id is required"
	for _, action := range []string{"open_shell", "read_shell", "write_shell", "signal_shell", "close_shell"} {
		t.Run(action, func(t *testing.T) {
			conform(t)
			each(t, b, []call{
				{request: `{"action":"` + action + `"}`, err: need},
				{request: `{"action":"` + action + `","shell_id":""}`, err: need},
				{request: `{"action":"` + action + `","shell_id":" \t\n"}`, err: need},
			})
			if action != "open_shell" {
				each(t, b, []call{
					{request: `{"action":"` + action + `","shell_id":"none"}`, err: "shell 'none' does not exist"},
					{request: `{"action":"` + action + `","shell_id":" none "}`, err: "shell 'none' does not exist"},
					{request: `{"action":"` + action + `","shell_id":5}`, err: "shell '5' does not exist"},
				})
			}
		})
	}
	calls(t, b, []call{
		{name: "open", request: open("one", ""), want: `{"state":"running"}`},
		{name: "exists", request: open(" one ", ""), err: "shell 'one' already exists"},
		{name: "bad_signal", request: `{"action":"signal_shell","shell_id":"one","signal":"USR1"}`, err: "signal must be one of: HUP, INT, TERM, KILL"},
		{name: "signal_before_shell", request: `{"action":"signal_shell","shell_id":"none","signal":"SIGINT"}`, err: "signal must be one of: HUP, INT, TERM, KILL"},
		{name: "id_before_signal", request: `{"action":"signal_shell","signal":"SIGINT"}`, err: need},
		{name: "env_list", request: open("two", `,"env":[]`), err: "shell env must be a JSON object"},
		{name: "env_name", request: open("two", `,"env":{"A-B":""}`), err: "secret name is invalid"},
		{name: "env_no_name", request: open("two", `,"env":{" ":""}`), err: "secret name is required"},
		{name: "redact_object", request: open("two", `,"redact_values":{}`), err: "redact_values must be a list"},
		{name: "redact_string", request: open("two", `,"redact_values":"x"`), err: "redact_values must be a list"},
		{name: "redact_null", request: open("null", `,"redact_values":null,"env":null`), want: `{"state":"running"}`},
		{name: "cwd_outside", request: open("two", `,"cwd":"/etc"`), err: "destination must stay inside /workspace"},
		{name: "cwd_empty", request: open("two", `,"cwd":" "`), err: "destination must not be empty"},
		{name: "cwd_missing", request: open("two", `,"cwd":"nonesuch"`), err: anyError},
		{name: "cols_negative", request: open("two", `,"cols":-1`), err: anyError},
		{name: "cols_too_many", request: open("two", `,"cols":65536`), err: anyError},
		{name: "rows_too_many", request: open("two", `,"rows":99999999999`), err: anyError},
		{name: "rows_word", request: open("two", `,"rows":"many"`), err: anyError},
		{name: "env_before_redact", request: open("two", `,"env":[],"redact_values":5`), err: "shell env must be a JSON object"},
		{name: "id_stays_free", request: open("two", ""), want: `{"shell_id":"two","state":"running"}`},
	})
}

// Contract 001.10: what a shell is.
func TestConformShell(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "", b.workspace, "dir", "here")
	opened := b.ask(t, map[string]any{"action": "open_shell", "shell_id": " main ", "env": map[string]any{"A": 1, "PROMPT_COMMAND": "true"}})
	t.Run("summary", func(t *testing.T) {
		conform(t)
		contains(t, opened, `{"shell_id":"main","cwd":"/workspace","cols":120,"rows":30,"state":"running","ended_at":null,"exit_code":null}`)
		if at, _ := opened["started_at"].(float64); time.Since(time.Unix(int64(at), 0)) > time.Minute {
			t.Errorf("it was started at %v", opened["started_at"])
		}
	})
	says := func(name, id, line, text string) {
		t.Run(name, func(t *testing.T) {
			conform(t)
			b.shellDo(t, id, line, text)
		})
	}
	each(t, b, []call{{request: open("small", `,"cols":"81","rows":25.5,"cwd":"./dir","env":{"TERM":"dumb","PS1":"> "}`),
		want: `{"cols":81,"rows":25,"cwd":"/workspace/dir"}`}})
	t.Run("prompt", func(t *testing.T) { conform(t); b.shellRead(t, "main", "pyro$ ") })
	says("terminal", "main", "test -t 0 && test -t 1 && test -t 2 && echo te''rminal", "terminal")
	says("size", "main", "stty size", "30 120")
	says("given_size", "small", "stty size", "25 81")
	says("term", "main", "echo =$TERM=", "=xterm-256color=")
	says("given_term", "small", "echo =$TERM=", "=dumb=")
	says("given_prompt", "small", "", "> ")
	says("given_cwd", "small", "echo =$(ls)=", "=here=")
	says("env", "main", "echo =$A=$PROMPT_COMMAND=", "=1=true=")
	says("prompt_command_is_empty", "small", "echo =${PROMPT_COMMAND-unset}=", "==")
	says("new_session", "main", "test $$ = $(ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat) && echo lea''der", "leader")
	says("interactive", "main", "case $- in *i*) echo inter''active;; esac", "interactive")
	t.Run("bash_without_profiles", func(t *testing.T) {
		conform(t)
		if path, err := exec.LookPath("bash"); err == nil {
			b.shellDo(t, "main", "tr '\\0' ' ' < /proc/$$/cmdline", path+" --noprofile --norc -i ")
		} else {
			b.shellDo(t, "main", "tr '\\0' ' ' < /proc/$$/cmdline", "/bin/sh -i ")
		}
	})
	t.Run("write", func(t *testing.T) {
		conform(t)
		each(t, b, []call{
			{request: `{"action":"write_shell","shell_id":"main","input":"echo é","append_newline":0}`,
				want: `{"shell_id":"main","state":"running","input_length":6,"append_newline":false}`},
			{request: `{"action":"write_shell","shell_id":"main","input":"-$((1+1))-"}`, want: `{"input_length":10,"append_newline":true}`},
			{request: `{"action":"write_shell","shell_id":"main"}`, want: `{"input_length":0,"append_newline":true}`},
		})
		b.shellRead(t, "main", "é-2-\r\n")
	})
	t.Run("signal", func(t *testing.T) {
		conform(t)
		each(t, b, []call{
			{request: `{"action":"signal_shell","shell_id":"main"}`, want: `{"shell_id":"main","state":"running","signal":"INT"}`},
			{request: `{"action":"signal_shell","shell_id":"main","signal":"int"}`, want: `{"signal":"INT"}`},
		})
		// What was typed before the shell has seen a signal is dropped.
		eventually(t, "the shell goes on", func() bool {
			each(t, b, []call{{request: `{"action":"write_shell","shell_id":"main","input":"echo still''here"}`, want: `{}`}})
			time.Sleep(20 * time.Millisecond)
			return strings.Contains(b.shellRead(t, "main", "$ "), "stillhere")
		})
	})
	t.Run("exit", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: `{"action":"write_shell","shell_id":"small","input":"echo last; exit 3"}`, want: `{}`}})
		answer := b.shellEnds(t, "small")
		contains(t, answer, `{"state":"stopped","exit_code":3}`)
		types(t, answer, map[string]string{"ended_at": "number", "started_at": "number"})
		b.shellRead(t, "small", "last\r\n") // works after the exit
		each(t, b, []call{
			{request: `{"action":"write_shell","shell_id":"small","input":"x"}`, err: "shell small is not running"},
			{request: `{"action":"signal_shell","shell_id":"small"}`, err: "shell small is not running"},
			{request: open("small", ""), err: "shell 'small' already exists"},
			{request: `{"action":"close_shell","shell_id":"small"}`, want: `{"closed":true,"state":"stopped","exit_code":3}`},
			{request: `{"action":"close_shell","shell_id":"small"}`, err: "shell 'small' does not exist"},
			{request: `{"action":"read_shell","shell_id":"small"}`, err: "shell 'small' does not exist"},
			{request: open("small", ""), want: `{"state":"running","exit_code":null}`},
		})
	})
	t.Run("close", func(t *testing.T) {
		conform(t)
		answer := b.closeShell(t, "main")
		contains(t, answer, `{"shell_id":"main","closed":true,"state":"stopped","exit_code":-1}`)
		types(t, answer, map[string]string{"ended_at": "number"})
	})
	t.Run("killed", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: open("victim", ""), want: `{}`}})
		b.shellRead(t, "victim", "$ ")
		each(t, b, []call{{request: `{"action":"signal_shell","shell_id":"victim","signal":"kill"}`, want: `{"signal":"KILL"}`}})
		contains(t, b.shellEnds(t, "victim"), `{"exit_code":-9}`)
	})
}

// Contract 001.10: reading.
func TestConformReadShell(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	each(t, b, []call{{request: open("r", `,"env":{"PS1":"","TERM":"dumb"}`), want: `{}`}})
	b.shellDo(t, "r", `stty -echo; printf '\360\237\230\200-\303\251-\377-end\n'`, "-end\r\n")
	whole := b.ask(t, map[string]any{"action": "read_shell", "shell_id": "r"})
	text := []rune(textOf(t, whole, "output"))
	total := len(text)
	if total == 0 {
		t.Fatal("there is no output")
	}
	read := func(more string) string { return `{"action":"read_shell","shell_id":"r"` + more + `}` }
	t.Run("utf8", func(t *testing.T) {
		conform(t)
		if !strings.Contains(string(text), "\U0001f600-é-\ufffd-end\r\n") {
			t.Errorf("got %q", string(text))
		}
	})
	t.Run("result", func(t *testing.T) {
		conform(t)
		contains(t, whole, fmt.Sprintf(`{"shell_id":"r","state":"running","cursor":0,"next_cursor":%d,"truncated":false}`, total))
		types(t, whole, map[string]string{"cursor": "int", "next_cursor": "int", "output": "string", "truncated": "bool"})
	})
	at := len([]rune(string(text)[:max(0, strings.Index(string(text), "\U0001f600"))]))
	calls(t, b, []call{
		{name: "cursor_counts_characters", request: read(fmt.Sprintf(`,"cursor":%d,"max_chars":3`, at)),
			want: fmt.Sprintf(`{"cursor":%d,"next_cursor":%d,"output":"😀-é","truncated":true}`, at, at+3)},
		{name: "cursor_string", request: read(fmt.Sprintf(`,"cursor":"%d","max_chars":1.9`, at)), want: `{"output":"😀"}`},
		{name: "cursor_negative", request: read(`,"cursor":-5,"max_chars":1`), want: fmt.Sprintf(`{"cursor":0,"next_cursor":1,"output":%s}`, quoted(string(text[0])))},
		{name: "cursor_beyond", request: read(`,"cursor":99999999999`), want: fmt.Sprintf(`{"cursor":%d,"next_cursor":%d,"output":"","truncated":false}`, total, total)},
		{name: "cursor_at_end", request: read(fmt.Sprintf(`,"cursor":%d`, total)), want: `{"output":"","truncated":false}`},
		{name: "no_characters", request: read(`,"max_chars":0`), want: `{"cursor":0,"next_cursor":0,"output":"","truncated":true}`},
		{name: "bad_cursor", request: read(`,"cursor":"x"`), err: anyError},
		{name: "bad_max_chars", request: read(`,"max_chars":[]`), err: anyError},
	})
	t.Run("default_max_chars", func(t *testing.T) {
		conform(t)
		b.shellDo(t, "r", "yes | head -c 100000; echo; echo do''ne", "done")
		answer := b.ask(t, map[string]any{"action": "read_shell", "shell_id": "r"})
		if n := len([]rune(textOf(t, answer, "output"))); n != 65536 || answer["truncated"] != true {
			t.Errorf("got %d characters, truncated %v", n, answer["truncated"])
		}
	})
}

// Contract 001.10: redaction.
func TestConformShellRedaction(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	each(t, b, []call{{request: open("s", `,"env":{"TOKEN":"hunter2","LONG":"hunter2-and-more","PS1":""},"redact_values":["hunter2","","hunter2-and-more",31415926]`), want: `{}`}})
	b.shellDo(t, "s", "echo =$TOKEN=$LONG=$((31415925+1))=; echo hunter2; echo do''ne", "done\r\n")
	whole := b.shellRead(t, "s", "done\r\n")
	if !strings.Contains(whole, "=[REDACTED]=[REDACTED]=[REDACTED]=") || strings.Contains(whole, "hunter2") || strings.Contains(whole, "31415926") {
		t.Errorf("got %q", whole)
	}
	if !strings.Contains(whole, "echo [REDACTED]") { // as it was echoed
		t.Errorf("got %q", whole)
	}
	for file, text := range snapshot(t, b.shells) {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s holds the secret: %q", file, text)
		}
	}
	b.closeShell(t, "s")
}
