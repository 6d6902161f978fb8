package agent_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// service is a request that starts one.
func service(name, command, more string) string {
	return `{"action":"start_service","service_name":` + quoted(name) + `,"command":` + quoted(command) + more + `}`
}

// aboutService is a request for one of the other actions.
func aboutService(action, name string) string {
	return `{"action":"` + action + `_service","service_name":` + quoted(name) + `}`
}

// serviceEnds waits until a service runs no longer.
func (b *bareAgent) serviceEnds(t *testing.T, name string) map[string]any {
	t.Helper()
	var answer map[string]any
	eventually(t, "the service "+name+" ends", func() bool {
		answer = b.ask(t, map[string]any{"action": "status_service", "service_name": name})
		return answer["state"] != "running"
	})
	return answer
}

// runs is a service that lives until it is stopped.
const runs = "exec sleep 60"

// Contract 001.11: names and errors.
func TestConformServiceErrors(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	const need, bad = "service_name is required", "service_name is invalid"
	for _, action := range []string{"start_service", "status_service", "logs_service", "stop_service"} {
		t.Run(action, func(t *testing.T) {
			conform(t)
			each(t, b, []call{{request: `{"action":"` + action + `"}`, err: need}, {request: `{"action":"` + action + `","service_name":" \n"}`, err: need}})
			for _, name := range []string{".a", "-a", "_a", "a/b", "../a", "a b", "a\x00", "é", "a\n b", strings.Repeat("a", 65), "a'"} {
				each(t, b, []call{{request: `{"action":"` + action + `","service_name":` + quoted(name) + `}`, err: bad}})
			}
			if action != "start_service" {
				each(t, b, []call{
					{request: `{"action":"` + action + `","service_name":" none "}`, err: "service 'none' does not exist"},
					{request: `{"action":"` + action + `","service_name":5}`, err: "service '5' does not exist"},
				})
			}
		})
	}
	calls(t, b, []call{
		{name: "longest_name", request: service(strings.Repeat("a", 64), "true", ""), want: `{"service_name":"` + strings.Repeat("a", 64) + `"}`},
		{name: "odd_name", request: service(" 0._-x ", "true", ""), want: `{"service_name":"0._-x"}`},
		{name: "env_list", request: service("one", runs, `,"env":["A"]`), err: "service env must be a JSON object"},
		{name: "env_name", request: service("one", runs, `,"env":{"1":""}`), err: "secret name is invalid"},
		{name: "env_no_name", request: service("one", runs, `,"env":{"":""}`), err: "secret name is required"},
		{name: "cwd_outside", request: service("one", runs, `,"cwd":"/tmp"`), err: "destination must stay inside /workspace"},
		{name: "cwd_missing", request: service("one", runs, `,"cwd":"nonesuch"`), err: anyError},
		{name: "bad_timeout", request: service("one", runs, `,"ready_timeout_seconds":"soon"`), err: anyError},
		{name: "bad_interval", request: service("one", runs, `,"ready_interval_ms":[]`), err: anyError},
		{name: "env_before_name", request: service(".", runs, `,"env":[]`), err: "service env must be a JSON object"},
		{name: "name_before_cwd", request: service(".", runs, `,"cwd":"/"`), err: bad},
		{name: "unsupported_readiness", request: service("one", runs, `,"readiness":{"type":"dns","path":"x"}`), err: "unsupported readiness type: dns"},
		{name: "readiness_type_is_str", request: service("one", runs, `,"readiness":{"type":5}`), err: "unsupported readiness type: 5"},
		{name: "readiness_without_type", request: service("one", runs, `,"readiness":{}`), err: anyError},
		{name: "readiness_outside", request: service("one", runs, `,"readiness":{"type":"file","path":"/etc/passwd"}`), err: "destination must stay inside /workspace"},
		{name: "nothing_started", request: aboutService("status", "one"), err: "service 'one' does not exist"},
		{name: "start", request: service("one", runs, ""), want: `{"state":"running"}`},
		{name: "already_running", request: service(" one", runs, ""), err: "service 'one' is already running"},
		{name: "cwd_before_running", request: service("one", runs, `,"cwd":"/"`), err: "destination must stay inside /workspace"},
		{name: "stop", request: aboutService("stop", "one"), want: `{"state":"stopped"}`},
	})
	t.Run("invalid_record", func(t *testing.T) {
		conform(t)
		put(t, "[]", b.services, "odd.json")
		each(t, b, []call{{request: aboutService("status", "odd"), err: "service record for 'odd' is invalid"}})
	})
}

