package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

// setSecrets stores secrets, which must succeed.
func setSecrets(t *testing.T, c *wire.Client, secrets map[string]string) wire.SecretsResult {
	t.Helper()
	r, err := c.SetSecrets(t.Context(), wire.SetSecretsRequest{Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A secret is stored once, and every client lists its name, passes it to commands, and removes it.
func TestSecretStore(t *testing.T) {
	t.Parallel()
	b := bare(t)
	if r, err := b.client.ListSecrets(t.Context()); err != nil || r.Names == nil || len(r.Names) != 0 || r.Path != "" {
		t.Errorf("of a new agent: %+v, %v", r, err)
	}
	setSecrets(t, b.client, map[string]string{"TOKEN": "first-value", "KEY": "another-value\n"})
	if r := setSecrets(t, b.client, map[string]string{"TOKEN": "second-value"}); strings.Join(r.Names, " ") != "KEY TOKEN" || r.Path != "" {
		t.Errorf("%+v", r)
	}
	if found, _ := filepath.Glob(filepath.Join(b.secrets, "*")); len(found) != 0 {
		t.Errorf("secrets in memory are in files: %q", found)
	}
	lengths := wire.ExecRequest{Argv: []string{"sh", "-c", `echo ${#TOKEN} ${#KEY} ${#OWN}; echo "$TOKEN"`}, SecretEnv: []string{"TOKEN", "KEY"}, Env: map[string]string{"KEY": "own", "OWN": "x"}}
	if r, err := b.client.Exec(t.Context(), lengths); err != nil || r.Stdout != "12 3 1\n[REDACTED]\n" {
		t.Errorf("%+v, %v", r, err)
	}
	lengths.ClearEnv, lengths.Argv[0] = true, "/bin/sh"
	if r, err := b.client.Exec(t.Context(), lengths); err != nil || r.Stdout != "12 3 1\n[REDACTED]\n" {
		t.Errorf("with a whole environment: %+v, %v", r, err)
	}
	if r, err := b.client.DeleteSecrets(t.Context(), "TOKEN"); err != nil || strings.Join(r.Names, " ") != "KEY" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: "echo first-value second-value another-value"}); err != nil || r.Stdout != "first-value second-value [REDACTED]\n" {
		t.Errorf("after a removal: %+v, %v", r, err)
	}
	r, err := b.client.SetSecrets(t.Context(), wire.SetSecretsRequest{Secrets: map[string]string{"ONLY": "only-value"}, Replace: true})
	if err != nil || strings.Join(r.Names, " ") != "ONLY" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Secrets can be files, too, beside those that are in memory alone.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	b := bare(t)
	setSecrets(t, b.client, map[string]string{"HIDDEN": "in-memory-alone"})
	names := func() string {
		found, _ := filepath.Glob(filepath.Join(b.secrets, "*"))
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		return strings.Join(found, " ")
	}
	files := func(replace bool, secrets map[string]string) wire.SecretsResult {
		r, err := b.client.SetSecrets(t.Context(), wire.SetSecretsRequest{Secrets: secrets, Files: true, Replace: replace})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	files(false, map[string]string{"A": "aaaa", "B": "bbbb\n"})
	if r := files(false, map[string]string{"A": "AAAA"}); strings.Join(r.Names, " ") != "A B HIDDEN" || r.Path == "" {
		t.Errorf("%+v", r)
	}
	holds(t, "AAAA", b.secrets, "A")
	holds(t, "bbbb\n", b.secrets, "B")
	hasMode(t, 0o600, b.secrets, "A")
	if got := names(); got != "A B" {
		t.Errorf("files: %s", got)
	}
	setSecrets(t, b.client, map[string]string{"A": "no-file-now"})
	if got := names(); got != "B" {
		t.Errorf("after one was set without a file: %s", got)
	}
	if r, err := b.client.DeleteSecrets(t.Context(), "B"); err != nil || r.Path != "" || names() != "" {
		t.Errorf("%+v, %v, %s", r, err, names())
	}
	b.install(t, file("d", "of an archive"))
	_, err := b.client.SetSecrets(t.Context(), wire.SetSecretsRequest{Secrets: map[string]string{"C": "cccc"}, Files: true})
	if werr := (*wire.Error)(nil); !errors.As(err, &werr) || werr.Code != wire.CodeConflict {
		t.Errorf("files beside an archive's: %v", err)
	}
	holds(t, "of an archive", b.secrets, "d")
	setSecrets(t, b.client, map[string]string{"C": "cccc"})
	if r, err := b.client.Exec(t.Context(), wire.ExecRequest{Command: "echo of an archive no-file-now cccc in-memory-alone"}); err != nil || r.Stdout != strings.Repeat("[REDACTED] ", 3)+"[REDACTED]\n" {
		t.Errorf("%+v, %v", r, err)
	}
	b.install(t)
	files(false, map[string]string{"C": "CCCC"})
	holds(t, "CCCC", b.secrets, "C")
}

// Everything that runs hides a secret from the moment that it is set, also where reads split it,
// and goes on hiding it after it was removed.
func TestSecretsOfWhatRuns(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const value = "split-over-two-reads"
	script := func(name string) string {
		return fmt.Sprintf(`until [ -e go ]; do sleep 0.1; done; printf split-over; sleep 0.2; echo -two-reads; touch %s; until [ -e deleted ]; do sleep 0.1; done; echo %s`, name, value)
	}
	job := startBackground(t, b.client, script("job"))
	each(t, b, []call{{request: service("s", strings.ReplaceAll(script("service"), `"`, `\"`), "")}})
	each(t, b, []call{{request: open("sh", "")}})
	_, err := wire.Call(t.Context(), b.client, wire.WriteShell, wire.WriteShellRequest{ShellID: "sh", Input: "(" + strings.ReplaceAll(script("shell"), "split-over-two-reads", "split-over-two-''reads") + "); exit"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.client.OpenSession(t.Context(), wire.OpenSessionRequest{SessionID: "n"})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan string, 1)
	go func() {
		r, err := b.client.RunSession(t.Context(), wire.RunSessionRequest{SessionID: session.SessionID, Command: osstring.String(script("session"))})
		var out strings.Builder
		for _, c := range r.Output {
			out.WriteString(c.Data)
		}
		ran <- fmt.Sprint(out.String(), err)
	}()
	setSecrets(t, b.client, map[string]string{"TOKEN": value})
	list, err := b.client.ListExecs(t.Context())
	if err != nil || strings.Contains(list[0].Command, value) {
		t.Errorf("the list of commands: %+v, %v", list, err)
	}
	put(t, "", b.workspace, "go")
	for _, name := range []string{"job", "service", "shell", "session"} {
		eventually(t, "the "+name+" has printed it", func() bool {
			_, err := os.Stat(filepath.Join(b.workspace, name))
			return err == nil
		})
	}
	if _, err := b.client.DeleteSecrets(t.Context(), "TOKEN"); err != nil {
		t.Fatal(err)
	}
	put(t, "", b.workspace, "deleted")
	const want = "[REDACTED]\n[REDACTED]\n"
	if stdout, _, _ := readAll(t, b.client, job.ID); stdout != want {
		t.Errorf("the command in the background: %q", stdout)
	}
	if got := <-ran; got != want+"<nil>" {
		t.Errorf("the session: %q", got)
	}
	eventually(t, "the service has printed it again", func() bool {
		got := b.exchange(t, []byte(`{"action":"logs_service","service_name":"s"}`+"\n"))
		if bytes.Contains(got, []byte(value)) {
			t.Fatalf("the service: %s", got)
		}
		return bytes.Contains(got, []byte(`[REDACTED]\n[REDACTED]\n`))
	})
	eventually(t, "the shell has printed it again", func() bool {
		r, err := wire.Call(t.Context(), b.client, wire.ReadShell, wire.ReadShellRequest{ShellID: "sh"})
		if err != nil || strings.Contains(r.Output, value) {
			t.Fatalf("the shell: %q, %v", r.Output, err)
		}
		return strings.Contains(r.Output, "[REDACTED]\r\n[REDACTED]\r\n")
	})
}

// A shell, a service and a session get secrets by name; a session's next shell has the same.
func TestSecretEnv(t *testing.T) {
	t.Parallel()
	b := bare(t)
	setSecrets(t, b.client, map[string]string{"TOKEN": "twelve-bytes"})
	const by = `,"secret_env":["TOKEN"]`
	each(t, b, []call{{request: service("s", `echo $TOKEN ${#TOKEN} >out; sleep 1000`, by+`,"readiness":{"type":"file","path":"out"}`)}})
	eventually(t, "the service has the secret", func() bool {
		text, _ := os.ReadFile(filepath.Join(b.workspace, "out"))
		return string(text) == "twelve-bytes 12\n"
	})
	each(t, b, []call{{request: open("sh", by)}})
	if _, err := wire.Call(t.Context(), b.client, wire.WriteShell, wire.WriteShellRequest{ShellID: "sh", Input: `echo "<$TOKEN>" ${#TOKEN}`}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shell has the secret", func() bool {
		r, err := wire.Call(t.Context(), b.client, wire.ReadShell, wire.ReadShellRequest{ShellID: "sh"})
		return err == nil && strings.Contains(r.Output, "<[REDACTED]> 12\r\n")
	})
	if _, err := b.client.OpenSession(t.Context(), wire.OpenSessionRequest{SessionID: "n", SecretEnv: []string{"TOKEN"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.DeleteSecrets(t.Context(), "TOKEN"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := b.client.RunSession(t.Context(), wire.RunSessionRequest{SessionID: "n", Command: `echo "$TOKEN" ${#TOKEN}`})
		if err != nil || len(r.Output) != 1 || r.Output[0].Data != "[REDACTED] 12\n" {
			t.Errorf("the session: %+v, %v", r, err)
		}
		if _, err := b.client.RestartSession(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
	}
}

// What cannot be stored or used is refused, without a part of a value, and changes nothing.
func TestSecretStoreRefuses(t *testing.T) {
	t.Parallel()
	b := bare(t)
	setSecrets(t, b.client, map[string]string{"KEPT": "kept-value"})
	const secret = "RVvalueSecret77"
	set := func(fields string) string { return `{"action":"set_secrets",` + fields + `}` }
	var many, big []string
	for i := range 129 {
		many = append(many, fmt.Sprintf(`"N%d":"value"`, i))
	}
	for i := range 3 {
		big = append(big, fmt.Sprintf(`"B%d":%q`, i, strings.Repeat("x", 60<<10)))
	}
	names := strings.TrimSuffix(strings.Repeat(`"KEPT",`, 65), ",")
	for name, c := range map[string]struct{ request, code, message string }{
		"nothing":            {set(`"replace":true`), "bad_request", "secrets is required"},
		"an empty set":       {set(`"secrets":{}`), "bad_request", "secrets is required"},
		"a list":             {set(`"secrets":["` + secret + `"]`), "bad_request", "secrets must be a JSON object"},
		"a text":             {set(`"secrets":"` + secret + `"`), "bad_request", "secrets must be a JSON object"},
		"a value's type":     {set(`"secrets":{"A":["` + secret + `"]}`), "bad_request", "must be"},
		"no name":            {set(`"secrets":{"":"` + secret + `"}`), "bad_request", `cannot set secret "": a name has`},
		"a path":             {set(`"secrets":{"../x":"` + secret + `"}`), "bad_request", `cannot set secret "../x": a name has`},
		"a digit first":      {set(`"secrets":{"9A":"` + secret + `"}`), "bad_request", "a name has"},
		"a long name":        {set(`"secrets":{"` + strings.Repeat("A", 65) + `":"` + secret + `"}`), "bad_request", "a name has"},
		"a control":          {set(`"secrets":{"A\u001b":"` + secret + `"}`), "bad_request", `cannot set secret "A\x1b": a name has`},
		"a short value":      {set(`"secrets":{"A":"abc\r\n"}`), "bad_request", "at least 4 bytes"},
		"an empty value":     {set(`"secrets":{"A":""}`), "bad_request", "at least 4 bytes"},
		"a NUL byte":         {set(`"secrets":{"A":"` + secret + `\u0000"}`), "bad_request", "NUL byte"},
		"a long value":       {set(`"secrets":{"A":"` + strings.Repeat("x", 64<<10+1) + `"}`), "bad_request", "at most 65536 bytes"},
		"one of them":        {set(`"secrets":{"A":"` + secret + `","B":"x"}`), "bad_request", `cannot set secret "B"`},
		"too many":           {set(`"secrets":{` + strings.Join(many, ",") + `}`), "too_large", "at most 128"},
		"too much":           {set(`"secrets":{` + strings.Join(big, ",") + `}`), "too_large", "131072 bytes together"},
		"no names to delete": {`{"action":"delete_secrets"}`, "bad_request", "names is required"},
		"an unknown name":    {`{"action":"delete_secrets","names":["KEPT","NONE"]}`, "not_found", `cannot delete secret "NONE": unknown name`},
		"an exec's":          {`{"argv":["true"],"secret_env":["NONE"]}`, "bad_request", `cannot use secret "NONE": unknown name`},
		"a streamed exec's":  {`{"argv":["true"],"stream":true,"secret_env":["NONE"]}`, "bad_request", `cannot use secret "NONE": unknown name`},
		"a background's":     {`{"action":"start_exec","argv":["true"],"secret_env":["NONE"]}`, "bad_request", `cannot use secret "NONE": unknown name`},
		"a shell's":          {open("x", `,"secret_env":["NONE"]`), "bad_request", `cannot use secret "NONE": unknown name`},
		"a service's":        {service("x", "true", `,"secret_env":["NONE"]`), "bad_request", `cannot use secret "NONE": unknown name`},
		"a session's":        {`{"action":"open_session","session_id":"x","secret_env":["NONE"]}`, "bad_request", `cannot use secret "NONE": unknown name`},
		"too many names":     {`{"argv":["true"],"secret_env":[` + names + `]}`, "bad_request", "secret_env must have at most 64 names"},
		"names as a text":    {`{"argv":["true"],"secret_env":"KEPT"}`, "bad_request", "secret_env must be a list"},
		"texts as a text":    {`{"action":"redact_texts","texts":"x"}`, "bad_request", "texts must be a list"},
	} {
		got := b.exchange(t, []byte(c.request+"\n"))
		answer := answerOf(t, got)
		if text, _ := answer["error"].(string); answer["code"] != c.code || !strings.Contains(text, c.message) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s: got %.300q, want %s, %s", name, got, c.code, c.message)
		}
	}
	if r, err := b.client.ListSecrets(t.Context()); err != nil || strings.Join(r.Names, " ") != "KEPT" {
		t.Errorf("%+v, %v", r, err)
	}
	if texts, err := b.client.RedactTexts(t.Context(), "a kept-value", secret, ""); err != nil || strings.Join(texts, "|") != "a [REDACTED]|"+secret+"|" {
		t.Errorf("%q, %v", texts, err)
	}
	if _, err := b.client.SetSecrets(t.Context(), wire.SetSecretsRequest{Secrets: map[string]string{"A": "\xff\xfe\xfd\xfc"}}); err == nil {
		t.Error("a value that JSON cannot carry was sent")
	}
}
