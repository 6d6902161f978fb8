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