// Contract 001.11: what a service is.
func TestConformService(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "", b.workspace, "dir", "here")
	started := b.ask(t, map[string]any{"action": "start_service", "service_name": "web", "command": "echo up; exec sleep 60"})
	t.Run("record", func(t *testing.T) {
		conform(t)
		contains(t, started, `{"service_name":"web","command":"echo up; exec sleep 60","cwd":"/workspace","state":"running","readiness":null,
			"ended_at":null,"exit_code":null,"stop_reason":null}`)
		types(t, started, map[string]string{"started_at": "number", "ready_at": "number", "pid": "int"})
		if at, _ := started["started_at"].(float64); time.Since(time.Unix(int64(at), 0)) > time.Minute {
			t.Errorf("it was started at %v", started["started_at"])
		}
	})
	t.Run("own_session", func(t *testing.T) {
		conform(t)
		pid := strconv.Itoa(int(numberOf(t, started, "pid")))
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if err != nil || fields[2] != pid || fields[3] != pid {
			t.Errorf("its group and session are not its own: %s, %v", text, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		conform(t)
		contains(t, b.ask(t, map[string]any{"action": "status_service", "service_name": "web"}),
			fmt.Sprintf(`{"state":"running","pid":%v,"ready_at":%v}`, started["pid"], strconv.FormatFloat(numberOf(t, started, "ready_at"), 'f', -1, 64)))
	})
	t.Run("stop", func(t *testing.T) {
		conform(t)
		answer := b.ask(t, map[string]any{"action": "stop_service", "service_name": "web"})
		contains(t, answer, `{"state":"stopped","stop_reason":"sigterm","service_name":"web"}`)
		types(t, answer, map[string]string{"ended_at": "number"})
		again := b.ask(t, map[string]any{"action": "stop_service", "service_name": "web"})
		if again["ended_at"] != answer["ended_at"] || again["stop_reason"] != "sigterm" {
			t.Errorf("a second stop has changed %v to %v", answer, again)
		}
	})
	t.Run("starts_again", func(t *testing.T) {
		conform(t)
		each(t, b, []call{
			{request: service("web", "echo second; "+runs, ""), want: `{"state":"running","stop_reason":null,"ended_at":null,"exit_code":null}`},
			{request: aboutService("status", "web"), want: `{"state":"running"}`},
		})
		eventually(t, "the log begins anew", func() bool {
			return b.ask(t, map[string]any{"action": "logs_service", "service_name": "web"})["stdout"] == "second\n"
		})
		each(t, b, []call{{request: aboutService("stop", "web"), want: `{"stop_reason":"sigterm"}`}})
	})
	t.Run("exits", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: service("short", "exit 3", ""), want: `{"service_name":"short"}`}})
		answer := b.serviceEnds(t, "short")
		contains(t, answer, `{"state":"exited","exit_code":3,"stop_reason":null}`)
		types(t, answer, map[string]string{"ended_at": "number"})
		each(t, b, []call{{request: aboutService("stop", "short"), want: `{"state":"exited","exit_code":3,"stop_reason":null}`}})
	})
	for name, c := range map[string]struct{ command, more, want string }{
		"cwd":         {"echo $(ls)", `,"cwd":"./dir/"`, "here\n"},
		"default_cwd": {"echo $(ls)", "", "dir\n"},
		"env":         {"echo $A $B $C", `,"env":{" A ":1,"B":true,"C":"x  y"}`, "1 True x y\n"},
		"login_shell": {"echo $0 $#", "", "/bin/sh 0\n"},
		"quotes":      {`echo 'a"b' "c'd" \\`, "", "a\"b c'd \\\n"},
		"newlines":    {"echo a\necho b", "", "a\nb\n"},
		"no_command":  {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			each(t, b, []call{{request: service(name, c.command, c.more), want: `{}`}})
			contains(t, b.serviceEnds(t, name), `{"state":"exited","exit_code":0}`)
			answer := b.ask(t, map[string]any{"action": "logs_service", "service_name": name})
			if answer["stdout"] != c.want {
				t.Errorf("got %q, want %q", answer["stdout"], c.want)
			}
		})
	}
}

