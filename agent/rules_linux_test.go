package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const someRules = `,"redaction":[{"type":"email","strategy":"mask"},{"name":"ticket","pattern":"JIRA-[0-9]+","strategy":"hash"},{"type":"ip"}]`

// Rules apply to whatever leaves the sandbox, and results count what they did.
func TestRules(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const says = `echo joe@example.org; printf 'at JIRA-'; echo 12 10.0.0.1 1.2.3.4 >&2; echo 5`
	const stderr = "12 [REDACTED_IP] [REDACTED_IP]\n"
	got := answerOf(t, b.exchange(t, []byte(`{"command":`+quoted(says)+someRules+"}\n")))
	contains(t, got, `{"stdout":"j***@example.org\nat <ticket_hash:639e454b>\n","stderr":`+quoted(stderr)+`,"redaction_matches":{"email":1,"ticket":1,"ip":2}}`)
	if got["blocked"] != nil {
		t.Errorf("blocked: %v", got["blocked"])
	}

	frames := b.exchange(t, []byte(`{"command":`+quoted(says)+`,"stream":true`+someRules+"}\n"))
	for _, want := range []string{"j***@example.org\n", "<ticket_hash:639e454b>\n", "[REDACTED_IP]", `"redaction_matches":{"email":1,"ip":2,"ticket":1}`} {
		if !bytes.Contains(frames, []byte(want)) {
			t.Errorf("a streamed exec has no %q: %q", want, frames)
		}
	}

	each(t, b, []call{
		{request: open("s", `,"env":{"PS1":"","TERM":"dumb"}`+someRules), want: `{}`},
		{request: service("web", says+" # ann@x.org", someRules), want: `{"command":` + quoted(recorded(says)+" # a***@x.org") + `}`},
	})
	b.shellDo(t, "s", "stty -echo; echo wi''thout", "without\r\n") // a shell may show what is typed twice
	text := b.shellDo(t, "s", "echo joe@example.org | tr j p; echo en''d", "end\r\n")
	if !strings.Contains(text, "p***@example.org\r\n") || strings.Contains(text, "joe@") {
		t.Errorf("the shell prints %q", text)
	}
	contains(t, b.ask(t, map[string]any{"action": "read_shell", "shell_id": "s"}), `{"redaction_matches":{"email":1}}`)
	b.closeShell(t, "s")
	contains(t, b.serviceEnds(t, "web"), `{"redaction_matches":{"email":1,"ticket":1,"ip":2}}`)
	contains(t, b.ask(t, map[string]any{"action": "logs_service", "service_name": "web"}), `{"stdout":"j***@example.org\nat <ticket_hash:639e454b>\n","stderr":`+quoted(stderr)+`}`)
}

// recorded is a command as its record has it.
func recorded(command string) string {
	return strings.NewReplacer("joe@", "j***@", "10.0.0.1", "[REDACTED_IP]", "1.2.3.4", "[REDACTED_IP]").Replace(command)
}

// A rule that blocks lets nothing pass from its match on, and of what is
// captured nothing at all.
func TestRulesThatBlock(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const rule = `,"redaction":[{"name":"key","pattern":"sk-[a-z]{4}","strategy":"block"}]`
	const command = `"command":"echo before; echo also >&2; echo sk-abcd after; echo more; exit 3"`
	for _, encoding := range []string{"", "base64"} {
		got := answerOf(t, b.exchange(t, []byte(`{`+command+`,"encoding":"`+encoding+`"`+rule+"}\n")))
		want := "Output blocked: detected key."
		if encoding != "" {
			want = "T3V0cHV0IGJsb2NrZWQ6IGRldGVjdGVkIGtleS4="
		}
		contains(t, got, `{"stdout":"`+want+`","stderr":"","exit_code":3,"blocked":"key","redaction_matches":{"key":1}}`)
	}
	frames := b.exchange(t, []byte(`{"stream":true,`+command+rule+"}\n"))
	for text, want := range map[string]bool{"before\n": true, "Output blocked: detected key.": true, `"blocked":"key"`: true, "after": false, "more": false, "sk-a": false} {
		if bytes.Contains(frames, []byte(text)) != want {
			t.Errorf("%q is there: %v, in %q", text, !want, frames)
		}
	}
}

