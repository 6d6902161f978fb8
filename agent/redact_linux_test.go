package agent_test

import (
	"bytes"
	"strings"
	"testing"
)

// No error tells a value that its request wants to be hidden, whatever is
// wrong with the rest.
func TestErrorsAreRedacted(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const secret = "RVvalueSecret77"
	put(t, "x", b.workspace, "file")
	hide := `,"redact_values":["` + secret + `"]`
	long := strings.Repeat("x", 70_000)
	for name, request := range map[string]string{
		"readiness":          service("s", "true", `,"readiness":{"type":"`+secret+`"}`+hide),
		"service's cwd":      service("s", "true", `,"cwd":"`+secret+`"`+hide),
		"service's path":     service("s", "true", `,"cwd":"/`+secret+`"`+hide),
		"service's name":     service("/"+secret, "true", hide),
		"service's env":      service("s", "true", `,"env":{"`+secret+`=":"x"}`+hide),
		"shell's cwd":        open("s", `,"cwd":"`+secret+`"`+hide),
		"below a file":       open("s", `,"cwd":"file/`+secret+`"`+hide),
		"shell's id":         open("/"+secret, hide),
		"exec's program":     `{"argv":["` + secret + `"]` + hide + `}`,
		"exec's cwd":         `{"argv":["true"],"cwd":"` + secret + `"` + hide + `}`,
		"a streamed exec":    `{"argv":["` + secret + `"],"stream":true` + hide + `}`,
		"a pass that is not": `{"argv":["` + secret + `"],"pass":["` + secret + `"]` + hide + `}`,
		"values refused":     service("s", "true", `,"readiness":{"type":"`+secret+`"},"redact_values":["`+secret+`","`+long+`"]`),
	} {
		got := b.exchange(t, []byte(request+"\n"))
		if !bytes.Contains(got, []byte(`"error"`)) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s: got %.300q", name, got)
		}
	}
	b.install(t, file("token", secret))
	for name, request := range map[string]string{
		"readiness":   service("s", "true", `,"readiness":{"type":"`+secret+`"}`),
		"shell's cwd": open("s", `,"cwd":"`+secret+`"`),
		"a file":      `{"action":"stat","path":"` + secret + `"}`,
		"an action":   `{"action":"` + secret + `"}`,
	} {
		got := b.exchange(t, []byte(request+"\n"))
		if !bytes.Contains(got, []byte("[REDACTED]")) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s, of an installed secret: got %.300q", name, got)
		}
	}
}

// A shell tells and keeps no more of its directory than a service does.
func TestShellSummariesAreRedacted(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const own, installed, later = "RVvalueSecret77", "Zq9secretXvalue", "Comes1Afterwards"
	for _, dir := range []string{own, installed, later} {
		put(t, "x", b.workspace, dir, "sub", "file")
	}
	b.install(t, file("token", installed))
	says := func(when, secret string) {
		t.Helper()
		for _, request := range []string{
			`{"action":"read_shell","shell_id":"s"}`, `{"action":"list_shells"}`, `{"action":"resize_shell","shell_id":"s","cols":80,"rows":24}`,
			`{"action":"write_shell","shell_id":"s","input":":"}`, `{"action":"signal_shell","shell_id":"s","signal":"INT"}`,
		} {
			got := b.exchange(t, []byte(request+"\n"))
			if bytes.Contains(got, []byte(secret)) || !bytes.Contains(got, []byte(`"cwd":"/workspace/[REDACTED]/sub"`)) {
				t.Errorf("%s, %s: got %q", when, request, got)
			}
		}
		for file, text := range snapshot(t, b.shells) {
			if file != "" && (strings.Contains(text, secret) || !strings.Contains(text, "[REDACTED]")) {
				t.Errorf("%s, %s holds %q", when, file, text)
			}
		}
	}
	for _, secret := range []string{own, installed} {
		got := b.exchange(t, []byte(open("s", `,"cwd":"`+secret+`/sub","redact_values":["`+own+`"]`)+"\n"))
		if bytes.Contains(got, []byte(secret)) {
			t.Errorf("open_shell: got %q", got)
		}
		says("a secret of before", secret)
		if got := b.exchange(t, []byte(`{"action":"close_shell","shell_id":"s"}`+"\n")); bytes.Contains(got, []byte(secret)) {
			t.Errorf("close_shell: got %q", got)
		}
	}
	each(t, b, []call{{request: open("s", `,"cwd":"`+later+`/sub"`), want: `{"cwd":"/workspace/` + later + `/sub"}`}})
	b.install(t, file("token", later))
	says("a secret of later", later)
	b.closeShell(t, "s")
}