// Contract 001.11: readiness.
func TestConformReadiness(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "", b.workspace, "dir", "here")
	put(t, "", b.workspace, "ready-before")
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch code, _ := strconv.Atoi(strings.Trim(r.URL.Path, "/")); {
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case code == 302:
			http.Redirect(w, r, "/200", code)
		default:
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	const quick = `,"ready_interval_ms":1`
	ready := func(readiness string) string { return quick + `,"ready_timeout_seconds":20,"readiness":` + readiness }
	never := func(readiness string) string { return quick + `,"ready_timeout_seconds":"0","readiness":` + readiness }
	const isReady, isNot = `{"state":"running","stop_reason":null}`, `{"state":"failed","stop_reason":"readiness_timeout","ready_at":null}`
	const failed = `{"state":"failed","stop_reason":"process_exited_before_ready","exit_code":7,"ready_at":null}`
	for _, c := range []struct{ name, command, more, want string }{
		{"file", "sleep 0.2; touch ready; " + runs, ready(`{"type":"file","path":"ready"}`), isReady},
		{"file_of_the_workspace", runs, ready(`{"type":"file","path":"ready-before"}`) + `,"cwd":"dir"`, isReady},
		{"file_not_of_cwd", runs, never(`{"type":"file","path":"here"}`) + `,"cwd":"dir"`, isNot},
		{"directory", runs, ready(`{"type":"file","path":"/workspace/dir"}`), isReady},
		{"no_file", runs, never(`{"type":"file","path":"nonesuch"}`), isNot},
		{"tcp", runs, ready(`{"type":"tcp","address":"127.0.0.1:` + port + `"}`), isReady},
		{"tcp_by_name", runs, ready(`{"type":"tcp","address":"localhost:` + port + `"}`), isReady},
		{"tcp_closed", runs, never(`{"type":"tcp","address":"127.0.0.1:1"}`), isNot},
		{"http_200", runs, ready(`{"type":"http","url":"` + web.URL + `/200"}`), isReady},
		{"http_204", runs, ready(`{"type":"http","url":"` + web.URL + `/204"}`), isReady},
		{"http_redirect", runs, ready(`{"type":"http","url":"` + web.URL + `/302"}`), isReady},
		{"http_404", runs, never(`{"type":"http","url":"` + web.URL + `/404"}`), isNot},
		{"http_500", runs, never(`{"type":"http","url":"` + web.URL + `/500"}`), isNot},
		{"http_closed", runs, never(`{"type":"http","url":"http://127.0.0.1:1/"}`), isNot},
		{"command", runs, ready(`{"type":"command","command":"test -e here && test $A = b"}`) + `,"cwd":"dir","env":{"A":"b"}`, isReady},
		{"command_fails", runs, never(`{"type":"command","command":"exit 1"}`), isNot},
		{"exits_before", "exit 7", ready(`{"type":"file","path":"nonesuch"}`), failed},
		{"exits_later", "sleep 0.1; exit 7", ready(`{"type":"tcp","address":"127.0.0.1:1"}`), failed},
		{"string", runs, ready(`"file"`), `{"state":"running","readiness":null}`},
		{"list", runs, ready(`["file"]`), `{"state":"running","readiness":null}`},
		{"null", runs, ready(`null`), `{"state":"running","readiness":null}`},
		{"interval_of_nothing", runs, `,"ready_interval_ms":-5,"readiness":{"type":"file","path":"dir"}`, isReady},
	} {
		t.Run(c.name, func(t *testing.T) {
			conform(t)
			answer := answerOf(t, b.exchange(t, []byte(service(c.name, c.command, c.more)+"\n")))
			contains(t, answer, c.want)
			if answer["state"] == "running" {
				types(t, answer, map[string]string{"ready_at": "number", "ended_at": "null"})
			} else {
				types(t, answer, map[string]string{"ended_at": "number"})
				contains(t, b.ask(t, map[string]any{"action": "status_service", "service_name": c.name}), c.want)
				each(t, b, []call{{request: aboutService("stop", c.name), want: c.want}}) // is unchanged
			}
			each(t, b, []call{{request: aboutService("stop", c.name), want: `{}`}})
		})
	}
	t.Run("told_as_given", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: service("told", runs, ready(`{"type":"file","path":" ./dir/","more":[1,null]}`)),
			want: `{"readiness":{"type":"file","path":" ./dir/","more":[1,null]}}`}, {request: aboutService("stop", "told"), want: `{}`}})
	})
	t.Run("times_out", func(t *testing.T) {
		conform(t)
		begun := time.Now()
		each(t, b, []call{{request: service("late", runs, `,"ready_timeout_seconds":1.9,"ready_interval_ms":10,"readiness":{"type":"file","path":"nonesuch"}`), want: isNot}})
		if d := time.Since(begun); d < 900*time.Millisecond || d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// Contract 001.11: logs.
func TestConformServiceLogs(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	each(t, b, []call{{request: service("log", `printf 'a\nb\r\nc'; printf 'x\n' >&2`, ""), want: `{}`}})
	b.serviceEnds(t, "log")
	logs := func(more string) string { return `{"action":"logs_service","service_name":"log"` + more + `}` }
	calls(t, b, []call{
		{name: "all", request: logs(""), want: `{"service_name":"log","state":"exited","exit_code":0,"stdout":"a\nb\r\nc","stderr":"x\n","tail_lines":null,"truncated":false}`},
		{name: "null", request: logs(`,"tail_lines":null`), want: `{"stdout":"a\nb\r\nc","tail_lines":null,"truncated":false}`},
		{name: "more_than_there_are", request: logs(`,"tail_lines":9`), want: `{"stdout":"a\nb\r\nc","stderr":"x\n","tail_lines":9,"truncated":false}`},
		{name: "as_many", request: logs(`,"tail_lines":3`), want: `{"stdout":"a\nb\r\nc","truncated":false}`},
		{name: "last_two", request: logs(`,"tail_lines":2`), want: `{"stdout":"b\r\nc","stderr":"x\n","tail_lines":2,"truncated":true}`},
		{name: "last", request: logs(`,"tail_lines":"1"`), want: `{"stdout":"c","stderr":"x\n","tail_lines":1,"truncated":true}`},
		{name: "word", request: logs(`,"tail_lines":"all"`), err: anyError},
	})
	t.Run("while_it_runs", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: service("live", "echo now; "+runs, ""), want: `{}`}})
		eventually(t, "its output is there", func() bool {
			answer := b.ask(t, map[string]any{"action": "logs_service", "service_name": "live"})
			return answer["stdout"] == "now\n" && answer["state"] == "running"
		})
		each(t, b, []call{{request: aboutService("stop", "live"), want: `{"state":"stopped"}`}})
	})
	t.Run("bytes", func(t *testing.T) {
		conform(t)
		each(t, b, []call{{request: service("bytes", `printf '\377\303\251'`, ""), want: `{}`}})
		b.serviceEnds(t, "bytes")
		contains(t, b.ask(t, map[string]any{"action": "logs_service", "service_name": "bytes"}), `{"stdout":"\ufffdé"}`)
	})
}