// Rules that cannot be followed are refused, before anything is started.
func TestRuleErrors(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for _, tt := range []struct{ rules, object, message string }{
		{`{}`, "redaction", "redaction must be a list"},
		{`"email"`, "redaction", "redaction must be a list"},
		{`["email"]`, "redaction[0]", `redaction[0] must be an object of the strings "name", "type", "pattern" and "strategy"`},
		{`[{"type":"email"},{"type":"ip","stratgy":"hash"}]`, "redaction[1]", `redaction[1] must be an object of the strings "name", "type", "pattern" and "strategy"`},
		{`[{"type":7}]`, "redaction[0]", `redaction[0] must be an object of the strings "name", "type", "pattern" and "strategy"`},
		{`[null]`, "redaction[0]", `redaction[0] must be an object of the strings "name", "type", "pattern" and "strategy"`},
		{`[{"type":"emails"}]`, "redaction[0].type", "cannot redact: rule 0: type is not one of email, credit_card, ip, mac_address, url, custom"},
		{`[{"type":"ip"},{"name":"x","pattern":"("}]`, "redaction[1].pattern", `cannot redact: rule 1: pattern is no expression in RE2 syntax: missing closing ) "("`},
		{`[` + strings.Repeat(`{"type":"ip"},`, 64) + `{"type":"ip"}]`, "redaction", "redaction must be at most 64 rules"},
	} {
		for _, request := range []string{`{"command":"true"`, `{"stream":true,"argv":["true"]`, `{"action":"open_shell","shell_id":"s"`, `{"action":"start_service","service_name":"s","command":"true"`} {
			got := answerOf(t, b.exchange(t, []byte(request+`,"redaction":`+tt.rules+"}\n")))
			message, _ := json.Marshal(tt.message)
			contains(t, got, `{"code":"bad_request","object":"`+tt.object+`","error":`+string(message)+`}`)
		}
	}
	each(t, b, []call{{request: `{"command":"echo a@b.co","redaction":null}`, want: `{"stdout":"a@b.co\n"}`}})
}

// Errors are held to the rules of their request, too.
func TestRulesInErrors(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for _, request := range []string{`{"argv":["joe@example.org"]`, `{"action":"open_shell","shell_id":"s","cwd":"joe@example.org"`} {
		got := string(b.exchange(t, []byte(request+someRules+"}\n")))
		if !strings.Contains(got, `"error"`) || strings.Contains(got, "joe@") || !strings.Contains(got, "j***@example.org") {
			t.Errorf("%s: got %q", request, got)
		}
	}
}

