package agent_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/agent/internal/exec"
	"github.com/paddock-dev/paddock/wire"
)

// Contract 001.2: exec.
func TestConformExec(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	home := filepath.Dir(put(t, "echo login; export FROM_PROFILE=1", b.workspace, "home", ".profile"))
	const badName, noName = "secret name is invalid", "secret name is required"
	env := func(env string) string { return `{"command":"env","env":` + env + `}` }
	calls(t, b, []call{
		{name: "result", request: `{"action":"exec","command":"echo out; echo err >&2; exit 3"}`,
			want: `{"stdout":"out\n","stderr":"err\n","exit_code":3}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
				types(t, answer, map[string]string{"stdout": "string", "stderr": "string", "exit_code": "int", "duration_ms": "int"})
			}},
		{name: "duration", request: `{"command":"sleep 0.2"}`, check: func(t *testing.T, _ *bareAgent, answer map[string]any) {
			if ms, _ := answer["duration_ms"].(float64); ms < 200 || ms > 20_000 {
				t.Errorf("it took %v ms", answer["duration_ms"])
			}
		}},
		{name: "login_shell", request: `{"command":"echo $0 $# $FROM_PROFILE","env":{"HOME":` + quoted(home) + `}}`, want: `{"stdout":"login\n/bin/sh 0 1\n"}`},
		{name: "shell_syntax", request: `{"command":"for i in 1 2; do echo $i; done | tail -n 1 && false"}`, want: `{"stdout":"2\n","exit_code":1}`},
		{name: "several_lines", request: `{"command":"echo 1\necho 2 # x\n"}`, want: `{"stdout":"1\n2\n","exit_code":0}`},
		{name: "empty_command", request: `{"action":"exec","command":""}`, want: `{"stdout":"","stderr":"","exit_code":0}`},
		{name: "no_command", request: `{"action":"exec"}`, want: `{"stdout":"","stderr":"","exit_code":0}`},
		{name: "empty_request", request: `{}`, want: `{"stdout":"","stderr":"","exit_code":0}`},
		{name: "command_is_a_string", request: `{"command":5}`, want: `{"exit_code":127}`},
		{name: "not_found", request: `{"command":"nonesuch-program"}`, want: `{"exit_code":127,"stdout":""}`},
		{name: "not_executable", request: `{"command":"/etc/passwd"}`, want: `{"exit_code":126}`},
		{name: "syntax_error", request: `{"command":"if"}`, want: `{"exit_code":2}`},
		{name: "nul_byte", request: `{"command":"echo \u0000"}`, err: anyError},
		{name: "signal_15", request: `{"command":"kill -TERM $$"}`, want: `{"exit_code":-15}`},
		{name: "signal_9", request: `{"command":"kill -KILL $$"}`, want: `{"exit_code":-9}`},
		{name: "signal_of_a_child", request: `{"command":"sh -c 'kill -9 $$'; exit $?"}`, want: `{"exit_code":137}`},
		{name: "env", request: `{"command":"echo $A $B","env":{" A ":"1","B":"x y"}}`, want: `{"stdout":"1 x y\n"}`},
		{name: "env_overrides", request: `{"command":"echo $HOME","env":{"HOME":"/nonesuch"}}`, want: `{"stdout":"/nonesuch\n"}`},
		{name: "env_values", request: `{"command":"echo $A $B $C","env":{"A":1,"B":true,"C":1.5}}`, want: `{"stdout":"1 True 1.5\n"}`},
		{name: "env_is_a_list", request: env(`["A=1"]`), err: "exec env must be a JSON object"},
		{name: "env_is_a_string", request: env(`"A=1"`), err: "exec env must be a JSON object"},
		{name: "env_is_false", request: env(`false`), err: "exec env must be a JSON object"},
		{name: "env_empty", request: env(`{}`), want: `{"exit_code":0}`},
		{name: "env_name_empty", request: env(`{"":"x"}`), err: noName},
		{name: "env_name_blank", request: env(`{" \t":"x"}`), err: noName},
		{name: "env_name_digit", request: env(`{"1A":"x"}`), err: badName},
		{name: "env_name_dash", request: env(`{"A-B":"x"}`), err: badName},
		{name: "env_name_equals", request: env(`{"A=B":"x"}`), err: badName},
		{name: "env_name_foreign", request: env(`{"É":"x"}`), err: badName},
		{name: "env_name_inner_space", request: env(`{"A B":"x"}`), err: badName},
		{name: "env_name_newline", request: env(`{"A\nB":"x"}`), err: badName},
		{name: "env_name_64", request: env(`{"` + strings.Repeat("A", 64) + `":"x"}`), want: `{"exit_code":0}`},
		{name: "env_name_65", request: env(`{"` + strings.Repeat("A", 65) + `":"x"}`), err: badName},
		{name: "env_value_nul", request: env(`{"A":"\u0000"}`), err: anyError},
	})
}

// Contract 001.2: a timeout is a result.
func TestConformExecTimeout(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	// They wait together: each takes its second.
	var waiting sync.WaitGroup
	got := map[string]*map[string]any{}
	begun := time.Now()
	for name, request := range map[string]string{
		"number":               `{"command":"sleep 60","timeout_seconds":1}`,
		"string":               `{"command":"sleep 60","timeout_seconds":"1"}`,
		"whole_float":          `{"command":"sleep 60","timeout_seconds":1.0}`,
		"pipe_held_by_a_stray": `{"command":"setsid sleep 60 & sleep 60","timeout_seconds":1}`,
	} {
		answer := new(map[string]any)
		got[name] = answer
		waiting.Go(func() { *answer = b.ask(t, json.RawMessage(request)) })
	}
	waiting.Wait()
	if d := time.Since(begun); d < time.Second || d > 40*time.Second {
		t.Errorf("it took %v", d)
	}
	for name, answer := range got {
		t.Run(name, func(t *testing.T) {
			conform(t)
			contains(t, *answer, `{"exit_code":124,"stdout":"","stderr":"command timed out after 1s"}`)
			if _, ok := (*answer)["error"]; ok {
				t.Errorf("got %v", *answer)
			}
		})
	}
	calls(t, b, []call{
		{name: "in_time", request: `{"command":"echo x","timeout_seconds":20}`, want: `{"exit_code":0,"stdout":"x\n","stderr":""}`},
		{name: "word", request: `{"command":"touch ran","timeout_seconds":"soon"}`, err: anyError},
		{name: "list", request: `{"command":"touch ran","timeout_seconds":[1]}`, err: anyError,
			check: func(t *testing.T, b *bareAgent, _ map[string]any) { absent(t, b.workspace, "ran") }},
	})
}

// Thirty seconds are too long for a test, so this one looks inside.
func TestConformExecDefaultTimeout(t *testing.T) {
	conform(t)
	if got := exec.Timeout(&wire.ExecRequest{Command: "sleep 60"}); got != 30*time.Second {
		t.Errorf("a command has %v", got)
	}
}