// Rules that an agent was started with apply to every request, and a request can only
// add to them.
func TestRulesOfThePlan(t *testing.T) {
	mail := wire.RedactRule{Type: "email", Strategy: "mask"}
	ticket := wire.RedactRule{Name: "ticket", Pattern: "JIRA-[0-9]+"}
	b := startIn(t, t.TempDir(), policy.Redaction(mail), policy.Redaction(ticket))
	const says = `echo joe@example.org; printf 'at JIRA-'; echo 12 10.0.0.1 >&2; echo 5`
	const stdout, stderr = "j***@example.org\nat [REDACTED_TICKET]\n", "12 10.0.0.1\n"
	hello, err := b.client.Hello(b.context())
	if err != nil || !slices.Equal(hello.Redaction, []string{"email", "ticket"}) {
		t.Errorf("hello names the rules %q, %v", hello.Redaction, err)
	}
	for name, tt := range map[string]struct {
		rules  wire.RedactRules
		stderr string
	}{
		"no rules":                   {nil, stderr},
		"an old client, which sends": {wire.RedactRules{mail, ticket}, stderr},
		"another order":              {wire.RedactRules{ticket, mail}, stderr},
		"one more":                   {wire.RedactRules{{Type: "ip"}, mail}, "12 [REDACTED_IP]\n"},
	} {
		r := b.run(wire.ExecRequest{Command: says, Redaction: tt.rules})
		if r.Stdout != stdout || r.Stderr != tt.stderr || r.RedactionMatches["email"] != 1 || r.RedactionMatches["ticket"] != 1 {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	b.wantError(wire.ExecRequest{Command: says, Redaction: wire.RedactRules{mail, {Type: "ip"}, {Name: "Email", Pattern: "never"}}}, wire.CodeBadRequest, "redaction[2].name")
	b.wantError(wire.ExecRequest{Argv: []string{"joe@example.org"}}, wire.CodeNotFound, "j***@example.org")

	var out, errs bytes.Buffer
	p, err := b.client.Start(b.context(), wire.ExecRequest{Command: says}, wire.Streams{Stdout: &out, Stderr: &errs})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil || out.String() != stdout || errs.String() != stderr {
		t.Errorf("a streamed command: %q, %q, %v", out.String(), errs.String(), err)
	}
	pr, pw := blockingPipe(t)
	passed := b.passing(wire.ExecRequest{Command: says}, pw)
	wantAll(t, pr, stdout)
	if got := passed.exit(); got.RedactionMatches["email"] != 1 {
		t.Errorf("a passed pipe: %+v", got)
	}
	out.Reset()
	p, err = b.client.Start(b.context(), wire.ExecRequest{Command: says, TTY: &wire.TTY{Rows: 9, Cols: 99}}, wire.Streams{Stdout: &out})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil || out.String() != "j***@example.org\r\nat [REDACTED_TICKET] 10.0.0.1\r\n5\r\n" {
		t.Errorf("a terminal: %q, %v", out.String(), err)
	}

	s := b.session(wire.OpenSessionRequest{})
	for range 2 { // each command by itself
		if got := s.sh(says); printed(got, "stdout") != stdout || printed(got, "stderr") != stderr || got.RedactionMatches["email"] != 1 {
			t.Errorf("a session: %+v", got)
		}
	}
	sh, err := wire.Call(b.context(), b.client, wire.OpenShell, wire.OpenShellRequest{ShellID: "sh", Env: map[string]string{"PS1": "", "TERM": "dumb"}})
	if err == nil {
		_, err = wire.Call(b.context(), b.client, wire.WriteShell, wire.WriteShellRequest{ShellID: sh.ShellID, Input: "stty -echo; echo joe@example.org; echo en''d\r"})
	}
	var read wire.ReadShellResult
	for err == nil && !strings.Contains(read.Output, "end\r\n") {
		read, err = wire.Call(b.context(), b.client, wire.ReadShell, wire.ReadShellRequest{ShellID: sh.ShellID, WaitMS: 100})
	}
	if err != nil || !strings.Contains(read.Output, "j***@example.org\r\n") || strings.Contains(read.Output, "joe@") {
		t.Errorf("a shell: %q, %v", read.Output, err)
	}
	started, err := wire.Call(b.context(), b.client, wire.StartService, wire.StartServiceRequest{ServiceName: "web", Command: says + "; sleep 1000"})
	if err != nil || strings.Contains(started.Command, "joe@") || !strings.Contains(started.Command, "j***@example.org") {
		t.Errorf("a service: %+v, %v", started, err)
	}
	eventually(t, "the service's log is there", func() bool {
		logs, err := wire.Call(b.context(), b.client, wire.LogsService, wire.LogsServiceRequest{ServiceName: "web"})
		if err != nil || strings.Contains(logs.Stdout, "joe@") {
			t.Fatalf("the logs: %+v, %v", logs, err)
		}
		return logs.Stdout == stdout && logs.Stderr == stderr
	})

	// Files are what they are.
	_, err = wire.Call(b.context(), b.client, wire.ReadWorkspaceFile, wire.ReadWorkspaceFileRequest{Path: "joe@example.org"})
	var e *wire.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "joe@example.org") {
		t.Errorf("a file that does not exist: %v", err)
	}
}
